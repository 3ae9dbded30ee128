/* SPDX-License-Identifier: Apache-2.0
 * The ONNX reader at the end of its data: prefixes of a model that end at an inaccessible page are read or refused with a
 * diagnostic, and nothing behind the end is looked at; lengths that reach past it are said to. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "front/front.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Read {
    Context *ctx;
    Blob blob;
    Module *module;
} Read;

static void read_model(void *arg)
{
    Read *r = arg;
    r->module = front_onnx_import(r->ctx, "cut.onnx", r->blob, NULL);
}

typedef struct Edge { /* room whose end is the end of what may be read */
    uint8_t *map, *end;
    size_t mapped;
} Edge;

static Edge edge_make(size_t room)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (room + page - 1) / page * page;
    Edge e = {.mapped = whole + page};
    e.map = mmap(NULL, e.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(e.map != MAP_FAILED);
    e.end = e.map + whole;
    assert_int_equal(mprotect(e.end, page, PROT_NONE), 0);
    return e;
}

static void check(const Edge *edge, const void *data, size_t size, const char *says)
{
    uint8_t *at = edge->end - size;
    memcpy(at, data, size);
    Read r = {.ctx = ctx_create(NULL), .blob = {at, size}};
    CtxStatus status = ctx_protect(r.ctx, read_model, &r);
    if (status != CTX_OK || (r.module != NULL) != (diag_errors(r.ctx) == 0) || (says && !strstr(diags_text(r.ctx), says)))
        fail_msg("%zu bytes: status %d, %s", size, (int)status, diags_text(r.ctx));
    ctx_destroy(r.ctx);
}

static void test_prefixes(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/examples/digits/digits.onnx", getenv("SRC") ? getenv("SRC") : ".");
    Context *ctx = ctx_create(NULL);
    Blob model;
    assert_true(file_map(ctx, path, &model));
    Edge edge = edge_make(model.size);
    for (size_t size = 0; size < model.size; size += size < 1500 || model.size - size < 300 ? 1 : 499)
        check(&edge, model.data, size, NULL);
    munmap(edge.map, edge.mapped);
    ctx_destroy(ctx);
}

static void test_lengths(void **state)
{
    (void)state;
    static const char *const past = "a length reaches past the end";
    Edge edge = edge_make(64);
    check(&edge, "\x12\x05" "ab", 4, past);                             /* ModelProto.producer_name, 3 bytes short */
    check(&edge, "\x12\x03" "ab", 4, past);                             /* 1 byte short */
    check(&edge, "\x3a\x06\x12\x03" "ab", 6, past);                     /* graph, itself 2 bytes too long */
    check(&edge, "\x3a\x04\x12\x03" "ab" "\x08\x08", 8, past);          /* graph.name past the graph, not past the data */
    check(&edge, "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" "ab", 13, past); /* 2^64 - 1 */
    munmap(edge.map, edge.mapped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prefixes), cmocka_unit_test(test_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
