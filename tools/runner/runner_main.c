/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs an artifact of the machine that this program is built for, statically linked, so that an emulator needs no system around it:
 *
 *     igata-runner ARTIFACT FOLDER [THREADS]
 *
 * reads FOLDER/in0 .. (raw elements), runs the first entry (one with sizes to be told is IGATA_E_ARGUMENT) once and writes
 * FOLDER/out0 .., and to FOLDER/found0 the sizes that the run has found, if it finds any. The exit status is the igata_status;
 * after IGATA_E_INDEX and IGATA_E_BOUND, FOLDER/error0 holds the error word. 100: a file cannot be read or written.
 */
#include "igata_rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IO = 4096, MAX_SIZES = 256, MAX_RANK = 64, BAD_FILE = 100 };

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(IGATA_ALIGN, (bytes / IGATA_ALIGN + 1) * IGATA_ALIGN);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static FILE *open_file(const char *folder, const char *stem, size_t index, const char *mode)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s%zu", folder, stem, index) >= (int)sizeof path)
        return NULL;
    return fopen(path, mode);
}

static int load(const char *folder, size_t index, const igata_value *value, void *data)
{
    FILE *file = open_file(folder, "in", index, "rb");
    int good = file && fread(data, 1, value->bytes, file) == value->bytes && fgetc(file) == EOF;
    if (file)
        fclose(file);
    if (!good)
        fprintf(stderr, "igata-runner: in%zu does not hold the %zu bytes of '%s'\n", index, value->bytes, value->name);
    return good;
}

static int store(const char *folder, const char *stem, size_t index, const void *data, size_t bytes)
{
    FILE *file = open_file(folder, stem, index, "wb");
    int good = file && fwrite(data, 1, bytes, file) == bytes;
    if (file)
        good &= fclose(file) == 0;
    if (!good)
        fprintf(stderr, "igata-runner: cannot write %s%zu\n", stem, index);
    return good;
}

/* As many elements as the run has given. */
static int store_output(const char *folder, const igata_model *model, const igata_entry *entry, size_t index, const int64_t *sizes,
                        const void *data, const igata_value *value)
{
    int64_t dims[MAX_RANK];
    size_t bytes = value->bytes;
    if (entry->found && igata_shape(model, 0, entry->inputs + index, sizes, dims) != IGATA_OK)
        return 0;
    for (size_t a = 0; entry->found && a < value->rank; a++) /* of a size 0 the bounds may be, too */
        bytes = value->bounds[a] ? bytes / (size_t)value->bounds[a] * (size_t)dims[a] : 0;
    return store(folder, "out", index, data, bytes);
}

static igata_status run(const igata_model *model, void **io, unsigned threads, const char *folder)
{
    igata_model_info info = {.size = sizeof info};
    igata_pool *pool = NULL;
    uint64_t error = 0;
    igata_info(model, &info);
    void *workspace = allocate(igata_workspace(model, 0, threads)), *state = allocate(info.state_bytes);
    igata_status status = threads > 1 ? igata_pool_create(threads, 0, &pool) : IGATA_OK;
    if (!workspace || !state)
        status = IGATA_E_MEMORY;
    if (status == IGATA_OK && pool) {
        status = igata_pool_run(pool, model, 0, io, workspace, state);
        error = igata_pool_error(pool);
    } else if (status == IGATA_OK) {
        status = igata_run_report(model, 0, io, workspace, state, &error);
    }
    if (pool)
        igata_pool_destroy(pool);
    if (error && !store(folder, "error", 0, &error, sizeof error))
        return BAD_FILE;
    free(workspace);
    free(state);
    return status;
}

int main(int argc, char **argv)
{
    static void *io[MAX_IO + 1];
    static igata_value values[MAX_IO];
    static int64_t sizes[MAX_SIZES];
    igata_model *model;
    igata_open_options options = {.size = sizeof options, .flags = IGATA_MMAP};
    igata_entry entry = {.size = sizeof entry};
    if (argc < 3) {
        fprintf(stderr, "usage: igata-runner ARTIFACT FOLDER [THREADS]\n");
        return IGATA_E_ARGUMENT;
    }
    unsigned threads = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    igata_status status = igata_open(argv[1], &options, &model);
    if (status != IGATA_OK) {
        fprintf(stderr, "igata-runner: %s: %s\n", argv[1], igata_status_text(status));
        return status;
    }
    igata_entry_info(model, 0, &entry);
    if (entry.inputs + entry.outputs > MAX_IO || entry.sizes || entry.found > MAX_SIZES || threads == 0)
        return IGATA_E_ARGUMENT;
    for (size_t i = 0; i < entry.inputs + entry.outputs; i++) {
        values[i].size = sizeof values[i];
        igata_io_info(model, 0, i, &values[i]);
        io[i] = allocate(values[i].bytes);
        if (!io[i])
            return IGATA_E_MEMORY;
        if (i < entry.inputs && !load(argv[2], i, &values[i], io[i]))
            return BAD_FILE;
    }
    io[entry.inputs + entry.outputs] = sizes;
    status = run(model, io, threads, argv[2]);
    if (status == IGATA_OK && entry.found && !store(argv[2], "found", 0, sizes, entry.found * sizeof *sizes))
        return BAD_FILE;
    for (size_t i = 0; status == IGATA_OK && i < entry.outputs; i++)
        if (!store_output(argv[2], model, &entry, i, sizes, io[entry.inputs + i], &values[entry.inputs + i]))
            return BAD_FILE;
    igata_close(model);
    return status;
}
