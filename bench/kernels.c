/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_kernels FILE ..: speed of kernels in percent of two limits measured in turns in the same run, for every level of this CPU:
 * a loop of nothing but FMAs, and loops that read as many bytes as the operands have and write those of the results. One thread,
 * thread CPU time.
 *   FILE.loop  one kernel; its flops are those of its mma statements, absent taps included
 *   FILE.ig    a graph, compiled with the whole pipeline and run as an artifact; its flops are those of its contractions. Every input
 *              but the first becomes a constant of random numbers.
 */
#define _GNU_SOURCE
#include "cli/peak.h"
#include "driver/driver.h"
#include "igata_rt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef void KernelFn(void *const *buf, int64_t lo, int64_t hi, uint64_t *error);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others use this machine too */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double peak_rate(const TargetInfo *target)
{
    double start = now(), flops = peak_run(target->f32_lanes);
    return flops / (now() - start);
}

/* ---- kernels --------------------------------------------------------------------------------------------------------------------- */

static double flops_of(const Stmt *list)
{
    double sum = 0;
    for (const Stmt *s = list; s; s = s->next) {
        if (s->kind == LS_FOR) {
            int64_t lo = 0, hi = 1;
            bool known = lx_is_int(s->u.loop.lo, &lo) && lx_is_int(s->u.loop.hi, &hi);
            sum += (known ? (double)((hi - lo + s->u.loop.step - 1) / s->u.loop.step) : 1) * flops_of(s->u.loop.body);
        }
        if (s->kind == LS_MMA) {
            double n = 2.0 * (double)s->u.mma.rows * (double)s->u.mma.cols;
            for (uint32_t i = 0; i < s->u.mma.n_axes; i++)
                n *= (double)s->u.mma.axis[i].extent;
            sum += n;
        }
    }
    return sum;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static KernelFn *load(const char *object, const char *name)
{
    char so[128], command[512];
    snprintf(so, sizeof so, "%s.so", object);
    snprintf(command, sizeof command, "ld -shared -z noexecstack -o %s %s", so, object);
    if (system(command))
        return NULL;
    void *library = dlopen(so, RTLD_NOW), *address = library ? dlsym(library, name) : NULL;
    KernelFn *fn = NULL;
    memcpy(&fn, &address, sizeof fn);
    remove(so);
    remove(object);
    return fn;
}

/* ---- measuring ------------------------------------------------------------------------------------------------------------------ */

typedef struct Subject {
    const char *name;
    const TargetInfo *target;
    double flops, compile_seconds;
    size_t read, written; /* bytes of operands and of results, once each */
    void (*call)(const struct Subject *subject);
    KernelFn *kernel; /* of a .loop file */
    int64_t tiles;
    igata_model *model; /* of a graph */
    void **buf, *workspace;
} Subject;

static void fill(void *to, size_t bytes)
{
    for (size_t i = 0; i < bytes / 4; i++)
        ((float *)to)[i] = (float)(i * 2654435761u % 1000) * 0.001f - 0.5f;
}

/* In huge pages where the system gives them: page walks cost a matmul of this size 3 %. */
static void *new_buffer(size_t bytes)
{
    size_t page = bytes < 1 << 20 ? 64 : 1 << 21, rounded = (bytes + page) / page * page;
    void *p = aligned_alloc(page, rounded);
    if (p && page > 64)
        (void)madvise(p, rounded, MADV_HUGEPAGE);
    if (p)
        fill(p, rounded);
    return p;
}

/* Seconds of one call, over a hundredth of a second. */
static double time_of(void (*call)(const Subject *s), const Subject *s)
{
    double start = now();
    int n = 0;
    do {
        call(s);
        n++;
    } while (now() - start < 0.01);
    return (now() - start) / n;
}

/* Reads and writes as much as the subject does and nothing else. */
static void move_bytes(const Subject *s)
{
    peak_read(s->buf[0], s->read / sizeof(PeakWord) / 8 * 8);
    memset(s->buf[1], 1, s->written);
}

static void measure(const Subject *s)
{
    enum { ROUNDS = 25 };
    double time[ROUNDS], share[ROUNDS], moving[ROUNDS];
    void *moved[] = {new_buffer(s->read), new_buffer(s->written)};
    Subject mover = *s;
    mover.buf = moved;
    for (int r = -1; r < ROUNDS; r++) {
        double peak = peak_rate(s->target), each = time_of(s->call, s), move = time_of(move_bytes, &mover);
        peak = (peak + peak_rate(s->target)) / 2;
        if (r < 0)
            continue;
        time[r] = each;
        share[r] = s->flops / each / peak;
        moving[r] = move / each;
    }
    qsort(time, ROUNDS, sizeof *time, compare);
    qsort(share, ROUNDS, sizeof *share, compare);
    qsort(moving, ROUNDS, sizeof *moving, compare);
    double middle = time[ROUNDS / 2];
    printf("%-24s %-10s %9.1f us  %7.1f GFLOP/s  %5.1f %% of FMAs  %6.1f GB/s  %5.1f %% of moving  (compiled in %.1f ms)\n", s->name,
           s->target->level, middle * 1e6, s->flops / middle * 1e-9, share[ROUNDS / 2] * 100,
           (double)(s->read + s->written) / middle * 1e-9, moving[ROUNDS / 2] * 100, s->compile_seconds * 1e3);
    free(moved[0]);
    free(moved[1]);
}

static void call_kernel(const Subject *s)
{
    uint64_t error = 0;
    s->kernel(s->buf, 0, s->tiles, &error);
}

static void run_kernel(Context *ctx, const Kernel *k, const TargetInfo *target)
{
    Arena *arena = ctx_arena(ctx);
    char object[] = "./bench-XXXXXX";
    int fd = mkstemp(object);
    CgenOptions options = {.target = target, .opt_level = 2, .output = CGEN_OBJECT};
    Blob blob;
    double start = now();
    if (fd < 0 || close(fd) || !cgen_emit(ctx, arena, &options, &k, 1, &blob))
        return;
    Subject s = {.name = k->name, .target = target, .flops = flops_of(k->body), .compile_seconds = now() - start,
                 .call = call_kernel, .tiles = kernel_tiles(k)};
    if (!file_write_all(ctx, object, blob.data, blob.size))
        return;
    s.kernel = load(object, k->name);
    if (!s.kernel)
        return;
    s.buf = ARENA_ARRAY(arena, void *, k->bufs.len);
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        const Buf *buf = k->bufs.data[i];
        size_t bytes = (size_t)buf->elements * (size_t)dtype_bits(buf->dtype) / 8;
        s.buf[i] = new_buffer(bytes);
        if (buf->space != BUF_LOCAL)
            *(buf->written ? &s.written : &s.read) += bytes;
    }
    measure(&s);
    for (uint32_t i = 0; i < k->bufs.len; i++)
        free(s.buf[i]);
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------------------- */

/* Two per multiplication of a contraction, absent taps included. */
static double contraction_flops(const Node *node)
{
    uint64_t out = 0, rest = 0, n = 1;
    const int64_t *axes;
    (void)type_count(node->out[0].type, &out);
    (void)type_count(ir_in(node, 1)->type, &rest);
    if (attrs_get((Op)node->op, node->attr, AN_groups))
        return 2.0 * (double)out * (double)rest / (double)type_dim(ir_in(node, 1)->type, 0);
    for (uint32_t i = 0; i < node_ints(node, AN_lhs_contract, &axes); i++)
        n *= (uint64_t)type_dim(ir_in(node, 0)->type, (uint32_t)axes[i]);
    return 2.0 * (double)out * (double)n;
}

/* Inputs from the second on become constants. */
static Func *bind_weights(Module *module, Func *func)
{
    Context *ctx = module->ctx;
    Func *bound = module_func(module, str_format(ctx, "%s_bound", func->name), true);
    uint32_t n = (uint32_t)func->body->params.len;
    Val **args = ARENA_ARRAY(ctx_arena(ctx), Val *, n);
    args[0] = func_param(bound, func->in_names[0], func->body->params.data[0]->type);
    Loc loc = func->body->last->loc;
    Builder b = ir_at_end(bound->body, loc);
    for (uint32_t i = 1; i < n; i++) {
        const Type *type = func->body->params.data[i]->type;
        uint64_t bytes = 0;
        (void)type_bytes(type, &bytes);
        void *data = arena_alloc(module->arena, bytes + 64);
        fill(data, bytes);
        AttrVal weight = attr_weight(module_weight(module, func->in_names[i], type, data, false));
        args[i] = ir_out(ir_emit(&b, OP_const, NULL, 0, attrs_make(ctx, &weight, 1), &type, 1), 0);
    }
    AttrVal callee = attr_func(func);
    const Type *type = func_out(func, 0)->type;
    Val *y = ir_out(ir_emit(&b, OP_call, args, n, attrs_make(ctx, &callee, 1), &type, 1), 0);
    func_yield(bound, loc, &y, func->out_names, 1);
    func->entry = false;
    return bound;
}

static void call_graph(const Subject *s) { (void)igata_run(s->model, 0, s->buf, s->workspace, NULL); }

static void run_graph(Context *ctx, const char *path, const TargetInfo *target)
{
    Module *module = ir_load(ctx, path);
    Func *func = module ? driver_entry(ctx, module, NULL) : NULL;
    if (!func || !op_verify(module))
        return;
    Func *bound = bind_weights(module, func);
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {target}, .n_targets = 1};
    if (getenv("BENCH_STRICT")) /* direct convolutions */
        module_set_strict(module);
    double start = now();
    Program *program = driver_compile(ctx, module, bound, &options);
    Subject s = {.name = func->name, .target = target, .compile_seconds = now() - start, .call = call_graph};
    char artifact[] = "./bench-XXXXXX.so";
    int fd = mkstemps(artifact, 3);
    if (!program || fd < 0 || close(fd) || !driver_write(program, artifact))
        return;
    if (getenv("BENCH_PRINT")) {
        Text text;
        text_init(&text, ctx_arena(ctx));
        sched_print(&text, program->variant[0].schedule);
        puts(text.data);
    }
    for (uint32_t i = 0; i < program->variant[0].schedule->groups.len; i++) {
        const Group *g = program->variant[0].schedule->groups.data[i];
        for (uint32_t j = 0; j < g->nodes.len; j++)
            if (op_info[g->nodes.data[j]->op].kind == OK_CONTRACT)
                s.flops += contraction_flops(g->nodes.data[j]);
    }
    uint64_t in = 0, out = 0, constants = 0;
    (void)type_bytes(bound->body->params.data[0]->type, &in);
    (void)type_bytes(func_out(bound, 0)->type, &out);
    for (uint32_t i = 0; i < module->weights.len; i++) {
        uint64_t bytes = 0;
        (void)type_bytes(module->weights.data[i]->type, &bytes);
        constants += bytes;
    }
    s.read = in + constants;
    s.written = out;
    if (igata_open(artifact, NULL, &s.model) == IGATA_OK) {
        s.buf = (void *[]){new_buffer(in), new_buffer(out)};
        s.workspace = new_buffer(igata_workspace(s.model, 0, 1));
        measure(&s);
        free(s.buf[0]);
        free(s.buf[1]);
        free(s.workspace);
        igata_close(s.model);
    }
    if (!getenv("BENCH_KEEP"))
        remove(artifact);
    driver_destroy(program);
    module_destroy(module);
}

int main(int argc, char **argv)
{
    Context *ctx = ctx_create(NULL);
    const TargetInfo *host = cgen_host_target();
    for (int i = 1; i < argc && host; i++) {
        Blob blob;
        Kernel *k = NULL;
        size_t length = strlen(argv[i]);
        bool graph = length > 3 && strcmp(argv[i] + length - 3, ".ig") == 0;
        if (!graph && file_map(ctx, argv[i], &blob))
            k = kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, argv[i]), (const char *)blob.data, blob.size);
        for (const TargetInfo *t = cgen_targets(); (graph || (k && kernel_verify(k))) && t <= host; t++) {
            if (graph)
                run_graph(ctx, argv[i], t);
            else
                run_kernel(ctx, k, t);
        }
    }
    Text text;
    text_init(&text, ctx_arena(ctx));
    for (uint32_t i = 0; i < diag_count(ctx); i++)
        diag_print(ctx, &text, diag_get(ctx, i));
    fputs(text.data, stderr);
    bool failed = diag_errors(ctx) != 0;
    ctx_destroy(ctx);
    return failed || !host;
}
