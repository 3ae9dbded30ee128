/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of api/ only. Every public function runs its body under ctx_protect (api_run), so that a broken
 * invariant or exhausted memory is a status. What the runtime owns (opened artifacts, pools) is closed with its session.
 */
#ifndef IGATA_API_INT_H
#define IGATA_API_INT_H

#include "ad/ad.h"
#include "driver/driver.h"
#include "igata.h"

typedef enum Engine { ENGINE_COMPILED, ENGINE_EAGER, ENGINE_REF32, ENGINE_F64 } Engine;

struct igata_context {
    Context *ctx;
    igata_session *sessions; /* open ones */
    VEC(struct PassTime) times;
    uint32_t n_dumps;
};

typedef struct FixedValue { /* an input that becomes a constant */
    Str name, text;
} FixedValue;

typedef VEC(Str) StrList;

struct igata_options {
    igata_context *owner;
    Engine engine;
    PassOptions pass; /* without target, disabled and print_after */
    bool ftz;
    Str cpu, triple, runner, runner_program, entry, print_after, dump_after, dump_dir;
    unsigned threads;
    int64_t max_bytes;
    StrList disabled, also_output;
    StrList inputs; /* initializers that stay inputs */
    VEC(DimBinding) dims;
    VEC(ShapeBinding) shapes;
    VEC(FixedValue) values;
    void (*dump)(void *user, const char *pass, const char *text);
    void *dump_user;
};

struct igata_network {
    igata_context *owner;
    Module *module;
    Func *func;
    Blob file; /* it came from; may be empty */
};

/* ---- api_context.c ---------------------------------------------------------------------------------------------- */

/* Runs body(arg) under protection: its status, or IGATA_E_BUG, IGATA_E_MEMORY. */
igata_status api_run(igata_context *ctx, igata_status (*body)(void *arg), void *arg);
/* IGATA_OK or IGATA_E_MODEL. */
static inline igata_status api_status(bool good) { return good ? IGATA_OK : IGATA_E_MODEL; }
/* Bytes aligned to 64, at least one. */
void *api_aligned(Arena *arena, uint64_t bytes);
void api_add_times(igata_context *ctx, const Program *program);
double api_now(void); /* monotonic seconds */

/* ---- api_options.c ------------------------------------------------------------------------------------------------ */

/* The driver's options; false after reporting (a target without a CPU of that name). */
bool api_driver_options(igata_options *o, bool host_only, DriverOptions *out);

/* ---- api_network.c -------------------------------------------------------------------------------------------------- */

/* What a session knows about its inputs. shapes NULL: the options' are taken, and their names are checked. */
typedef struct Given {
    const ShapeBinding *shapes;
    const ValueBinding *values;
    uint32_t n_shapes, n_values;
} Given;
/* Imports with the options' sizes, values and `given` ones, makes also-outputs. blob: content of path, or NULL. NULL after
 * reporting. */
Module *api_import(igata_context *ctx, const char *path, const Blob *blob, const igata_options *o, const Given *given,
                   Func **func);
Blob api_model_file(igata_context *ctx, const char *path); /* empty if it cannot be read again */

/* ---- api_names.c ------------------------------------------------------------------------------------------------------ */

/* Whether the model has the symbols and inputs that options name; reports all it has not. */
bool api_check_names(Context *ctx, const igata_options *o, const FrontInfo *info);
/* Of an imported model: bounds what its runs find; a name that only outputs declare means what is found there. */
bool api_set_bounds(Context *ctx, const igata_options *o, const char *path, Func *func);
bool api_check_module_names(Context *ctx, const igata_options *o, const Module *module, const Func *func);
/* The options' values, one each, by the types declared; their names were checked. NULL after reporting. */
const ValueBinding *api_read_values(Context *ctx, const igata_options *o, const FrontInfo *info);
void api_drop_inputs(Func *func, const igata_options *o); /* those with such a value */
/* Whether a diagnostic since the from'th says that the value of an input is needed. */
bool api_lacks_values(const Context *ctx, uint32_t from);
bool api_may_decide(DType dtype, uint64_t count, bool floats); /* inputs of this type: sizes, axes, scales */
void api_advise_values(Context *ctx, const FrontInfo *info);
Str api_declared_text(Context *ctx, const FrontValue *value); /* "f32[N,512]" */

/* ---- api_tensor.c ---------------------------------------------------------------------------------------------------- */

igata_tensor api_from_tensor(Arena *arena, const char *name, const Tensor *t); /* as its declared dtype */
bool api_to_tensor(Context *ctx, const igata_tensor *from, Tensor *to);         /* a view; false after reporting */
Str api_type_text(Context *ctx, DType dtype, uint32_t rank, const int64_t *dims);

/* ---- api_session.c ---------------------------------------------------------------------------------------------------- */

typedef FrontValue Declared; /* rank is IGATA_ANY_RANK where has_rank is false; no initializer */
typedef struct Eager Eager;

/* A file for an artifact under $TMPDIR. It has no name, so nothing stays if the process is killed; where the system cannot do that,
 * it lies in a private folder. All zero: none. */
typedef struct TempFile {
    Str path; /* /proc/PID/fd/FD: debuggers and runners can open it */
    Str dir;  /* NULL: nameless */
    int fd;
} TempFile;

/* A model compiled, or ready to evaluate, for one set of input shapes. */
typedef struct Shaped {
    struct Shaped *next;
    struct Shaped *base; /* whose program this one runs: an opened artifact, or a model compiled for ranges; NULL: its own */
    const Tensor *key;   /* one per input: dtype and sizes, of a base those without a range; NULL: of an artifact */
    const bool *fixed; /* per input: it is a constant in this program, as sizes depend on it; NULL: none */
    Module *module;    /* as imported; NULL for an artifact */
    Func *func;
    Program *program; /* NULL for the evaluator and artifacts */
    igata_model *model;
    size_t entry;
    Eager *eager;
    TempFile artifact; /* of a model: lives as long as this, so that no two open at once have one path */
    uint32_t n_in, n_out;
    Tensor **in;  /* data is 64-byte aligned and belongs to this */
    Tensor **out; /* likewise; the evaluator's live in the session's `run_arena` */
    const Str *out_names;
    void **io, *workspace, *state;
    int64_t *sizes; /* NULL: no run finds any */
    igata_session_stats stats;
    bool ran;
} Shaped;

struct igata_session {
    igata_context *owner;
    igata_session *next, *prev;
    igata_options *options;
    Str path;
    Blob stdin_blob;
    bool is_artifact, from_stdin, has_runner;
    igata_pool *pool;
    Declared *in, *out;
    uint32_t n_in, n_out;
    Shaped *shaped, *current;
    Shaped *bases; /* what others run */
    Arena *run_arena;
};

/* ---- api_engine.c: makes and runs a Shaped ---------------------------------------------------------------------------- */

igata_status engine_prepare(igata_session *s, Shaped *shaped); /* n_in and in are set */
igata_status engine_step(igata_session *s, Shaped *shaped);
/* One run of an entry, on the session's threads. */
igata_status engine_run(igata_session *s, const Shaped *shaped, size_t entry, void *const io[], uint64_t *error);
igata_status engine_step_artifact(igata_session *s, Shaped *shaped, igata_timing *times); /* times: NULL, or one thread, timed */
igata_status api_node_error(igata_session *s, const Func *func, uint64_t error); /* reports; IGATA_E_INDEX or _BOUND */
/* The shape of a tensor of the type where the program's symbols have these values. */
void api_set_shape(Context *ctx, const Program *program, const int64_t *sizes, const Type *type, Tensor *t);
/* Reports why a run of an artifact failed; its status. */
igata_status api_explain(igata_session *s, const Shaped *shaped, igata_status status, uint64_t error);
bool api_temp_file(igata_context *ctx, TempFile *file); /* false after reporting */
void api_temp_close(TempFile *file);
/* A private directory for temporary files; NULL after reporting. */
Str api_temp_dir(igata_context *ctx);
void api_remove_dir(const char *dir, const char *const *names, uint32_t n);

/* ---- api_eager.c ------------------------------------------------------------------------------------------------------- */

Eager *eager_create(igata_session *s, Shaped *shaped, const char *path); /* writes its artifact; NULL after reporting */
igata_status eager_step(igata_session *s, Shaped *shaped);

/* ---- api_runner.c -------------------------------------------------------------------------------------------------------- */

igata_status runner_prepare(igata_session *s, Shaped *shaped);
igata_status runner_step(igata_session *s, Shaped *shaped);

/* Text of the files inspect_page.*, ending with 0; the build makes C of them (tools/embed.cmake). */
extern const unsigned char inspect_page_html[], inspect_page_css[], inspect_page_js[];

#endif
