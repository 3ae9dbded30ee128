__attribute__((visibility("hidden"))) extern const float shared_table[5];
const float shared_table[5] = {1.5f, -2.25f, 3.125f, 0.5f, 8.0f};
float weave(float x, int i) {
    switch (i) {
    case 0: return x * 3.0f; case 1: return x - 7.0f; case 2: return 1.25f / x; case 3: return -x;
    case 4: return x * x; case 5: return x + 0.1f; case 6: return 11.0f; case 7: return x * 0.3f;
    default: return x + shared_table[(i + 1) % 5];
    }
}
