/* SPDX-License-Identifier: Apache-2.0
 *
 * Files in and out. Input is mapped, so a model larger than memory costs address space only. Output goes to a temporary
 * file in the same directory and is renamed when complete; a path that is no regular file (a device, a pipe) cannot be
 * replaced and is written directly.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* realpath */
#endif
#include "base/base_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER ((size_t)1 << 16)

static bool report_errno(Context *ctx, DiagId id, const char *path, int code)
{
    char text[256];
    if (strerror_r(code, text, sizeof text) != 0)
        snprintf(text, sizeof text, "error %d", code);
    return diag_report(ctx, 0, id, path, text);
}

static void own_blob(Context *ctx, OwnedBlob *owner, void *data, size_t size, const struct stat *file)
{
    *owner = (OwnedBlob){.next = ctx->blobs, .data = data, .size = size, .mapped = file != NULL};
    if (file)
        owner->file = *file;
    ctx->blobs = owner;
}

static ssize_t read_some(int fd, void *data, size_t size)
{
    ssize_t n;
    do
        n = read(fd, data, size);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Everything up to the end of a stream of unknown length; the growing buffer is owned by the Context throughout. */
static bool read_stream(Context *ctx, int fd, const char *path, Blob *blob)
{
    OwnedBlob *owner = ARENA_NEW(ctx->arena, OwnedBlob);
    own_blob(ctx, owner, ctx_take(ctx, BUFFER), BUFFER, NULL);
    size_t used = 0;
    for (;;) {
        if (used == owner->size) {
            uint8_t *larger = ctx_take(ctx, owner->size * 2);
            memcpy(larger, owner->data, used);
            ctx_give(ctx, owner->data);
            owner->data = larger;
            owner->size *= 2;
        }
        ssize_t n = read_some(fd, (uint8_t *)owner->data + used, owner->size - used);
        if (n < 0)
            return report_errno(ctx, DIAG_file_read, path, errno);
        if (n == 0)
            break;
        used += (size_t)n;
    }
    *blob = (Blob){.data = owner->data, .size = used};
    return true;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static bool map_regular(Context *ctx, int fd, const char *path, const struct stat *file, Blob *blob)
{
    off_t size = file->st_size;
    for (const OwnedBlob *old = ctx->blobs; old; old = old->next)
        if (old->mapped && is_same_file(&old->file, file)) {
            *blob = (Blob){.data = old->data, .size = old->size};
            return true;
        }
    if ((uintmax_t)size > SIZE_MAX)
        return report_errno(ctx, DIAG_file_read, path, EFBIG);
    OwnedBlob *owner = ARENA_NEW(ctx->arena, OwnedBlob);
    void *data = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return report_errno(ctx, DIAG_file_read, path, errno);
    own_blob(ctx, owner, data, (size_t)size, file);
    *blob = (Blob){.data = data, .size = (uint64_t)size};
    return true;
}

typedef struct MapRequest {
    Context *ctx;
    const char *path;
    int fd;
    Blob *blob;
    bool ok;
} MapRequest;

static void map_opened(void *arg)
{
    MapRequest *request = arg;
    struct stat info;
    if (fstat(request->fd, &info) != 0)
        report_errno(request->ctx, DIAG_file_read, request->path, errno);
    else if (S_ISDIR(info.st_mode))
        report_errno(request->ctx, DIAG_file_read, request->path, EISDIR);
    else if (S_ISREG(info.st_mode) && info.st_size > 0)
        request->ok = map_regular(request->ctx, request->fd, request->path, &info, request->blob);
    else /* pipes, devices, and files of /proc, which claim to be empty */
        request->ok = read_stream(request->ctx, request->fd, request->path, request->blob);
}

bool file_map(Context *ctx, const char *path, Blob *blob)
{
    MapRequest request = {.ctx = ctx, .path = path, .fd = STDIN_FILENO, .blob = blob};
    *blob = (Blob){0};
    if (strcmp(path, "-") == 0) {
        request.ok = read_stream(ctx, STDIN_FILENO, "standard input", blob);
        return request.ok;
    }
    request.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (request.fd < 0)
        return report_errno(ctx, DIAG_file_open, path, errno);
    CtxStatus status = ctx_protect(ctx, map_opened, &request); /* the descriptor must not leak when memory ends */
    close(request.fd);
    if (status != CTX_OK)
        ctx_unwind(ctx, status);
    return request.ok;
}

struct FileWriter {
    Context *ctx;
    FileWriter *prev, *next; /* in ctx->writers */
    char *path;              /* as given, for messages */
    char *target;            /* what is renamed over: links resolved */
    char *temporary;         /* NULL where written directly */
    uint8_t *buffer;
    size_t buffered;
    uint64_t offset;
    int fd;
    int failed; /* errno of the first failure */
};

/* The file that `path` names, through symbolic links, or `path` itself where nothing exists yet. */
static char *resolve(Arena *arena, const char *path)
{
    char resolved[PATH_MAX];
    return arena_printf(arena, "%s", realpath(path, resolved) ? resolved : path);
}

static void unlink_writer(FileWriter *file)
{
    Context *ctx = file->ctx;
    if (file->prev)
        file->prev->next = file->next;
    else
        ctx->writers = file->next;
    if (file->next)
        file->next->prev = file->prev;
    ctx_give(ctx, file->buffer);
    file->buffer = NULL;
}

static bool open_temporary(Context *ctx, FileWriter *file, mode_t mode)
{
    char *dir = path_dir(ctx->arena, file->target);
    size_t size = strlen(dir) + 64;
    file->temporary = arena_alloc(ctx->arena, size);
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(file->temporary, size, "%s/.igata-%ld-%u.tmp", dir, (long)getpid(), ctx->n_temporaries++);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->fd >= 0 || errno != EEXIST)
            break;
    }
    return file->fd >= 0;
}

FileWriter *file_create(Context *ctx, const char *path, bool executable)
{
    FileWriter *file = ARENA_NEW(ctx->arena, FileWriter);
    file->ctx = ctx;
    file->path = arena_printf(ctx->arena, "%s", path);
    file->target = resolve(ctx->arena, path);
    file->fd = -1;
    file->buffer = ctx_take(ctx, BUFFER);
    file->next = ctx->writers;
    if (ctx->writers)
        ctx->writers->prev = file;
    ctx->writers = file;

    struct stat info;
    bool exists = stat(path, &info) == 0;
    bool good;
    if (strcmp(path, "-") == 0) {
        file->fd = STDOUT_FILENO;
        good = true;
    } else if (exists && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        good = false;
    } else if (exists && (!S_ISREG(info.st_mode) || info.st_nlink == 0)) { /* no links: nothing to rename over */
        file->fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY);
        good = file->fd >= 0;
    } else {
        good = open_temporary(ctx, file, executable ? 0777 : 0666);
    }
    if (good)
        return file;
    int code = errno;
    unlink_writer(file);
    report_errno(ctx, DIAG_file_open, path, code);
    return NULL;
}

static void write_out(FileWriter *file, const uint8_t *data, size_t size)
{
    while (size && !file->failed) {
        ssize_t n = write(file->fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            file->failed = n < 0 ? errno : EIO;
            return;
        }
        data += n;
        size -= (size_t)n;
    }
}

static void flush(FileWriter *file)
{
    write_out(file, file->buffer, file->buffered);
    file->buffered = 0;
}

void file_write(FileWriter *file, const void *data, size_t size)
{
    if (size == 0)
        return;
    file->offset += size;
    if (size > BUFFER - file->buffered)
        flush(file);
    if (size >= BUFFER) {
        write_out(file, data, size);
    } else {
        memcpy(file->buffer + file->buffered, data, size);
        file->buffered += size;
    }
}

void file_seek_zero_to(FileWriter *file, uint64_t offset)
{
    static const uint8_t zeros[4096];
    IG_CHECK(file->ctx, offset >= file->offset);
    while (file->offset < offset) {
        uint64_t gap = offset - file->offset;
        file_write(file, zeros, gap < sizeof zeros ? (size_t)gap : sizeof zeros);
    }
}

uint64_t file_offset(const FileWriter *file) { return file->offset; }

static void close_writer(FileWriter *file)
{
    if (file->fd != STDOUT_FILENO && close(file->fd) != 0 && !file->failed)
        file->failed = errno;
    file->fd = -1;
}

bool file_commit(FileWriter *file)
{
    flush(file);
    close_writer(file);
    if (!file->failed && file->temporary && rename(file->temporary, file->target) != 0)
        file->failed = errno;
    if (file->failed && file->temporary)
        unlink(file->temporary);
    unlink_writer(file);
    return file->failed ? report_errno(file->ctx, DIAG_file_write, file->path, file->failed) : true;
}

/* What went to a device or to standard output already cannot be taken back. */
void file_abandon(FileWriter *file)
{
    close_writer(file);
    if (file->temporary)
        unlink(file->temporary);
    unlink_writer(file);
}

void file_release_all(Context *ctx)
{
    for (FileWriter *file = ctx->writers, *next; file; file = next) {
        next = file->next;
        if (file->fd >= 0)
            file_abandon(file);
        else
            unlink_writer(file);
    }
    for (OwnedBlob *blob = ctx->blobs; blob; blob = blob->next) {
        if (blob->mapped)
            munmap(blob->data, blob->size);
        else
            ctx_give(ctx, blob->data);
    }
    ctx->blobs = NULL;
}

bool file_write_all(Context *ctx, const char *path, const void *data, size_t size)
{
    FileWriter *file = file_create(ctx, path, false);
    if (!file)
        return false;
    file_write(file, data, size);
    return file_commit(file);
}

char *path_dir(Arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return arena_printf(arena, ".");
    while (slash > path && slash[-1] == '/')
        slash--;
    size_t length = slash == path ? 1 : (size_t)(slash - path);
    char *dir = arena_alloc(arena, length + 1);
    memcpy(dir, path, length);
    return dir;
}

char *path_join(Arena *arena, const char *dir, const char *name)
{
    size_t length = strlen(dir);
    if (name[0] == '/' || length == 0 || strcmp(dir, ".") == 0)
        return arena_printf(arena, "%s", name);
    return arena_printf(arena, "%s%s%s", dir, dir[length - 1] == '/' ? "" : "/", name);
}
