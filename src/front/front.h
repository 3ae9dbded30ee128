/* SPDX-License-Identifier: Apache-2.0
 *
 * front: models and test data become modules and host tensors. ONNX files (front/onnx), igata's own text, .npy and ONNX
 * TensorProto files. Input is not trusted: whatever is wrong with it is a diagnostic, reported with its node or field;
 * everything that a model needs and igata lacks is reported at once.
 */
#ifndef IGATA_FRONT_H
#define IGATA_FRONT_H

#include "op/op.h"

/* ---- models ----------------------------------------------------------------------------------------------------- */

/* The size of a named symbol: `--dim batch=1`, or taken from an input's data. lo = hi: a number; else a range. */
typedef struct DimBinding {
    Str name;
    int64_t lo, hi;
    bool bound; /* `--bound`: only hi was given, lo is 0 */
} DimBinding;
/* The sizes of an input: `--shape x=1x512`. A size of -1 keeps what the model declares. */
typedef struct ShapeBinding {
    Str name;
    uint32_t rank;
    const int64_t *dim;
} ShapeBinding;
/* The value of an input, known when the graph is built: what reads the input reads a constant, so shapes may depend on it.
 * The input stays a parameter; running with another value gives the results of this one. Worth a second import where the
 * first reported nothing but DIAG_onnx_unknown. */
typedef struct ValueBinding {
    Str name;
    const Tensor *value; /* store = dtype; must outlive the module */
} ValueBinding;
typedef struct ImportOptions {
    bool strict; /* BatchNormalization is not folded into the operator it reads (numerics.md) */
    const DimBinding *dims;
    uint32_t n_dims;
    const ShapeBinding *shapes;
    uint32_t n_shapes;
    const Str *overridable; /* inputs with an initializer that stay inputs; the others become constants */
    uint32_t n_overridable;
    const ValueBinding *values;
    uint32_t n_values;
    int64_t max_bytes; /* of one value; 0: the default of 2^36 */
} ImportOptions;

/* Imports by extension: .onnx, .ig; "-" reads ONNX from standard input. options may be NULL. The module's weights are views of
 * the mapped file, which lives as long as the Context. NULL after reporting everything that is wrong. */
Module *front_load(Context *ctx, const char *path, const ImportOptions *options);
/* The same for an ONNX model in memory; `path` names it in messages, external data is looked for beside it. */
Module *front_onnx_import(Context *ctx, const char *path, Blob blob, const ImportOptions *options);

/* What an ONNX model declares, without importing it: inputs in graph order (with their initializers), then outputs. */
typedef struct FrontDim {
    int64_t size; /* -1: not a number */
    Str symbol;   /* "": none */
} FrontDim;
typedef struct FrontValue {
    Str name;
    DType dtype;   /* DT_NONE: no tensor, or none declared */
    bool has_rank; /* else any shape */
    uint32_t rank;
    const FrontDim *dim;
    bool initializer; /* an input with a default value */
} FrontValue;
typedef struct FrontInfo {
    uint32_t n_in, n_out;
    const FrontValue *in, *out;
} FrontInfo;
bool front_onnx_info(Context *ctx, Arena *arena, const char *path, FrontInfo *info); /* false after reporting */
/* Whether an import may give this name to a size that the run finds, which no declaration shows. */
bool front_may_name(Str symbol);

/* ---- data: store = dtype, elements dense; data lives in arena or is a view of a file mapped by the Context ------------ */

/* One ONNX TensorProto (a test case's input_N.pb). *name: "" if it has none. False after reporting. */
bool front_read_tensor_pb(Context *ctx, Arena *arena, const char *path, Str *name, Tensor *tensor);
/* NumPy array files, format versions 1 to 3, C and Fortran order, both byte orders. Writes version 1, C order. */
bool front_npy_read(Context *ctx, Arena *arena, const char *path, Tensor *tensor);
bool front_npy_write(Context *ctx, const char *path, const Tensor *tensor);

#endif
