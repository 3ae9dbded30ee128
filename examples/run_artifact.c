/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a compiled model with the runtime alone:
 *
 *     run_artifact NET.so [-t THREADS] [-e ENTRY] [NAME=FILE ...]
 *
 * FILE holds the raw bytes of input NAME (packed, row-major, little-endian); inputs without one are filled with a ramp.
 * Sizes with a range are the largest. Prints the first elements of every output.
 */
#include "igata_rt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IO = 256, MAX_SIZES = 256, MAX_RANK = 64 };

static int fail(const char *what, igata_status status)
{
    fprintf(stderr, "%s: %s\n", what, igata_status_text(status));
    return 1;
}

static void *allocate(size_t bytes)
{
    void *p = aligned_alloc(IGATA_ALIGN, (bytes + IGATA_ALIGN) / IGATA_ALIGN * IGATA_ALIGN);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static size_t elements(const igata_value *v, const int64_t *dims)
{
    size_t n = 1;
    for (size_t i = 0; i < v->rank; i++)
        n *= (size_t)dims[i];
    return n;
}

/* A value for input elements that nobody gave: 0, 1/8, 2/8 ... for floats, zero for the rest (indices stay in range).
 */
static void fill(const igata_value *v, void *data)
{
    for (size_t i = 0; i < elements(v, v->bounds) && v->dtype == IGATA_F32; i++)
        ((float *)data)[i] = (float)(i % 17) * 0.125f;
    for (size_t i = 0; i < elements(v, v->bounds) && v->dtype == IGATA_F64; i++)
        ((double *)data)[i] = (double)(i % 17) * 0.125;
}

static int load(const char *path, const igata_value *v, void *data)
{
    FILE *file = fopen(path, "rb");
    int good = file && fread(data, 1, v->bytes, file) == v->bytes && fgetc(file) == EOF;
    if (file)
        fclose(file);
    if (!good)
        fprintf(stderr, "%s does not hold the %zu bytes of input %s\n", path, v->bytes, v->name);
    return good;
}

static void print(const igata_value *v, const int64_t *dims, const void *data)
{
    size_t n = elements(v, dims), shown = n < 8 ? n : 8;
    printf("%s [", v->name);
    for (size_t i = 0; i < v->rank; i++)
        printf("%s%" PRId64, i ? "," : "", dims[i]);
    printf("] =");
    for (size_t i = 0; i < shown; i++)
        switch (v->dtype) {
        case IGATA_F32:
            printf(" %.9g", (double)((const float *)data)[i]);
            break;
        case IGATA_F64:
            printf(" %.17g", ((const double *)data)[i]);
            break;
        case IGATA_S64:
            printf(" %" PRId64, ((const int64_t *)data)[i]);
            break;
        case IGATA_S32:
            printf(" %" PRId32, ((const int32_t *)data)[i]);
            break;
        case IGATA_BOOL:
            printf(" %s", ((const uint8_t *)data)[i] ? "true" : "false");
            break;
        default:
            printf(" %02x", ((const uint8_t *)data)[i]);
            break; /* bytes of other types */
        }
    printf("%s\n", shown < n ? " ..." : "");
}

int main(int argc, char **argv)
{
    igata_model *model;
    igata_pool *pool;
    igata_entry entry = {.size = sizeof entry};
    igata_model_info info = {.size = sizeof info};
    igata_value values[MAX_IO];
    void *io[MAX_IO + 1];
    int64_t sizes[MAX_SIZES] = {0}, dims[MAX_RANK];
    unsigned threads = 1;
    const char *entry_name = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: %s NET.so [-t THREADS] [-e ENTRY] [NAME=FILE ...]\n", argv[0]);
        return 2;
    }
    for (int i = 2; i + 1 < argc; i++) {
        if (strcmp(argv[i], "-t") == 0)
            threads = (unsigned)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "-e") == 0)
            entry_name = argv[i + 1];
    }

    igata_status status = igata_open(argv[1], NULL, &model);
    if (status != IGATA_OK)
        return fail(argv[1], status);
    int number = entry_name ? igata_entry_find(model, entry_name) : 0;
    if (number < 0 || igata_entry_info(model, (size_t)number, &entry) != IGATA_OK)
        return fail("entry", IGATA_E_ARGUMENT);
    igata_info(model, &info);
    if (entry.inputs + entry.outputs > MAX_IO || entry.sizes + entry.found > MAX_SIZES)
        return fail("inputs and outputs", IGATA_E_ARGUMENT);

    for (size_t i = 0; i < entry.inputs + entry.outputs; i++) {
        values[i].size = sizeof values[i];
        igata_io_info(model, (size_t)number, i, &values[i]);
        io[i] = allocate(values[i].bytes);
        if (i >= entry.inputs)
            continue;
        size_t length = strlen(values[i].name);
        fill(&values[i], io[i]);
        for (int a = 2; a < argc; a++)
            if (strncmp(argv[a], values[i].name, length) == 0 && argv[a][length] == '=' &&
                !load(argv[a] + length + 1, &values[i], io[i]))
                return 1;
    }
    for (size_t i = 0; i < entry.sizes; i++) { /* what the run finds it writes behind these */
        igata_size size = {.size = sizeof size};
        igata_size_info(model, (size_t)number, i, &size);
        sizes[i] = size.hi;
    }
    io[entry.inputs + entry.outputs] = sizes;
    void *workspace = allocate(igata_workspace(model, (size_t)number, threads)), *state = allocate(info.state_bytes);

    status = igata_pool_create(threads, 0, &pool); /* for one thread, igata_run needs no pool */
    if (status != IGATA_OK)
        return fail("threads", status);
    status = igata_pool_run(pool, model, (size_t)number, io, workspace, state);
    const char *node = igata_error_node(model, igata_pool_error(pool));
    igata_pool_destroy(pool);
    if (status != IGATA_OK)
        return fail(node ? node : "run", status);
    for (size_t i = entry.inputs; i < entry.inputs + entry.outputs; i++)
        if (igata_shape(model, (size_t)number, i, sizes, dims) == IGATA_OK)
            print(&values[i], dims, io[i]);

    for (size_t i = 0; i < entry.inputs + entry.outputs; i++)
        free(io[i]);
    free(workspace);
    free(state);
    igata_close(model);
    return 0;
}
