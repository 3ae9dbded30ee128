/* SPDX-License-Identifier: Apache-2.0
 *
 * igata: the compiler as a library. The command line is a thin layer over this header.
 *
 *     igata_context *ctx = igata_context_create();
 *     igata_options *opt = igata_options_create(ctx);
 *     igata_option_set(opt, "dim", "batch=1");
 *     igata_network *net;
 *     if (igata_network_load(ctx, "net.onnx", opt, &net) == IGATA_OK)
 *         igata_network_compile(net, opt, "net.so");
 *     for (size_t i = 0; i < igata_message_count(ctx); i++)
 *         fprintf(stderr, "%s\n", igata_message_text(ctx, i));
 *
 * A context is used by one thread at a time; several contexts may live in several threads. Everything made from a context dies
 * with it. Functions return a status; what went wrong is in the context's messages, each naming the model's node or field. A bug
 * in the compiler is IGATA_E_BUG, never a crash of the caller. Running an artifact needs only igata_rt.h.
 */
#ifndef IGATA_H
#define IGATA_H

#include "igata_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { /* statuses of the compiler, beside those of igata_rt.h */
    IGATA_E_OPTION = 100,   /* unknown option or value: IGATA_E_OPTION is the caller's mistake, exit status 2 of the CLI */
    IGATA_E_MODEL = 101,    /* malformed or unsupported model or input data, exit status 3 */
    IGATA_E_BUG = 102,      /* broken invariant in the compiler */
    IGATA_E_MISMATCH = 103  /* a comparison failed, exit status 1 */
};

typedef struct igata_context igata_context;
typedef struct igata_options igata_options;
typedef struct igata_network igata_network;
typedef struct igata_session igata_session;

/* ---- context and messages ----------------------------------------------------------------------------------------------- */

igata_context *igata_context_create(void); /* NULL: out of memory */
void igata_context_destroy(igata_context *ctx);
size_t igata_message_count(const igata_context *ctx);
/* "model.onnx: node 'fc1' (Gemm, #3): error[id]: text"; valid until igata_messages_clear. */
const char *igata_message_text(igata_context *ctx, size_t index);
int igata_message_is_error(const igata_context *ctx, size_t index);
void igata_messages_clear(igata_context *ctx);
const char *igata_version(void);
/* Zeroed memory, aligned to 64, that dies with the context; NULL: out of memory. */
void *igata_alloc(igata_context *ctx, size_t bytes);

/* ---- options ------------------------------------------------------------------------------------------------------------------ */

/* Keys are the command line's long options (interface: `igata --help`), values their text; flags take "1" or "". Repeatable ones
 * (dim, shape, input, disable-pass, also-output) add up. IGATA_E_OPTION with a message for what is unknown. */
igata_options *igata_options_create(igata_context *ctx);
igata_options *igata_options_copy(const igata_options *options); /* in the same context */
igata_status igata_option_set(igata_options *options, const char *key, const char *value);
typedef struct igata_option_row {
    const char *key;      /* without "--" */
    const char *argument; /* "N", "NAME=SHAPE"; NULL: a flag */
    const char *help;
} igata_option_row;
const igata_option_row *igata_option_rows(void); /* ends with key NULL */
/* Passes by number; name NULL: behind the last. */
typedef struct igata_pass_row {
    const char *name, *help;
    int optional; /* may be disabled */
} igata_pass_row;
igata_pass_row igata_pass(size_t index);
/* Name of the optional pass that --pass-limit=INDEX is the first to leave out; NULL behind the last. */
const char *igata_optional_pass(const igata_options *options, size_t index);
/* Called with the text of --print-after; --dump-after writes files itself. */
void igata_options_on_dump(igata_options *options, void (*dump)(void *user, const char *pass, const char *text), void *user);

/* ---- networks: imported models ----------------------------------------------------------------------------------------------- */

/* .onnx, .ig, "-": ONNX on standard input; options: dim, shape, input, strict, also-output. */
igata_status igata_network_load(igata_context *ctx, const char *path, const igata_options *options, igata_network **network);
/* Output by extension: .so .o .a (with a header beside it) .ig .ll .s; nothing is left behind on failure. */
igata_status igata_network_compile(igata_network *network, const igata_options *options, const char *path);
/* Runs passes by name, "a,b,c". *schedule: text of the schedule if the last pass works on one, else NULL: see
 * igata_network_text. The network keeps the effect of tensor-level passes. */
igata_status igata_network_optimize(igata_network *network, const igata_options *options, const char *passes,
                                    const char **schedule);
/* The passes that ran so far: name, seconds; 0 behind the last. Filled with option time-passes. */
int igata_pass_time(const igata_context *ctx, size_t index, const char **pass, double *seconds);
/* A new network that computes grad_INPUT for each name in wrt ("A,B"); seed: name of the loss's cotangent input or NULL. */
igata_status igata_network_gradient(igata_network *network, const char *loss, const char *wrt, const char *seed,
                                    igata_network **gradient);
/* The text form; valid as long as the context. */
const char *igata_network_text(igata_network *network);
/* Writes the text form; "-" is standard output. */
igata_status igata_network_save(igata_network *network, const char *path);

/* ---- sessions: running a model or an artifact by any engine -------------------------------------------------------------------- */

enum { IGATA_ANY_RANK = 255 }; /* of a declaration without shape */
typedef struct igata_tensor { /* dense, row-major, packed; IGATA_STR: data is an array of const char * */
    const char *name;
    int dtype; /* IGATA_F32 ...; 0 in a declaration: no tensor, or not declared */
    size_t rank;
    const int64_t *dims;
    void *data;
    size_t bytes;
} igata_tensor;

/* .npy, or .pb (an ONNX TensorProto, with a name perhaps); data lives in the context. */
igata_status igata_tensor_read(igata_context *ctx, const char *path, igata_tensor *tensor);
igata_status igata_tensor_write(igata_context *ctx, const char *path, const igata_tensor *tensor); /* .npy */
/* Allocates and fills by "zeros", "ones" or "random:SEED" (floats in [-1, 1), integers and bools 0 or 1). */
igata_status igata_tensor_fill(igata_context *ctx, igata_tensor *tensor, const char *how);
/* "f32[1,512]" and "0.25, -1, 3, ..": for messages; at most `count` elements. */
const char *igata_tensor_type_text(igata_context *ctx, const igata_tensor *tensor);
const char *igata_tensor_data_text(igata_context *ctx, const igata_tensor *tensor, size_t count);

typedef struct igata_tolerance { /* equal if |got - want| <= atol + rtol |want|, or at most ulp representable values apart */
    size_t size;
    double rtol, atol, ulp;
    int bits; /* nothing but the same bits (NaNs are one value) */
} igata_tolerance;
typedef struct igata_difference {
    size_t size;
    size_t elements, wrong;
    double max_abs, max_rel, max_ulp; /* over all elements that are finite in both */
    size_t worst;                     /* row-major index of the worst wrong element */
    const char *text;                 /* "y[3,17]: 0.25 instead of 0.5 (2 of 1024 wrong)"; "" if equal */
} igata_difference;
/* IGATA_E_MISMATCH also where dtype or shape differ. */
igata_status igata_tensor_compare(igata_context *ctx, const igata_tensor *got, const igata_tensor *want,
                                  const igata_tolerance *tolerance, igata_difference *difference);

/* path: .onnx, .ig or an artifact. Options: engine (compiled, eager, ref32, f64), threads, target and runner, and those of
 * load and compile. Models are compiled at the first run of each set of input shapes, for sizes given as a range once. */
igata_status igata_session_open(igata_context *ctx, const char *path, const igata_options *options, igata_session **session);
void igata_session_close(igata_session *session);
/* Declared inputs and outputs; a size of -1 is symbolic. */
size_t igata_session_inputs(const igata_session *session);
size_t igata_session_outputs(const igata_session *session);
igata_status igata_session_input(const igata_session *session, size_t index, igata_tensor *info);
igata_status igata_session_output(const igata_session *session, size_t index, igata_tensor *info);
/* Type of the declared input `name`: sizes that `given` inputs or the options bind are filled in. */
igata_status igata_session_input_type(igata_session *session, const char *name, const igata_tensor *given, size_t n_given,
                                      igata_tensor *type);
/* Inputs by name, any order. IGATA_E_MODEL: inputs are missing, extra or of another type than declared; IGATA_E_INDEX: an index
 * was out of range while running (a message names the node). */
igata_status igata_session_run(igata_session *session, const igata_tensor *inputs, size_t n_inputs);
/* Result `index` of the last run; its data belongs to the session until the next. (With option also-output there are more
 * outputs after the first run or bind than before.) */
igata_status igata_session_result(igata_session *session, size_t index, igata_tensor *result);
/* Binds inputs once; then each step runs on them without copies (for timing). */
igata_status igata_session_bind(igata_session *session, const igata_tensor *inputs, size_t n_inputs);
igata_status igata_session_step(igata_session *session);
/* A step of a compiled model on the calling thread; what each phase took is added to `times` (igata_session_phases
 * elements, zeroed by the caller before the first). IGATA_E_ARGUMENT if nothing is bound or the engine compiles nothing. */
igata_status igata_session_step_timed(igata_session *session, igata_timing times[]);
/* Of the program bound or run last: 0 where the engine has none. */
size_t igata_session_phases(const igata_session *session);
igata_status igata_session_phase(const igata_session *session, size_t index, igata_phase *info);

typedef struct igata_session_stats { /* of the shapes bound or run last; 0 where an engine has none */
    size_t size;
    double compile_s, open_us, first_run_us;
    size_t workspace_bytes, weights_bytes, code_bytes, artifact_bytes, kernels;
    uint64_t flops;
    const char *target, *cpu;
} igata_session_stats;
igata_status igata_session_statistics(const igata_session *session, igata_session_stats *stats);

/* ---- looking inside ----------------------------------------------------------------------------------------------------------------- */

/* format: "text", "json", "html", "dot"; "ir" for a model only. The text is valid as long as the context. */
igata_status igata_inspect(igata_context *ctx, const char *path, const igata_options *options, const char *format,
                           const char **text);
/* format: "text", "json", "md": the coverage table of ops. */
igata_status igata_ops(igata_context *ctx, const char *format, const char **text);

#ifdef __cplusplus
}
#endif
#endif
