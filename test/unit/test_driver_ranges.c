/* SPDX-License-Identifier: Apache-2.0
 * Sizes with a range: one artifact for all of them gives the bits of ref32 at each, and of the module compiled for that size. Inputs
 * and outputs end at a page that nobody may touch. Sizes that do not fit are refused at the call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include "igata.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_IO = 8, MAX_RANK = 8, MAX_SIZES = 3, PAGE = 4096 };

typedef struct Case {
    const char *name, *text;
    int64_t size[8][MAX_SIZES]; /* of the symbols in the order of the inputs; ends with 0 */
} Case;

#define WEIGHT_20 "weight @w : f32[4,20] = [1,-2,0.5,4,-0.25,3,1,2,-3,0.125,7,-1,2,0.5,1,-6,2,3,1,-1,"                                 \
                  "2,-1,0.25,1,-0.5,3,5,2,-3,0.625,1,-1,2,0.75,1,6,2,-3,1,1,"                                                          \
                  "1,-2,0.5,4,-0.25,3,1,2,3,0.125,7,1,2,0.5,-1,-6,2,3,1,-1,"                                                           \
                  "2,-1,0.5,1,-0.5,3,-5,2,-3,0.625,1,-1,4,0.75,1,6,-2,-3,1,2]\n"

static const Case cases[] = {
    {"dense",
     "sym N in [1, 70]\n" WEIGHT_20 "entry func @main(%x : f32[N,4] \"x\") -> (\"y\", \"z\") {\n"
     "  %w = const {weight=@w} : f32[4,20]\n"
     "  %d = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[N,20]\n"
     "  %y = gelu %d {approx=none} : f32[N,20]\n"
     "  %z = softmax %y {axes=[1], norm=mul} : f32[N,20]\n"
     "  yield %y, %z\n}\n",
     {{1}, {2}, {15}, {16}, {17}, {69}, {70}}},
    {"folds", /* over the symbolic axis: one block of 8192, and several */
     "sym N in [1, 17000]\nentry func @main(%x : f32[N] \"x\") -> (\"s\", \"p\", \"m\", \"d\", \"e\", \"a\") {\n"
     "  %s = reduce %x {axes=[0], kind=sum} : f32[1]\n"
     "  %p = mean %x {axes=[0]} : f32[1]\n"
     "  %m = reduce %x {axes=[0], kind=max} : f32[1]\n"
     "  %d = dot %x, %x {lhs_batch=[], rhs_batch=[], lhs_contract=[0], rhs_contract=[0]} : f32[]\n"
     "  %h = slice %x {start=[1], size=[N-1], step=[1]} : f32[N-1]\n"
     "  %e = reduce %h {axes=[0], kind=sum} : f32[1]\n"
     "  %a = argreduce %x {axis=0, kind=max, last=false} : s64[1]\n"
     "  yield %s, %p, %m, %d, %e, %a\n}\n",
     {{1}, {2}, {16}, {17}, {513}, {8193}, {17000}}},
    {"moves",
     "sym B in [1, 5]\nsym S in [1, 40]\nentry func @main(%x : f32[B,S,4] \"x\") -> (\"t\", \"r\", \"c\", \"p\", \"v\", \"f\", \"n\") {\n"
     "  %t = transpose %x {perm=[1,2,0]} : f32[S,4,B]\n"
     "  %u = reshape %x {shape=[B*S,4]} : f32[B*S,4]\n"
     "  %w = exp %u : f32[B*S,4]\n"
     "  %q = reshape %w {shape=[B,S,2,2]} : f32[B,S,2,2]\n"
     "  %r = transpose %q {perm=[0,2,1,3]} : f32[B,2,S,2]\n"
     "  %c = concat %x, %x {axis=1} : f32[B,2*S,4]\n"
     "  %zero = iota {dtype=f32, shape=[1], axis=0} : f32[1]\n"
     "  %z = reshape %zero {shape=[]} : f32[]\n"
     "  %p = pad %x, %z {lo=[0,1,0], hi=[1,2,0], interior=[0,1,0]} : f32[B+1,2*S+2,4]\n"
     "  %v = reverse %x {axes=[0,1]} : f32[B,S,4]\n"
     "  %f = reduce %x {axes=[0,1], kind=sum} : f32[1,1,4]\n"
     "  %i = iota {dtype=s64, shape=[S], axis=0} : s64[S]\n"
     "  %l = dimval {dim=S} : s64[]\n"
     "  %k = reshape %l {shape=[1]} : s64[1]\n"
     "  %n = sub %k, %i : s64[S]\n"
     "  yield %t, %r, %c, %p, %v, %f, %n\n}\n",
     {{1, 1}, {2, 15}, {1, 16}, {3, 17}, {5, 39}, {5, 40}}},
    {"attention",
     "sym B in [1, 3]\nsym S in [1, 600]\n"
     "entry func @main(%q : f32[B,2,S,8] \"q\", %k : f32[B,2,S,8] \"k\", %v : f32[B,2,S,8] \"v\") -> (\"y\") {\n"
     "  %y = sdpa %q, %k, %v {causal=true, scale=0.25, softcap=0.0} : f32[B,2,S,8]\n"
     "  %t = transpose %y {perm=[0,2,1,3]} : f32[B,S,2,8]\n"
     "  %z = reshape %t {shape=[B,S,16]} : f32[B,S,16]\n"
     "  yield %z\n}\n",
     {{1, 1}, {2, 2}, {1, 15}, {3, 16}, {1, 17}, {1, 599}, {2, 600}}},
    {"winograd", /* where the run has 8 rows and columns or more */
     "sym N in [1, 3]\nsym H in [6, 12]\nsym W in [7, 11]\n"
     "entry func @main(%x : f32[N,32,H,W] \"x\", %w : f32[32,32,3,3] \"w\") -> (\"y\") {\n"
     "  %c = conv %x, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=false} : "
     "f32[N,32,H,W]\n"
     "  %y = relu %c : f32[N,32,H,W]\n"
     "  yield %y\n}\n",
     {{1, 6, 9}, {2, 8, 8}, {3, 9, 11}, {1, 12, 7}, {2, 12, 11}}},
    {"winograd tiles",
     "sym N in [1, 3]\nentry func @main(%x : f32[N,32,9,10] \"x\", %w : f32[33,32,3,3] \"w\") -> (\"y\") {\n"
     "  %y = conv %x, %w {stride=[1,1], pad_lo=[1,0], pad_hi=[0,1], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=true} : "
     "f32[N,33,8,9]\n"
     "  yield %y\n}\n",
     {{1}, {2}, {3}}},
    {"image",
     "sym H in [3, 20]\nsym W in [3, 33]\n"
     "weight @k : f32[2,1,3,3] = [1,-2,0.5,4,-0.25,3,1,2,-3,0.125,7,-1,2,0.5,1,-6,2,3]\n"
     "entry func @main(%x : f32[1,1,H,W] \"x\") -> (\"y\", \"g\", \"a\") {\n"
     "  %k = const {weight=@k} : f32[2,1,3,3]\n"
     "  %c = conv %x, %k {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=false} : "
     "f32[1,2,H,W]\n"
     "  %r = relu %c : f32[1,2,H,W]\n"
     "  %y = reduce_window %r {window=[1,1,3,3], stride=[1,1,1,1], pad_lo=[0,0,1,1], pad_hi=[0,0,1,1], dilation=[1,1,1,1], kind=max} : "
     "f32[1,2,H,W]\n"
     "  %g = mean %y {axes=[2,3]} : f32[1,2,1,1]\n"
     "  %a = avg_pool %r {window=[1,1,3,3], stride=[1,1,2,1], pad_lo=[0,0,1,2], pad_hi=[0,0,1,1], dilation=[1,1,1,2], count_pad=false} : "
     "f32[1,2,floordiv(H+1,2),W-1]\n"
     "  yield %y, %g, %a\n}\n",
     {{3, 3}, {4, 17}, {15, 16}, {16, 15}, {19, 33}, {20, 33}}},
    {"gather",
     "sym N in [1, 40]\nsym M in [1, 9]\n"
     "entry func @main(%x : f32[N,3] \"x\", %i : s64[M] \"i\") -> (\"y\") {\n"
     "  %e = neg %x : f32[N,3]\n"
     "  %y = gather %e, %i {axis=0, batch=0} : f32[M,3]\n"
     "  yield %y\n}\n",
     {{1, 1}, {2, 2}, {16, 9}, {17, 3}, {40, 9}}},
    {"sorted", /* lines of a size with a range: all of one, a part of one, several of it */
     "sym B in [1, 3]\nsym S in [2, 70]\nentry func @main(%x : f32[B,S] \"x\") -> (\"v\", \"i\", \"p\", \"q\", \"t\") {\n"
     "  %v, %i = topk %x {axis=1, size=S, kind=max} : f32[B,S], s64[B,S]\n"
     "  %p, %k = topk %x {axis=1, size=2, kind=min} : f32[B,2], s64[B,2]\n"
     "  %f = reshape %x {shape=[B*S]} : f32[B*S]\n"
     "  %w, %q = topk %f {axis=0, size=S-1, kind=min} : f32[S-1], s64[S-1]\n"
     "  %t, %l = topk %x {axis=0, size=1, kind=max} : f32[1,S], s64[1,S]\n"
     "  yield %v, %i, %p, %q, %t\n}\n",
     {{1, 2}, {3, 3}, {2, 16}, {1, 17}, {3, 64}, {2, 65}, {3, 70}}},
    {"opaque",
     "sym N in [1, 40]\nsym M in [1, 9]\n"
     "entry func @main(%x : f32[N,6] \"x\", %i : s64[M,1] \"i\") -> (\"c\", \"r\", \"s\", \"t\", \"u\", \"e\") {\n"
     "  %c = cumulate %x {axis=0, kind=sum, exclusive=false, reverse=false} : f32[N,6]\n"
     "  %r = cumulate %x {axis=0, kind=sum, exclusive=true, reverse=true} : f32[N,6]\n"
     "  %o = slice %x {start=[0,0], size=[1,6], step=[1,1]} : f32[1,6]\n"
     "  %b = broadcast %o {shape=[M,6]} : f32[M,6]\n"
     "  %s = scatter_nd %x, %i, %b {combine=add} : f32[N,6]\n"
     "  %t, %j = topk %x {axis=1, size=3, kind=max} : f32[N,3], s64[N,3]\n"
     "  %g = slice %b {start=[0,0], size=[M,1], step=[1,1]} : f32[M,1]\n"
     "  %u = scatter_elements %x, %i, %g {axis=0, combine=none} : f32[N,6]\n"
     "  %e = gather_elements %x, %i {axis=0} : f32[M,1]\n"
     "  yield %c, %r, %s, %t, %u, %e\n}\n",
     {{1, 1}, {2, 2}, {16, 9}, {17, 3}, {40, 9}}},
};

static const char ig[] = "driver_ranges.ig", so[] = "driver_ranges.so";

static void write_text(const char *text)
{
    FILE *file = fopen(ig, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Memory whose last bytes are the last of a page; the next page faults. */
static void *guarded(size_t bytes)
{
    size_t used = (bytes + 63) / 64 * 64, pages = (used + PAGE - 1) / PAGE * PAGE;
    uint8_t *base = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(mprotect(base + pages, PAGE, PROT_NONE), 0);
    memset(base, 0x7b, pages);
    return base + pages - used;
}

static void drop(void *at, size_t bytes)
{
    size_t used = (bytes + 63) / 64 * 64, pages = (used + PAGE - 1) / PAGE * PAGE;
    munmap((uint8_t *)at + used - pages, pages + PAGE);
}

static size_t element_bytes(int dtype) { return dtype == IGATA_S64 ? 8 : 4; }

static size_t count_of(const int64_t *dims, size_t rank)
{
    size_t count = 1;
    for (size_t a = 0; a < rank; a++)
        count *= (size_t)dims[a];
    return count;
}

/* One run of an opened artifact: its io with exact sizes. */
typedef struct Run {
    igata_model *model;
    size_t n_in, n_out;
    int64_t sizes[MAX_SIZES];
    int64_t dims[MAX_IO][MAX_RANK];
    igata_tensor tensor[MAX_IO];
    void *io[MAX_IO + 1], *workspace;
} Run;

static void fill(igata_tensor *t, uint32_t seed)
{
    for (size_t i = 0; i < t->bytes / element_bytes(t->dtype); i++) {
        seed = seed * 1664525u + 1013904223u;
        if (t->dtype == IGATA_S64)
            ((int64_t *)t->data)[i] = 0;
        else
            ((float *)t->data)[i] = ((float)(seed >> 8) / 8388608.0f - 1) * 2;
    }
}

static void make_io(Run *r)
{
    for (size_t i = 0; i < r->n_in + r->n_out; i++) {
        igata_value value = {.size = sizeof value};
        assert_int_equal(igata_io_info(r->model, 0, i, &value), IGATA_OK);
        assert_int_equal(igata_shape(r->model, 0, i, r->sizes, r->dims[i]), IGATA_OK);
        for (size_t a = 0; a < value.rank; a++)
            assert_true(value.dims[a] < 0 ? r->dims[i][a] <= value.bounds[a] : r->dims[i][a] == value.dims[a]);
        igata_tensor *t = &r->tensor[i];
        *t = (igata_tensor){.name = value.name, .dtype = value.dtype, .rank = value.rank, .dims = r->dims[i]};
        t->bytes = count_of(r->dims[i], value.rank) * element_bytes(value.dtype);
        assert_true(t->bytes <= value.bytes);
        t->data = r->io[i] = guarded(t->bytes);
        if (i < r->n_in)
            fill(t, (uint32_t)i + 3);
    }
    r->io[r->n_in + r->n_out] = r->sizes;
}

static void drop_io(Run *r)
{
    for (size_t i = 0; i < r->n_in + r->n_out; i++)
        drop(r->io[i], r->tensor[i].bytes);
}

static void same_as_engine(igata_context *ctx, const Run *r, const char *engine, const char *what)
{
    const igata_tolerance bits = {.size = sizeof bits, .bits = 1};
    igata_options *o = igata_options_create(ctx);
    igata_session *session;
    assert_int_equal(igata_option_set(o, "engine", engine), IGATA_OK);
    assert_int_equal(igata_session_open(ctx, ig, o, &session), IGATA_OK);
    assert_int_equal(igata_session_run(session, r->tensor, r->n_in), IGATA_OK);
    for (size_t i = 0; i < r->n_out; i++) {
        igata_difference diff = {.size = sizeof diff};
        igata_tensor want;
        assert_int_equal(igata_session_result(session, i, &want), IGATA_OK);
        if (igata_tensor_compare(ctx, &r->tensor[r->n_in + i], &want, &bits, &diff) != IGATA_OK)
            fail_msg("%s, sizes %d %d, %s: %s", what, (int)r->sizes[0], (int)r->sizes[1], engine, diff.text);
    }
    igata_session_close(session);
}

static void open_case(Run *r, igata_context *ctx, const char *text, const char *level)
{
    igata_network *net;
    igata_options *o = igata_options_create(ctx);
    igata_entry entry = {.size = sizeof entry};
    *r = (Run){.model = NULL};
    write_text(text);
    assert_int_equal(igata_option_set(o, "opt-level", level), IGATA_OK);
    assert_int_equal(igata_network_load(ctx, ig, o, &net), IGATA_OK);
    if (igata_network_compile(net, o, so) != IGATA_OK)
        fail_msg("%s: %s", text, igata_message_count(ctx) ? igata_message_text(ctx, 0) : "?");
    assert_int_equal(igata_open(so, NULL, &r->model), IGATA_OK);
    assert_int_equal(igata_entry_info(r->model, 0, &entry), IGATA_OK);
    r->n_in = entry.inputs;
    r->n_out = entry.outputs;
    assert_true(r->n_in + r->n_out <= MAX_IO && entry.sizes >= 1 && entry.sizes <= MAX_SIZES);
    r->workspace = aligned_alloc(64, (igata_workspace(r->model, 0, 1) + 63) / 64 * 64);
    memset(r->workspace, 0xff, igata_workspace(r->model, 0, 1)); /* NaN */
}

static void close_case(Run *r)
{
    free(r->workspace);
    igata_close(r->model);
    remove(so);
    remove(ig);
}

static void one_artifact_for_all_sizes(void **state)
{
    (void)state;
    static const char *const level[] = {"0", "2"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t l = 0; l < 2; l++) {
            igata_context *ctx = igata_context_create();
            Run r;
            open_case(&r, ctx, cases[c].text, level[l]);
            for (size_t n = 0; cases[c].size[n][0]; n++) {
                memcpy(r.sizes, cases[c].size[n], sizeof r.sizes);
                make_io(&r);
                assert_int_equal(igata_run(r.model, 0, r.io, r.workspace, NULL), IGATA_OK);
                same_as_engine(ctx, &r, "ref32", cases[c].name);
                if (n % 3 == l)
                    same_as_engine(ctx, &r, "compiled", cases[c].name);
                drop_io(&r);
            }
            close_case(&r);
            igata_context_destroy(ctx);
        }
}

static void threads_share_the_work(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    igata_pool *pool;
    Run r;
    assert_int_equal(igata_pool_create(2, 0, &pool), IGATA_OK);
    open_case(&r, ctx, cases[3].text, "2");
    free(r.workspace);
    r.workspace = aligned_alloc(64, (igata_workspace(r.model, 0, 2) + 63) / 64 * 64);
    for (size_t n = 0; cases[3].size[n][0]; n++) {
        memcpy(r.sizes, cases[3].size[n], sizeof r.sizes);
        make_io(&r);
        assert_int_equal(igata_pool_run(pool, r.model, 0, r.io, r.workspace, NULL), IGATA_OK);
        same_as_engine(ctx, &r, "ref32", "threads");
        drop_io(&r);
    }
    igata_pool_quiesce(pool);
    igata_pool_destroy(pool);
    close_case(&r);
    igata_context_destroy(ctx);
}

static void wrong_sizes_are_refused(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    Run r;
    open_case(&r, ctx, cases[3].text, "2");
    igata_size size = {.size = sizeof size};
    assert_int_equal(igata_size_info(r.model, 0, 1, &size), IGATA_OK);
    assert_string_equal(size.name, "S");
    assert_int_equal(size.lo, 1);
    assert_int_equal(size.hi, 600);
    assert_int_equal(igata_size_info(r.model, 0, 2, &size), IGATA_E_ARGUMENT);
    static const int64_t good[4] = {2, 2, 7, 8}, other[4] = {2, 2, 8, 8}, fixed[4] = {2, 3, 7, 8}, large[4] = {2, 2, 601, 8};
    int64_t dims[MAX_RANK], found[2];
    assert_int_equal(igata_sizes(r.model, 0, (const int64_t *const[]){good, good, good}, found), IGATA_OK);
    assert_int_equal(found[0], 2);
    assert_int_equal(found[1], 7);
    assert_int_equal(igata_sizes(r.model, 0, (const int64_t *const[]){good, other, good}, found), IGATA_E_SIZE);
    assert_int_equal(igata_sizes(r.model, 0, (const int64_t *const[]){fixed, good, good}, found), IGATA_E_SIZE);
    assert_int_equal(igata_sizes(r.model, 0, (const int64_t *const[]){large, large, large}, found), IGATA_E_SIZE);
    assert_int_equal(igata_shape(r.model, 0, 3, (const int64_t[]){2, 601}, dims), IGATA_E_SIZE);
    assert_int_equal(igata_shape(r.model, 0, 3, (const int64_t[]){2, 7}, dims), IGATA_OK);
    assert_int_equal(dims[1], 7);
    assert_int_equal(dims[2], 16);
    r.sizes[0] = 1;
    r.sizes[1] = 9;
    make_io(&r);
    r.sizes[1] = 0;
    assert_int_equal(igata_run(r.model, 0, r.io, r.workspace, NULL), IGATA_E_SIZE);
    r.sizes[1] = 601;
    assert_int_equal(igata_run(r.model, 0, r.io, r.workspace, NULL), IGATA_E_SIZE);
    r.io[r.n_in + r.n_out] = NULL;
    assert_int_equal(igata_run(r.model, 0, r.io, r.workspace, NULL), IGATA_E_NULL);
    r.io[r.n_in + r.n_out] = (char *)r.sizes + 4;
    assert_int_equal(igata_run(r.model, 0, r.io, r.workspace, NULL), IGATA_E_ALIGN);
    drop_io(&r);
    close_case(&r);
    igata_context_destroy(ctx);
}

/* A message for each node that has no kernel for a size with a range. */
static void nodes_without_a_kernel_are_named(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    igata_options *o = igata_options_create(ctx);
    igata_network *net;
    write_text("sym N in [1, 64]\nsym M in [1, 64]\n"
               "entry func @main(%x : f32[4,N] \"x\", %i : s64[4,M] \"i\", %j : s64[3,M] \"j\") -> (\"v\", \"y\") {\n"
               "  %v = gather_elements %x, %i {axis=0} : f32[4,M]\n"
               "  %y = gather_elements %x, %j {axis=0} : f32[3,M]\n"
               "  yield %v, %y\n}\n");
    assert_int_equal(igata_network_load(ctx, ig, o, &net), IGATA_OK);
    assert_int_equal(igata_network_compile(net, o, so), IGATA_E_MODEL);
    assert_int_equal(igata_message_count(ctx), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(strstr(igata_message_text(ctx, i), "gather_elements on f32[4,N]"));
        assert_non_null(strstr(igata_message_text(ctx, i), "give other ranges"));
    }
    assert_null(fopen(so, "r"));
    remove(ig);
    igata_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_artifact_for_all_sizes),
        cmocka_unit_test(threads_share_the_work),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(nodes_without_a_kernel_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
