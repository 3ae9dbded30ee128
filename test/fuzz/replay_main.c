/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz driver over kept inputs without libFuzzer: every regular file named, and every one in the folders named. A
 * folder that does not exist holds nothing. The driver is also given each input's prefixes of a few lengths: cheap, and
 * truncation is what a reader gets wrong first.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy of exactly n bytes, so that AddressSanitizer sees a read past the end. */
static void run_prefix(const uint8_t *data, size_t n)
{
    uint8_t *copy = calloc(n ? n : 1, 1);
    if (!copy)
        abort();
    memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    size_t size = 0, room = 1 << 16;
    uint8_t *data = malloc(room);
    while (data) {
        size += fread(data + size, 1, room - size, file);
        if (size < room)
            break;
        room *= 2;
        uint8_t *larger = realloc(data, room);
        if (!larger)
            free(data);
        data = larger;
    }
    fclose(file);
    if (!data)
        return 1;
    fprintf(stderr, "%s (%zu bytes)\n", path, size);
    run_prefix(data, size);
    for (size_t part = 1; part < 8; part++)
        run_prefix(data, size * part / 8);
    free(data);
    return 0;
}

static int run_folder(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort), bad = 0;
    for (int i = 0; i < n; i++) {
        char full[4096];
        struct stat info;
        snprintf(full, sizeof full, "%s/%s", path, entries[i]->d_name);
        if (stat(full, &info) == 0 && S_ISREG(info.st_mode))
            bad |= run_file(full);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = 0;
    run_prefix((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat info;
        if (stat(argv[i], &info) != 0)
            continue;
        bad |= S_ISDIR(info.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
    return bad;
}
