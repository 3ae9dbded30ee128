/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads handwritten digits with a compiled network, by the runtime alone:
 *
 *     digits NET.so IMAGES.npy LABELS.npy
 *
 * Draws one image of each digit and the images that the network gets wrong, with its answers; the last line says how
 * many it got right. The batch size is taken from the artifact: images go through it in portions of that many.
 */
#include "igata_rt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE, CLASSES = 10, ABREAST = 4, CELL = 2 * SIDE, GAP = 3 };

typedef struct Answer {
    int digit, label;
    double probability;
} Answer;

static _Noreturn void fail(const char *subject, const char *text)
{
    fprintf(stderr, "%s: %s\n", subject, text);
    exit(1);
}

static void expect(const char *subject, igata_status status)
{
    if (status != IGATA_OK)
        fail(subject, igata_status_text(status));
}

/* Zeroed, with the alignment that a run asks for. */
static void *allocate(size_t bytes)
{
    size_t rounded = (bytes + IGATA_ALIGN) / IGATA_ALIGN * IGATA_ALIGN;
    void *p = aligned_alloc(IGATA_ALIGN, rounded);
    if (!p)
        fail("memory", "exhausted");
    return memset(p, 0, rounded);
}

/* The elements of a .npy file (version 1, C order) whose element type is `descr`; *count is its first dimension. */
static void *read_npy(const char *path, const char *descr, size_t row_bytes, size_t *count)
{
    unsigned char head[10];
    char text[1024];
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path, "cannot be opened");
    if (fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY\x01", 7) != 0)
        fail(path, "is not a .npy file of version 1");
    size_t length = head[8] | (size_t)head[9] << 8;
    if (length >= sizeof text || fread(text, 1, length, file) != length)
        fail(path, "has a damaged header");
    text[length] = 0;
    const char *shape = strstr(text, "'shape': (");
    if (!strstr(text, descr) || !strstr(text, "'fortran_order': False") || !shape)
        fail(path, "is of another type");
    *count = strtoul(shape + strlen("'shape': ("), NULL, 10);
    if (*count == 0 || *count > 1000000)
        fail(path, "has an unlikely number of rows");
    void *data = allocate(*count * row_bytes);
    if (fread(data, row_bytes, *count, file) != *count || fgetc(file) != EOF)
        fail(path, "is not as long as it says");
    fclose(file);
    return data;
}

/* Checks that the network maps f32[N,1,8,8] to f32[N,10], and returns N. */
static size_t batch_of(const igata_model *model, const char *path)
{
    igata_entry entry = {.size = sizeof entry};
    igata_value in = {.size = sizeof in}, out = {.size = sizeof out};
    expect(path, igata_entry_info(model, 0, &entry));
    if (entry.inputs != 1 || entry.outputs != 1)
        fail(path, "has other than one input and one output");
    expect(path, igata_io_info(model, 0, 0, &in));
    expect(path, igata_io_info(model, 0, 1, &out));
    if (in.dtype != IGATA_F32 || out.dtype != IGATA_F32 || in.rank < 1 || in.dims[0] < 1 ||
        in.bytes != (size_t)in.dims[0] * PIXELS * sizeof(float) ||
        out.bytes != (size_t)in.dims[0] * CLASSES * sizeof(float))
        fail(path, "does not read 8x8 images of digits");
    return (size_t)in.dims[0];
}

static void classify(const igata_model *model, size_t batch, const float *images, size_t count, Answer *answers)
{
    float *in = allocate(batch * PIXELS * sizeof *in), *out = allocate(batch * CLASSES * sizeof *out);
    void *io[] = {in, out}, *workspace = allocate(igata_workspace(model, 0, 1));
    for (size_t first = 0; first < count; first += batch) {
        size_t n = count - first < batch ? count - first : batch; /* the rest of the last portion is blank */
        memcpy(in, images + first * PIXELS, n * PIXELS * sizeof *in);
        expect("run", igata_run(model, 0, io, workspace, NULL));
        for (size_t i = 0; i < n; i++) {
            Answer *a = &answers[first + i];
            for (int c = 0; c < CLASSES; c++)
                if (c == 0 || (double)out[i * CLASSES + (size_t)c] > a->probability) {
                    a->digit = c;
                    a->probability = (double)out[i * CLASSES + (size_t)c];
                }
        }
    }
    free(in);
    free(out);
    free(workspace);
}

/* Draws images side by side. Their pixels are -0.3 (white) to 0.7 (black), as train.py scales them. */
static void draw(const float *images, const Answer *answers, const size_t *which, size_t n)
{
    static const char ink[] = " .:-=+*#%@";
    for (int y = 0; y < SIDE; y++) {
        for (size_t i = 0; i < n; i++) {
            for (int x = 0; x < SIDE; x++) {
                int level = (int)((images[which[i] * PIXELS + (size_t)(y * SIDE + x)] + 0.3f) * 9.99f);
                char c = ink[level < 0 ? 0 : level > 9 ? 9 : level];
                printf("%c%c", c, c);
            }
            printf("%*s", i + 1 < n ? GAP : 0, "");
        }
        printf("\n");
    }
    for (size_t i = 0; i < n; i++) {
        const Answer *a = &answers[which[i]];
        char text[64];
        int length = snprintf(text, sizeof text, "%d (%.1f %%) ", a->digit, 100 * a->probability);
        length += a->digit == a->label ? snprintf(text + length, sizeof text - (size_t)length, "right")
                                       : snprintf(text + length, sizeof text - (size_t)length, "not %d", a->label);
        printf("%s%*s", text, i + 1 < n ? CELL + GAP - length : 0, "");
    }
    printf("\n\n");
}

static void draw_all(const float *images, const Answer *answers, const size_t *which, size_t n)
{
    for (size_t i = 0; i < n; i += ABREAST)
        draw(images, answers, which + i, n - i < ABREAST ? n - i : ABREAST);
}

int main(int argc, char **argv)
{
    size_t n_images, n_labels, n_first = 0, n_wrong = 0, first[CLASSES], wrong[ABREAST];
    int seen[CLASSES] = {0};
    igata_model *model;
    if (argc < 4) {
        fprintf(stderr, "usage: %s NET.so IMAGES.npy LABELS.npy\n", argv[0]);
        return 2;
    }
    float *images = read_npy(argv[2], "'<f4'", PIXELS * sizeof *images, &n_images);
    int64_t *labels = read_npy(argv[3], "'<i8'", sizeof *labels, &n_labels);
    if (n_labels != n_images)
        fail(argv[3], "has another number of rows than the images");

    expect(argv[1], igata_open(argv[1], NULL, &model));
    Answer *answers = allocate(n_images * sizeof *answers);
    classify(model, batch_of(model, argv[1]), images, n_images, answers);
    igata_close(model);

    for (size_t i = 0; i < n_images; i++) {
        Answer *a = &answers[i];
        a->label = (int)labels[i];
        if (a->label >= 0 && a->label < CLASSES && !seen[a->label]++)
            first[n_first++] = i;
        if (a->digit != a->label && n_wrong++ < ABREAST)
            wrong[n_wrong - 1] = i;
    }
    draw_all(images, answers, first, n_first);
    if (n_wrong > 0)
        printf("wrong%s:\n", n_wrong > ABREAST ? ", among others" : "");
    draw_all(images, answers, wrong, n_wrong < ABREAST ? n_wrong : ABREAST);
    printf("%zu of %zu images right (%.2f %%)\n", n_images - n_wrong, n_images,
           100.0 * (double)(n_images - n_wrong) / (double)n_images);
    free(answers);
    free(images);
    free(labels);
    return 0;
}
