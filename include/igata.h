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

/* ---- options ------------------------------------------------------------------------------------------------------------------ */

/* Keys are the command line's long options (interface: `igata --help`), values their text; flags take "1" or "". Repeatable ones
 * (dim, shape, input, disable-pass, also-output) add up. IGATA_E_OPTION with a message for what is unknown. */
igata_options *igata_options_create(igata_context *ctx);
igata_status igata_option_set(igata_options *options, const char *key, const char *value);
/* Called with the text of --print-after and --dump-after. */
void igata_options_on_dump(igata_options *options, void (*dump)(void *user, const char *pass, const char *text), void *user);

/* ---- networks: imported models ----------------------------------------------------------------------------------------------- */

/* .onnx, .ig; options: dim, shape, input, strict. */
igata_status igata_network_load(igata_context *ctx, const char *path, const igata_options *options, igata_network **network);
/* Output by extension: .so .o .a (with a header beside it) .ig .ll .s; nothing is left behind on failure. May be called once per
 * network except for .ig, since optimisation changes it. */
igata_status igata_network_compile(igata_network *network, const igata_options *options, const char *path);
/* Runs tensor-level passes by name, "a,b,c". */
igata_status igata_network_optimize(igata_network *network, const igata_options *options, const char *passes);
/* A new network that computes grad_INPUT for each name in wrt ("A,B"); seed: name of the loss's cotangent input or NULL. */
igata_status igata_network_gradient(igata_network *network, const char *loss, const char *wrt, const char *seed,
                                    igata_network **gradient);
/* The text form; valid as long as the context. */
const char *igata_network_text(igata_network *network);

/* ---- sessions: running a model or an artifact by any engine -------------------------------------------------------------------- */

typedef struct igata_tensor { /* dense, row-major, packed */
    const char *name;
    int dtype; /* IGATA_F32 ... */
    size_t rank;
    const int64_t *dims;
    void *data;
    size_t bytes;
} igata_tensor;

/* path: .onnx, .ig or an artifact. Options: engine (compiled, eager, ref32, f64), threads, target and runner, and those of
 * load and compile. Models are compiled at the first run of each set of input shapes. */
igata_status igata_session_open(igata_context *ctx, const char *path, const igata_options *options, igata_session **session);
void igata_session_close(igata_session *session);
/* Declared inputs and outputs; a size of -1 is symbolic. */
size_t igata_session_inputs(const igata_session *session);
size_t igata_session_outputs(const igata_session *session);
igata_status igata_session_input(const igata_session *session, size_t index, igata_tensor *info);
igata_status igata_session_output(const igata_session *session, size_t index, igata_tensor *info);
/* Inputs by name, any order. outputs: room for igata_session_outputs tensors; their data belongs to the session until the
 * next run. IGATA_E_INDEX: an index was out of range. */
igata_status igata_session_run(igata_session *session, const igata_tensor *inputs, size_t n_inputs, igata_tensor *outputs);
/* Binds inputs once; then each step runs on them without copies (for timing). */
igata_status igata_session_bind(igata_session *session, const igata_tensor *inputs, size_t n_inputs);
igata_status igata_session_step(igata_session *session);

typedef struct igata_session_stats { /* of the shapes bound or run last; 0 where an engine has none */
    size_t size;
    double compile_s, open_us, first_run_us;
    size_t workspace_bytes, weights_bytes, code_bytes, artifact_bytes, kernels;
    uint64_t flops;
    const char *target, *cpu;
} igata_session_stats;
igata_status igata_session_statistics(const igata_session *session, igata_session_stats *stats);

/* ---- looking inside ----------------------------------------------------------------------------------------------------------------- */

/* format: "text", "json", "dot", "ir" for a model or artifact. The text is valid as long as the context. */
igata_status igata_inspect(igata_context *ctx, const char *path, const igata_options *options, const char *format,
                           const char **text);
/* format: "text", "json", "md": the coverage table of ops. */
igata_status igata_ops(igata_context *ctx, const char *format, const char **text);

#ifdef __cplusplus
}
#endif
#endif
