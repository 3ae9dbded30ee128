/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening an artifact. The file is first mapped and its description checked, so that a damaged file, another machine's
 * file or one that this CPU cannot run is a status before any of it is loaded. Then dlopen maps it for good: debuggers
 * and profilers learn of it that way, and it takes about 20 us as there is nothing to relocate. A statically linked
 * program has no dlopen; there (and with IGATA_MMAP) the segments are mapped here, which the format makes simple.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rt/rt_int.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Weak, so that static programs need not have a loader in them; those of glibc often do, and warn of it when linked. */
#pragma weak dlopen
#pragma weak dlsym
#pragma weak dlclose

typedef struct File {
    int fd;
    const uint8_t *data;
    size_t size;
    const ArtHeader *h;
} File;

static igata_status map_file(const char *path, File *file)
{
    struct stat info;
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0)
        return IGATA_E_FILE;
    if (fstat(file->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return IGATA_E_FILE;
    if ((size_t)info.st_size < sizeof(Elf64_Ehdr))
        return IGATA_E_FORMAT;
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (data == MAP_FAILED)
        return IGATA_E_MEMORY;
    file->data = data;
    file->size = (size_t)info.st_size;
    file->h = art_find(file->data, file->size);
    if (!file->h || file->h->variants.count == 0)
        return IGATA_E_FORMAT;
    return file->h->machine == (uint32_t)rt_cpu_machine() ? IGATA_OK : IGATA_E_MACHINE;
}

static void close_file(File *file)
{
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->size);
    if (file->fd >= 0)
        close(file->fd);
}

static int count_bits(uint64_t x)
{
    int n = 0;
    for (; x; x &= x - 1)
        n++;
    return n;
}

/* The variant by name, or the runnable one that asks most of the CPU. */
static igata_status choose_variant(const ArtHeader *h, const igata_open_options *o, uint32_t *chosen)
{
    const ArtRecVariant *variants = ART_TABLE(h, variants, ArtRecVariant);
    uint64_t cpu = rt_cpu_features() & ~o->cpu_without;
    int best = -1;
    bool named = false;
    for (uint32_t i = 0; i < h->variants.count; i++) {
        if (o->variant && strcmp(o->variant, art_text(h, variants[i].name)) != 0)
            continue;
        named = true;
        int bits = count_bits(variants[i].features);
        if ((variants[i].features & ~cpu) || bits <= best)
            continue;
        best = bits;
        *chosen = i;
    }
    return best >= 0 ? IGATA_OK : named ? IGATA_E_CPU : IGATA_E_VARIANT;
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static int protection(uint32_t flags) { return (flags & PF_R ? PROT_READ : 0) | (flags & PF_X ? PROT_EXEC : 0); }

/* Maps the PT_LOAD segments at their distances. Nothing needs patching, so nothing is mapped writable. */
static igata_status load_by_mmap(const File *file, igata_model *model)
{
    Elf64_Ehdr eh;
    Elf64_Phdr ph;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = 0;
    memcpy(&eh, file->data, sizeof eh);
    for (uint32_t i = 0; i < eh.e_phnum; i++) {
        memcpy(&ph, file->data + eh.e_phoff + i * sizeof ph, sizeof ph);
        if (ph.p_type != PT_LOAD)
            continue;
        if (ph.p_offset % page || ph.p_vaddr != ph.p_offset || !art_in(ph.p_offset, ph.p_filesz, file->size) ||
            ph.p_memsz != ph.p_filesz)
            return IGATA_E_FORMAT;
        if (ph.p_vaddr + ph.p_memsz > end)
            end = ph.p_vaddr + ph.p_memsz;
    }
    if (end == 0)
        return IGATA_E_FORMAT;
    uint8_t *base = mmap(NULL, end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return IGATA_E_MEMORY;
    model->mapping = base;
    model->mapping_bytes = end;
    for (uint32_t i = 0; i < eh.e_phnum; i++) {
        memcpy(&ph, file->data + eh.e_phoff + i * sizeof ph, sizeof ph);
        if (ph.p_type != PT_LOAD || ph.p_filesz == 0)
            continue;
        if (mmap(base + ph.p_vaddr, ph.p_filesz, protection(ph.p_flags), MAP_PRIVATE | MAP_FIXED, file->fd,
                 (off_t)ph.p_offset) == MAP_FAILED)
            return IGATA_E_MEMORY;
    }
    model->h = (const ArtHeader *)(const void *)(base + ((const uint8_t *)file->h - file->data));
    return IGATA_OK;
}

/* Whether dlopen gave the file that was checked: its description holds the build id, which covers the code. It does not
 * where the path has been opened before and its file been replaced since (the loader goes by name). */
static bool load_by_dlopen(const char *path, const File *file, igata_model *model)
{
    char local[4096]; /* a name without '/' would be searched for */
    if (!strchr(path, '/')) {
        int n = snprintf(local, sizeof local, "./%s", path);
        if (n < 0 || (size_t)n >= sizeof local)
            return false;
        path = local;
    }
    model->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    model->h = model->handle ? dlsym(model->handle, ART_SYMBOL) : NULL;
    if (model->h && memcmp(model->h, file->h, file->h->bytes) == 0)
        return true;
    if (model->handle)
        dlclose(model->handle);
    model->handle = NULL;
    return false;
}

static igata_status load(const char *path, unsigned flags, const File *file, igata_model *model)
{
    bool loader = getauxval(AT_BASE) != 0 && dlopen && dlsym && dlclose; /* AT_BASE: where the dynamic loader is */
    if (loader && !(flags & IGATA_MMAP) && load_by_dlopen(path, file, model))
        return IGATA_OK;
    return load_by_mmap(file, model);
}

static igata_status prepare_weights(const igata_model *model, unsigned flags)
{
    size_t bytes = model->h->weights_bytes;
    if (bytes == 0)
        return IGATA_OK;
    if (flags & IGATA_PREFAULT) {
        volatile const uint8_t *p = model->weights;
        for (size_t i = 0; i < bytes; i += 4096)
            (void)p[i];
    }
    return flags & IGATA_LOCK && mlock(model->weights, bytes) != 0 ? IGATA_E_MEMORY : IGATA_OK;
}

static igata_status open_checked(const char *path, const igata_open_options *o, const File *file, igata_model *model)
{
    uint32_t chosen = 0;
    igata_status status = choose_variant(file->h, o, &chosen);
    if (status != IGATA_OK)
        return status;
    if (o->flags & IGATA_CHECK && !rt_hash_matches(file->data, file->size))
        return IGATA_E_HASH;
    status = load(path, o->flags, file, model);
    if (status != IGATA_OK)
        return status;
    const ArtHeader *h = model->h;
    model->entries = ART_TABLE(h, entries, ArtRecEntry);
    model->values = ART_TABLE(h, values, ArtRecValue);
    model->phases = ART_TABLE(h, phases, ArtRecPhase);
    model->bufs = ART_TABLE(h, bufs, ArtRecBuf);
    model->steps = ART_TABLE(h, steps, ArtRecStep);
    model->variant = ART_TABLE(h, variants, ArtRecVariant) + chosen;
    model->bodies = ART_TABLE(h, bodies, ArtRecBody) + model->variant->first_body;
    model->kernels = ART_TABLE(h, kernels, ArtRecKernel) + model->variant->first_kernel;
    model->weights = (const uint8_t *)h + h->weights;
    model->fp_mode = h->flags & ART_FLAG_FTZ ? RT_FP_FTZ : RT_FP_PLAIN;
    return prepare_weights(model, o->flags);
}

igata_status igata_open(const char *path, const igata_open_options *options, igata_model **model)
{
    igata_open_options o = {.size = sizeof o};
    if (!path || !model)
        return IGATA_E_ARGUMENT;
    *model = NULL;
    if (options) {
        if (options->size < sizeof o.size || options->size > sizeof o)
            return IGATA_E_ARGUMENT;
        memcpy(&o, options, options->size);
    }
    File file = {.fd = -1};
    igata_model *m = calloc(1, sizeof *m);
    if (!m)
        return IGATA_E_MEMORY;
    igata_status status = map_file(path, &file);
    if (status == IGATA_OK)
        status = open_checked(path, &o, &file, m);
    close_file(&file);
    if (status == IGATA_OK)
        *model = m;
    else
        igata_close(m);
    return status;
}

void igata_close(igata_model *model)
{
    if (!model)
        return;
    if (model->handle)
        dlclose(model->handle);
    if (model->mapping)
        munmap(model->mapping, model->mapping_bytes);
    free(model);
}
