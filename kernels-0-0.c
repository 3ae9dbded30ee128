typedef long long i64; typedef unsigned long long u64;
float weave(float x, int i);
__attribute__((visibility("hidden"))) extern const float shared_table[5];
void scale(void *const *buf, i64 lo, i64 hi, u64 *error) {
    const float *a = buf[0], *w = buf[1]; float *t = buf[2]; (void)error;
    for (i64 i = lo * TILE; i < hi * TILE; i++) t[i] = a[i] * w[i];
}
void mix(void *const *buf, i64 lo, i64 hi, u64 *error) {
    const float *t = buf[0], *b = buf[1]; float *s = buf[2], *y = buf[3]; (void)error;
    for (i64 c = lo; c < hi; c++) {
        for (int i = 0; i < TILE; i++) s[i] = t[c * TILE + i] + b[c * TILE + i];
        for (int i = 0; i < TILE; i++) y[c * TILE + i] = weave(s[i], i % 16) + shared_table[i % 16 % 5];
    }
}
void pick(void *const *buf, i64 lo, i64 hi, u64 *error) {
    const float *y = buf[0]; const int *at = buf[1]; float *out = buf[2]; u64 *runs = buf[3];
    for (i64 c = lo; c < hi; c++) {
        for (int i = 0; i < 40; i++) {
            int k = at[i];
            if (k < 0 || k >= 4096) { if (!*error) *error = 7 << 8 | 1; k = 0; }
            out[i] = y[k];
        }
        ++*runs;
    }
}
