/* SPDX-License-Identifier: Apache-2.0
 * Files: mapping of all kinds of paths, writing all or nothing, nothing left behind. */
#define _XOPEN_SOURCE 700
#include "support/unit.h"

#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static Context *ctx;
static char folder[] = "base_file_XXXXXX";

static int setup_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    return chdir(folder);
}

static int remove_folder(void **state)
{
    (void)state;
    return chdir("..") != 0 || rmdir(folder) != 0;
}

static int entries(void)
{
    int n = 0;
    DIR *dir = opendir(".");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ctx_destroy(ctx);
    return 0;
}

static void test_write_and_map(void **state)
{
    (void)state;
    FileWriter *file = file_create(ctx, "out.bin", false);
    assert_non_null(file);
    file_write(file, "head", 4);
    file_seek_zero_to(file, 100000);
    assert_int_equal(file_offset(file), 100000);
    static uint8_t body[200000];
    memset(body, 0xAB, sizeof body);
    file_write(file, body, sizeof body);
    file_write(file, "t", 1);
    assert_int_not_equal(access("out.bin", F_OK), 0); /* not before it is whole */
    assert_true(file_commit(file));
    assert_int_equal(entries(), 1);

    Blob blob;
    assert_true(file_map(ctx, "out.bin", &blob));
    assert_int_equal(blob.size, 300001);
    assert_memory_equal(blob.data, "head\0\0", 6);
    assert_int_equal(blob.data[99999], 0);
    assert_int_equal(blob.data[100000], 0xAB);
    assert_int_equal(blob.data[300000], 't');
    Blob twice;
    assert_true(file_map(ctx, "./out.bin", &twice));
    assert_ptr_equal(twice.data, blob.data);

    /* A mapped file may be replaced: the map keeps the old bytes. */
    assert_true(file_write_all(ctx, "out.bin", "new", 3));
    assert_int_equal(blob.data[0], 'h');
    Blob again;
    assert_true(file_map(ctx, "out.bin", &again));
    assert_int_equal(again.size, 3);
    unlink("out.bin");
}

static void test_empty_file_and_pipe(void **state)
{
    (void)state;
    assert_true(file_write_all(ctx, "empty", NULL, 0));
    Blob blob;
    assert_true(file_map(ctx, "empty", &blob));
    assert_int_equal(blob.size, 0);
    assert_non_null(blob.data);
    unlink("empty");

    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "through a pipe", 14), 14);
    close(ends[1]);
    int input = dup(STDIN_FILENO);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    bool ok = file_map(ctx, "-", &blob);
    dup2(input, STDIN_FILENO);
    close(input);
    assert_true(ok);
    assert_int_equal(blob.size, 14);
    assert_memory_equal(blob.data, "through a pipe", 14);
    if (access("/proc/self/status", R_OK) == 0) { /* claims size 0 */
        assert_true(file_map(ctx, "/proc/self/status", &blob));
        assert_true(blob.size > 100);
    }
}

static void test_unreadable(void **state)
{
    (void)state;
    Blob blob;
    assert_false(file_map(ctx, "missing", &blob));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_file_open);
    assert_non_null(strstr(diag_get(ctx, 0)->message, "'missing'"));
    assert_false(file_map(ctx, ".", &blob));
    assert_int_equal(diag_get(ctx, 1)->id, DIAG_file_read);
    assert_null(file_create(ctx, "no/such/folder/x", false));
    assert_int_equal(diag_get(ctx, 2)->id, DIAG_file_open);
    assert_null(file_create(ctx, ".", false));
    assert_int_equal(diag_errors(ctx), 4);
    assert_int_equal(entries(), 0);
}

static void test_failed_write_reports_and_leaves_nothing(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) == 0) {
        static const char bytes[100000];
        assert_false(file_write_all(ctx, "/dev/full", bytes, sizeof bytes));
        assert_int_equal(diag_get(ctx, 0)->id, DIAG_file_write);
        diag_clear(ctx);
    }
    FileWriter *file = file_create(ctx, "target", false);
    file_write(file, "x", 1);
    assert_int_equal(mkdir("target", 0777), 0); /* the rename must fail */
    assert_false(file_commit(file));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_file_write);
    rmdir("target");
    assert_int_equal(entries(), 0);
}

static void test_abandoned_files_vanish(void **state)
{
    (void)state;
    assert_true(file_write_all(ctx, "kept", "old", 3));
    FileWriter *file = file_create(ctx, "kept", false);
    file_write(file, "newer", 5);
    file_abandon(file);
    assert_int_equal(entries(), 1);

    Context *other = ctx_create(NULL);
    FileWriter *one = file_create(other, "kept", false), *two = file_create(other, "b", true);
    file_write(one, "x", 1);
    file_write(two, "y", 1);
    assert_int_equal(entries(), 3);
    ctx_destroy(other); /* as after an unwinding */
    assert_int_equal(entries(), 1);
    Blob blob;
    assert_true(file_map(ctx, "kept", &blob));
    assert_memory_equal(blob.data, "old", 3);
    unlink("kept");
}

static void test_modes_links_devices(void **state)
{
    (void)state;
    mode_t mask = umask(022);
    FileWriter *file = file_create(ctx, "tool", true);
    assert_true(file_commit(file));
    struct stat info;
    assert_int_equal(stat("tool", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0755);
    assert_true(file_write_all(ctx, "plain", "1", 1));
    assert_int_equal(stat("plain", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
    umask(mask);

    assert_int_equal(symlink("plain", "link"), 0);
    assert_true(file_write_all(ctx, "link", "22", 2));
    assert_int_equal(lstat("link", &info), 0);
    assert_true(S_ISLNK(info.st_mode)); /* its target was replaced */
    assert_int_equal(stat("plain", &info), 0);
    assert_int_equal(info.st_size, 2);
    assert_true(file_write_all(ctx, "/dev/null", "x", 1));
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode)); /* not replaced by a file */
    unlink("tool");
    unlink("plain");
    unlink("link");
}

static void test_paths(void **state)
{
    (void)state;
    Arena *arena = ctx_arena(ctx);
    assert_string_equal(path_dir(arena, "a/b/c.onnx"), "a/b");
    assert_string_equal(path_dir(arena, "c.onnx"), ".");
    assert_string_equal(path_dir(arena, "/c.onnx"), "/");
    assert_string_equal(path_dir(arena, "a//c"), "a");
    assert_string_equal(path_join(arena, "a", "b"), "a/b");
    assert_string_equal(path_join(arena, "a/", "b"), "a/b");
    assert_string_equal(path_join(arena, ".", "b"), "b");
    assert_string_equal(path_join(arena, "a", "/b"), "/b");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_write_and_map),          TEST(test_empty_file_and_pipe),
        TEST(test_unreadable),             TEST(test_failed_write_reports_and_leaves_nothing),
        TEST(test_abandoned_files_vanish), TEST(test_modes_links_devices),
        TEST(test_paths),
    };
    return cmocka_run_group_tests(tests, setup_folder, remove_folder);
}
