/* SPDX-License-Identifier: Apache-2.0
 *
 * Options: one row each with its setter. The command line's parser, its --help and this table are the same thing, so that
 * an option exists everywhere or nowhere.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* mkdir */
#endif
#include "api/api_int.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

/* field: the member of *o that the row names, if it names one. */
typedef bool Setter(igata_options *o, const char *key, const char *value, void *field);

static bool bad(igata_options *o, const char *key, const char *value, const char *want)
{
    Context *ctx = o->owner->ctx;
    return diag_report(ctx, 0, DIAG_api_option, str_format(ctx, "option --%s: '%s' is not %s", key, value, want));
}

static bool parse_count(igata_options *o, const char *key, const char *value, int64_t lo, int64_t hi, int64_t *out)
{
    if (text_parse_s64(value, out) && *out >= lo && *out <= hi)
        return true;
    return bad(o, key, value, str_format(o->owner->ctx, "a number from %lld to %lld", (long long)lo, (long long)hi));
}

static bool parse_flag(igata_options *o, const char *key, const char *value, bool *out)
{
    if (*value && strcmp(value, "1") != 0 && strcmp(value, "0") != 0)
        return bad(o, key, value, "0 or 1");
    *out = strcmp(value, "0") != 0;
    return true;
}

static Str keep(igata_options *o, const char *text) { return str_intern(o->owner->ctx, text); }

/* ---- setters --------------------------------------------------------------------------------------------------------- */

static bool set_engine(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    static const char *const names[] = {"compiled", "eager", "ref32", "f64"};
    for (size_t i = 0; i < IG_COUNT(names); i++)
        if (strcmp(value, names[i]) == 0) {
            o->engine = (Engine)i;
            return true;
        }
    return bad(o, key, value, "one of compiled, eager, ref32, f64");
}

static bool set_opt_level(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    int64_t level;
    if (!parse_count(o, key, value, 0, 2, &level))
        return false;
    o->pass.opt_level = (int)level;
    return true;
}

static bool set_threads(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    int64_t n;
    if (!parse_count(o, key, value, 1, IGATA_MAX_THREADS, &n))
        return false;
    o->threads = (unsigned)n;
    return true;
}

/* NAME=VALUE: interns the name, returns the value; NULL after reporting. */
static const char *split(igata_options *o, const char *key, const char *value, const char *want, Str *name)
{
    const char *equals = strrchr(value, '=');
    if (!equals || equals == value) {
        bad(o, key, value, want);
        return NULL;
    }
    *name = str_intern_n(o->owner->ctx, value, (size_t)(equals - value));
    return equals + 1;
}

static bool set_dim(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    DimBinding dim = {0};
    const char *want = "NAME=SIZE or NAME=LOW..HIGH", *size = split(o, key, value, want, &dim.name);
    if (!size)
        return false;
    const char *dots = strstr(size, "..");
    Str low = dots ? str_intern_n(o->owner->ctx, size, (size_t)(dots - size)) : size;
    if (!text_parse_s64(low, &dim.lo) || !text_parse_s64(dots ? dots + 2 : size, &dim.hi) || dim.lo < 0 || dim.hi < dim.lo)
        return bad(o, key, value, want);
    vec_push(ctx_arena(o->owner->ctx), &o->dims, dim);
    return true;
}

static bool set_shape(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    ShapeBinding shape = {0};
    const char *want = "NAME=SIZExSIZE.. (a size of ? stays as declared)", *at = split(o, key, value, want, &shape.name);
    int64_t dims[IR_MAX_RANK];
    if (!at)
        return false;
    while (*at) {
        size_t n = strcspn(at, "x");
        Str text = str_intern_n(o->owner->ctx, at, n);
        if (shape.rank == IR_MAX_RANK)
            return bad(o, key, value, want);
        if (strcmp(text, "?") == 0)
            dims[shape.rank++] = -1;
        else if (!text_parse_s64(text, &dims[shape.rank++]) || dims[shape.rank - 1] < 0)
            return bad(o, key, value, want);
        at += n + (at[n] == 'x');
    }
    shape.dim = arena_copy(ctx_arena(o->owner->ctx), dims, sizeof dims);
    vec_push(ctx_arena(o->owner->ctx), &o->shapes, shape);
    return true;
}

static bool set_value(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    FixedValue fixed;
    const char *text = split(o, key, value, "NAME=1,2,3", &fixed.name);
    if (!text)
        return false;
    fixed.text = keep(o, text);
    vec_push(ctx_arena(o->owner->ctx), &o->values, fixed);
    return true;
}

static bool set_bytes(igata_options *o, const char *key, const char *value, void *field)
{
    return parse_count(o, key, value, 1, INT64_MAX, field);
}

static bool set_target(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    size_t n = strcspn(value, "-");
    Text known;
    text_init(&known, ctx_arena(o->owner->ctx));
    text_add(&known, "a known target; known are");
    Str last = "";
    for (const TargetInfo *t = cgen_targets(); t->triple; t++) {
        if (strncmp(t->triple, value, n) == 0 && t->triple[n] == '-' && (value[n] == 0 || strstr(value, "linux"))) {
            o->triple = t->triple;
            return true;
        }
        if (strcmp(last, t->triple) != 0)
            text_addf(&known, " %s", t->triple);
        last = t->triple;
    }
    return bad(o, key, value, known.data);
}

static const TargetInfo *find_level(const char *name)
{
    for (const TargetInfo *t = cgen_targets(); t->triple; t++)
        if (strcmp(t->level, name) == 0)
            return t;
    return NULL;
}

static bool set_cpu(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    for (const char *at = value; *at || at == value;) {
        size_t n = strcspn(at, ",");
        Str name = str_intern_n(o->owner->ctx, at, n);
        if (strcmp(name, "native") != 0 && strcmp(name, "portable") != 0 && !find_level(name)) {
            Text known;
            text_init(&known, ctx_arena(o->owner->ctx));
            text_add(&known, "a known CPU level; known are native, portable");
            for (const TargetInfo *t = cgen_targets(); t->triple; t++)
                text_addf(&known, ", %s", t->level);
            return bad(o, key, name, known.data);
        }
        at += n + (at[n] == ',');
    }
    o->cpu = keep(o, value);
    return true;
}

static bool set_text(igata_options *o, const char *key, const char *value, void *field)
{
    *(Str *)field = keep(o, value);
    return *value ? true : bad(o, key, value, "a text");
}

static bool add_name(igata_options *o, const char *key, const char *value, void *field)
{
    if (!*value)
        return bad(o, key, value, "a name");
    vec_push(ctx_arena(o->owner->ctx), (StrList *)field, keep(o, value));
    return true;
}

static bool set_flag(igata_options *o, const char *key, const char *value, void *field)
{
    return parse_flag(o, key, value, field);
}

/* None of the freedoms of numerics.md, "Not done by default", is implemented; a name that changes nothing is refused rather than
 * believed. no-wino2 only forbids. */
static bool set_fast_math(igata_options *o, const char *key, const char *value, void *field)
{
    bool *direct = field;
    *direct = strcmp(value, "no-wino2") == 0;
    return *direct || bad(o, key, value, "implemented; supported is only no-wino2");
}

static bool add_optional_pass(igata_options *o, const char *key, const char *value, void *field)
{
    const PassDef *pass = driver_find_pass(value);
    return pass && pass->optional ? add_name(o, key, value, field) : bad(o, key, value, "an optional pass");
}

static bool set_pass(igata_options *o, const char *key, const char *value, void *field)
{
    return driver_find_pass(value) ? set_text(o, key, value, field) : bad(o, key, value, "a pass");
}

static bool set_pass_or_all(igata_options *o, const char *key, const char *value, void *field)
{
    bool known = strcmp(value, "all") == 0 || driver_find_pass(value);
    return known ? set_text(o, key, value, field) : bad(o, key, value, "a pass, or all");
}

static bool set_limit(igata_options *o, const char *key, const char *value, void *field)
{
    return parse_count(o, key, value, 0, INT32_MAX, field);
}

static bool set_bound(igata_options *o, const char *key, const char *value, void *field)
{
    (void)field;
    DimBinding dim = {0};
    const char *size = split(o, key, value, "NAME=N", &dim.name);
    if (!size || !parse_count(o, key, size, 1, INT32_MAX - 1, &dim.hi))
        return false;
    dim.bound = true;
    vec_push(ctx_arena(o->owner->ctx), &o->dims, dim);
    return true;
}

/* ---- the table --------------------------------------------------------------------------------------------------------- */

/* Name, argument, setter, the member it sets (`owner`: the setter knows), help. */
/* clang-format off */
#define OPTIONS(ROW)                                                                                                                \
    ROW("engine", "E", set_engine, owner,                                                                                           \
        "compiled (default), eager (a kernel per op, dispatched one by one), ref32 or f64 (the evaluator)")                         \
    ROW("opt-level", "0|1|2", set_opt_level, owner, "the same as -O0, -O1, -O2 (default)")                                          \
    ROW("shape", "NAME=1x512", set_shape, owner, "sizes of an input")                                                               \
    ROW("dim", "NAME=N", set_dim, owner, "size of a symbol; NAME=LOW..HIGH: one program for the range")                            \
    ROW("bound", "NAME=N", set_bound, owner,                                                                                        \
        "largest value of a symbol, or of a size that the run finds (how often a loop goes round)")                                 \
    ROW("input", "NAME", add_name, inputs, "an initializer that stays an input")                                                    \
    ROW("input-value", "NAME=1,2,3", set_value, owner, "an input becomes this constant; its value may decide shapes")               \
    ROW("entry", "NAME", set_text, entry, "entry function")                                                                         \
    ROW("target", "TRIPLE", set_target, owner, "machine to compile for")                                                            \
    ROW("runner", "CMD", set_text, runner, "runs programs of the target, e.g. qemu-aarch64-static")                                 \
    ROW("runner-program", "FILE", set_text, runner_program, "program of the target that runs artifacts (default: beside igata)")    \
    ROW("cpu", "NAME[,NAME]", set_cpu, owner, "CPU levels; native: the best of this machine; portable: all of a kind of machine")   \
    ROW("threads", "N", set_threads, owner, "threads of a run (default 1)")                                                         \
    ROW("also-output", "NAME|all", add_name, also_output, "results of a node become outputs as well")                               \
    ROW("max-bytes", "N", set_bytes, max_bytes, "largest size of one value (default 2^36)")                                         \
    ROW("strict", NULL, set_flag, pass.strict, "fold no batch normalisation; direct convolution only")                              \
    ROW("fast-math", "NAME,..", set_fast_math, pass.direct,                                                                         \
        "allow named changes of result bits; so far only no-wino2 is known: direct convolution only")                                    \
    ROW("ftz", NULL, set_flag, ftz, "flush subnormal numbers to zero")                                                              \
    ROW("print-after", "PASS|all", set_pass_or_all, print_after, "print the module or schedule after a pass, to standard error")    \
    ROW("dump-after", "PASS|all", set_pass_or_all, dump_after, "write it to a file of its own")                                     \
    ROW("dump-dir", "DIR", set_text, dump_dir, "where (default: here)")                                                             \
    ROW("time-passes", NULL, set_flag, pass.time, "print how long each pass took")                                                  \
    ROW("disable-pass", "PASS", add_optional_pass, disabled, "skip an optional pass")                                               \
    ROW("pass-limit", "N", set_limit, pass.limit, "run only the first N optional passes")                                           \
    ROW("stop-after", "PASS", set_pass, pass.stop_after, "stop there")                                                              \
    ROW("verify-each", NULL, set_flag, pass.verify_each, "verify after each pass")
/* clang-format on */

static const igata_option_row rows[] = {
#define ROW(name, argument, set, member, help) {name, argument, help},
    OPTIONS(ROW)
#undef ROW
    {0},
};

static const struct {
    Setter *set;
    size_t field;
} setters[] = {
#define ROW(name, argument, set, member, help) {set, offsetof(igata_options, member)},
    OPTIONS(ROW)
#undef ROW
};

const igata_option_row *igata_option_rows(void) { return rows; }

/* ---- public ---------------------------------------------------------------------------------------------------------------- */

typedef struct MakeOptions {
    igata_context *ctx;
    const igata_options *from;
    igata_options *made;
} MakeOptions;

static igata_status make_body(void *arg)
{
    MakeOptions *m = arg;
    Arena *arena = ctx_arena(m->ctx->ctx);
    igata_options *o = ARENA_NEW(arena, igata_options);
    *o = (igata_options){.owner = m->ctx, .threads = 1, .pass = {.opt_level = 2, .limit = -1}, .cpu = "", .triple = "",
                         .runner = "", .runner_program = "", .entry = "", .print_after = "", .dump_after = "", .dump_dir = "."};
    if (m->from) {
        *o = *m->from;
        o->disabled.cap = o->disabled.len; /* a copy that grows must not write into what it shares */
        o->also_output.cap = o->also_output.len;
        o->inputs.cap = o->inputs.len;
        o->dims.cap = o->dims.len;
        o->shapes.cap = o->shapes.len;
        o->values.cap = o->values.len;
    }
    m->made = o;
    return IGATA_OK;
}

igata_options *igata_options_create(igata_context *ctx)
{
    MakeOptions make = {ctx, NULL, NULL};
    api_run(ctx, make_body, &make);
    return make.made;
}

igata_options *igata_options_copy(const igata_options *options)
{
    MakeOptions make = {options->owner, options, NULL};
    api_run(options->owner, make_body, &make);
    return make.made;
}

typedef struct SetOption {
    igata_options *o;
    const char *key, *value;
} SetOption;

static igata_status set_body(void *arg)
{
    SetOption *s = arg;
    Context *ctx = s->o->owner->ctx;
    for (size_t i = 0; rows[i].key; i++)
        if (strcmp(rows[i].key, s->key) == 0)
            return setters[i].set(s->o, s->key, s->value ? s->value : "", (char *)s->o + setters[i].field) ? IGATA_OK : IGATA_E_OPTION;
    diag_report(ctx, 0, DIAG_api_option, str_format(ctx, "unknown option --%s", s->key));
    return IGATA_E_OPTION;
}

igata_status igata_option_set(igata_options *options, const char *key, const char *value)
{
    SetOption set = {options, key, value};
    return api_run(options->owner, set_body, &set);
}

void igata_options_on_dump(igata_options *options, void (*dump)(void *user, const char *pass, const char *text), void *user)
{
    options->dump = dump;
    options->dump_user = user;
}

igata_pass_row igata_pass(size_t index)
{
    const PassDef *const tables[] = {pass_defs, sched_pass_defs};
    for (size_t t = 0; t < IG_COUNT(tables); t++)
        for (const PassDef *pass = tables[t]; pass->id; pass++)
            if (index-- == 0)
                return (igata_pass_row){pass->id, pass->doc, pass->optional};
    return (igata_pass_row){0};
}

const char *igata_optional_pass(const igata_options *o, size_t index)
{
    Pipeline pipeline = driver_pipeline(o->pass.opt_level, o->engine == ENGINE_EAGER);
    const char *const *part[] = {pipeline.tensor, pipeline.sched};
    for (size_t p = 0; p < IG_COUNT(part); p++)
        for (const char *const *name = part[p]; *name; name++) {
            bool counts = driver_find_pass(*name)->optional;
            for (uint32_t i = 0; i < o->disabled.len; i++)
                counts &= strcmp(o->disabled.data[i], *name) != 0;
            if (counts && index-- == 0)
                return *name;
        }
    return NULL;
}

/* ---- towards the driver ---------------------------------------------------------------------------------------------------- */

static bool matches(const char *wanted, const char *pass) { return strcmp(wanted, "all") == 0 || strcmp(wanted, pass) == 0; }

static void on_dump(void *user, const char *pass, const char *text)
{
    igata_options *o = user;
    Context *ctx = o->owner->ctx;
    if (o->dump && matches(o->print_after, pass))
        o->dump(o->dump_user, pass, text);
    if (!matches(o->dump_after, pass))
        return;
    (void)mkdir(o->dump_dir, 0777); /* if that fails, the file cannot be written either */
    Str name = str_format(ctx, "%s/%03u-%s.txt", o->dump_dir, o->owner->n_dumps++, pass);
    bool written = file_write_all(ctx, name, text, strlen(text));
    (void)written; /* reported: the call fails (api_run) */
}

/* "x86-64-v3,x86-64-v4": every level of the target. */
static Str portable_levels(const igata_options *o)
{
    const TargetInfo *host = cgen_host_target();
    const char *triple = *o->triple ? o->triple : host ? host->triple : cgen_targets()->triple;
    Text text;
    text_init(&text, ctx_arena(o->owner->ctx));
    for (const TargetInfo *t = cgen_targets(); t->triple; t++)
        if (strcmp(t->triple, triple) == 0)
            text_addf(&text, "%s%s", text.len ? "," : "", t->level);
    return text.data;
}

static bool add_targets(igata_options *o, const char *list, bool host_only, DriverOptions *out)
{
    Context *ctx = o->owner->ctx;
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        Str name = str_intern_n(ctx, at, n);
        const TargetInfo *host = cgen_host_target(), *t = strcmp(name, "native") == 0 ? host : find_level(name);
        at += n + (at[n] == ',');
        if (!t)
            return diag_report(ctx, 0, DIAG_api_option, "this machine has none of the CPU levels that code is generated for");
        if (*o->triple && strcmp(t->triple, o->triple) != 0)
            return diag_report(ctx, 0, DIAG_api_option, str_format(ctx, "--cpu %s is no CPU of target %s", name, o->triple));
        if (out->n_targets && strcmp(t->triple, out->target[0]->triple) != 0)
            return diag_report(ctx, 0, DIAG_api_option, "the CPU levels of one artifact are of one machine");
        if (host_only && (!host || strcmp(t->triple, host->triple) != 0))
            return diag_report(ctx, 0, DIAG_api_option,
                               str_format(ctx, "%s does not run on this machine: give --target and --runner", name));
        if (out->n_targets == DRIVER_MAX_TARGETS)
            return diag_report(ctx, 0, DIAG_api_option, "too many CPU levels");
        out->target[out->n_targets++] = t;
    }
    return true;
}

bool api_driver_options(igata_options *o, bool host_only, DriverOptions *out)
{
    const TargetInfo *host = cgen_host_target();
    const char *cpu = o->cpu;
    *out = (DriverOptions){.pass = o->pass, .ftz = o->ftz, .dump = on_dump, .dump_user = o};
    out->pass.eager = o->engine == ENGINE_EAGER;
    out->pass.disabled = o->disabled.data;
    out->pass.n_disabled = o->disabled.len;
    bool print = *o->print_after, dump = *o->dump_after;
    out->pass.print_after = print && dump ? "all" : print ? o->print_after : dump ? o->dump_after : NULL;
    if (!*cpu && *o->triple && !(host && strcmp(host->triple, o->triple) == 0)) {
        for (const TargetInfo *t = cgen_targets(); t->triple && !*cpu; t++)
            if (strcmp(t->triple, o->triple) == 0)
                cpu = t->level;
    } else if (!*cpu) {
        cpu = "native";
    }
    if (strcmp(cpu, "portable") == 0)
        cpu = portable_levels(o);
    return add_targets(o, cpu, host_only, out);
}
