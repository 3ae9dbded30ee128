/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of front/onnx only: the messages of an ONNX file as C structs, their reader, and the frame in which
 * the importers of single operators run.
 */
#ifndef IGATA_ONNX_INT_H
#define IGATA_ONNX_INT_H

#include "front/front.h"

/* ---- messages: onnx.proto, the parts that carry meaning --------------------------------------------------------------
 * F(message, field number, name, kind, ONE or REP, sub-message). A member of kind STR is NULL when absent, MSG too;
 * `has` has the bit of each field that occurred, counted in the order of the list. */
typedef VEC(int64_t) IntList;
typedef VEC(float) F32List;
typedef VEC(double) F64List;
typedef VEC(Str) StrList;
typedef VEC(Blob) BlobList;
typedef VEC(void *) MsgList;
typedef struct NoMessage {
    uint64_t has;
} NoMessage;

#define FIELDS_StringStringEntryProto(F, M) F(M, 1, key, STR, ONE, NoMessage) F(M, 2, value, STR, ONE, NoMessage)
#define FIELDS_OperatorSetIdProto(F, M) F(M, 1, domain, STR, ONE, NoMessage) F(M, 2, version, INT, ONE, NoMessage)
#define FIELDS_TensorProto(F, M)                                                                                       \
    F(M, 1, dims, INT, REP, NoMessage)                                                                                 \
    F(M, 2, data_type, INT, ONE, NoMessage)                                                                            \
    F(M, 3, segment, MSG, ONE, NoMessage)                                                                              \
    F(M, 4, float_data, F32, REP, NoMessage)                                                                           \
    F(M, 5, int32_data, INT, REP, NoMessage)                                                                           \
    F(M, 6, string_data, BYTES, REP, NoMessage)                                                                        \
    F(M, 7, int64_data, INT, REP, NoMessage)                                                                           \
    F(M, 8, name, STR, ONE, NoMessage)                                                                                 \
    F(M, 9, raw_data, BYTES, ONE, NoMessage)                                                                           \
    F(M, 10, double_data, F64, REP, NoMessage)                                                                         \
    F(M, 11, uint64_data, INT, REP, NoMessage)                                                                         \
    F(M, 13, external_data, MSG, REP, StringStringEntryProto)                                                          \
    F(M, 14, data_location, INT, ONE, NoMessage)
#define FIELDS_SparseTensorProto(F, M)                                                                                 \
    F(M, 1, values, MSG, ONE, TensorProto) F(M, 2, indices, MSG, ONE, TensorProto) F(M, 3, dims, INT, REP, NoMessage)
#define FIELDS_DimensionProto(F, M) F(M, 1, dim_value, INT, ONE, NoMessage) F(M, 2, dim_param, STR, ONE, NoMessage)
#define FIELDS_TensorShapeProto(F, M) F(M, 1, dim, MSG, REP, DimensionProto)
#define FIELDS_TensorTypeProto(F, M) F(M, 1, elem_type, INT, ONE, NoMessage) F(M, 2, shape, MSG, ONE, TensorShapeProto)
#define FIELDS_ContainerTypeProto(F, M) F(M, 1, elem_type, MSG, ONE, TypeProto)
#define FIELDS_TypeProto(F, M)                                                                                         \
    F(M, 1, tensor_type, MSG, ONE, TensorTypeProto)                                                                    \
    F(M, 4, sequence_type, MSG, ONE, ContainerTypeProto)                                                               \
    F(M, 5, map_type, MSG, ONE, NoMessage)                                                                             \
    F(M, 8, sparse_tensor_type, MSG, ONE, NoMessage)                                                                   \
    F(M, 9, optional_type, MSG, ONE, ContainerTypeProto)
#define FIELDS_ValueInfoProto(F, M) F(M, 1, name, STR, ONE, NoMessage) F(M, 2, type, MSG, ONE, TypeProto)
#define FIELDS_AttributeProto(F, M)                                                                                    \
    F(M, 1, name, STR, ONE, NoMessage)                                                                                 \
    F(M, 2, f, F32, ONE, NoMessage)                                                                                    \
    F(M, 3, i, INT, ONE, NoMessage)                                                                                    \
    F(M, 4, s, BYTES, ONE, NoMessage)                                                                                  \
    F(M, 5, t, MSG, ONE, TensorProto)                                                                                  \
    F(M, 6, g, MSG, ONE, GraphProto)                                                                                   \
    F(M, 7, floats, F32, REP, NoMessage)                                                                               \
    F(M, 8, ints, INT, REP, NoMessage)                                                                                 \
    F(M, 9, strings, BYTES, REP, NoMessage)                                                                            \
    F(M, 10, tensors, MSG, REP, TensorProto)                                                                           \
    F(M, 11, graphs, MSG, REP, GraphProto)                                                                             \
    F(M, 14, tp, MSG, ONE, TypeProto)                                                                                  \
    F(M, 15, type_protos, MSG, REP, TypeProto)                                                                         \
    F(M, 20, type, INT, ONE, NoMessage)                                                                                \
    F(M, 21, ref_attr_name, STR, ONE, NoMessage)                                                                       \
    F(M, 22, sparse_tensor, MSG, ONE, SparseTensorProto)                                                               \
    F(M, 23, sparse_tensors, MSG, REP, SparseTensorProto)
#define FIELDS_NodeProto(F, M)                                                                                         \
    F(M, 1, input, STR, REP, NoMessage)                                                                                \
    F(M, 2, output, STR, REP, NoMessage)                                                                               \
    F(M, 3, name, STR, ONE, NoMessage)                                                                                 \
    F(M, 4, op_type, STR, ONE, NoMessage)                                                                              \
    F(M, 5, attribute, MSG, REP, AttributeProto)                                                                       \
    F(M, 7, domain, STR, ONE, NoMessage)                                                                               \
    F(M, 8, overload, STR, ONE, NoMessage)
#define FIELDS_GraphProto(F, M)                                                                                        \
    F(M, 1, node, MSG, REP, NodeProto)                                                                                 \
    F(M, 2, name, STR, ONE, NoMessage)                                                                                 \
    F(M, 5, initializer, MSG, REP, TensorProto)                                                                        \
    F(M, 11, input, MSG, REP, ValueInfoProto)                                                                          \
    F(M, 12, output, MSG, REP, ValueInfoProto)                                                                         \
    F(M, 15, sparse_initializer, MSG, REP, SparseTensorProto)
#define FIELDS_FunctionProto(F, M)                                                                                     \
    F(M, 1, name, STR, ONE, NoMessage)                                                                                 \
    F(M, 4, input, STR, REP, NoMessage)                                                                                \
    F(M, 5, output, STR, REP, NoMessage)                                                                               \
    F(M, 6, attribute, STR, REP, NoMessage)                                                                            \
    F(M, 7, node, MSG, REP, NodeProto)                                                                                 \
    F(M, 9, opset_import, MSG, REP, OperatorSetIdProto)                                                                \
    F(M, 10, domain, STR, ONE, NoMessage)                                                                              \
    F(M, 11, attribute_proto, MSG, REP, AttributeProto)                                                                \
    F(M, 13, overload, STR, ONE, NoMessage)
#define FIELDS_ModelProto(F, M)                                                                                        \
    F(M, 1, ir_version, INT, ONE, NoMessage)                                                                           \
    F(M, 2, producer_name, STR, ONE, NoMessage)                                                                        \
    F(M, 7, graph, MSG, ONE, GraphProto)                                                                               \
    F(M, 8, opset_import, MSG, REP, OperatorSetIdProto)                                                                \
    F(M, 14, metadata_props, MSG, REP, StringStringEntryProto)                                                         \
    F(M, 25, functions, MSG, REP, FunctionProto)
#define MESSAGES(X)                                                                                                    \
    X(StringStringEntryProto)                                                                                          \
    X(OperatorSetIdProto)                                                                                              \
    X(TensorProto)                                                                                                     \
    X(SparseTensorProto)                                                                                               \
    X(DimensionProto)                                                                                                  \
    X(TensorShapeProto)                                                                                                \
    X(TensorTypeProto)                                                                                                 \
    X(ContainerTypeProto)                                                                                              \
    X(TypeProto)                                                                                                       \
    X(ValueInfoProto)                                                                                                  \
    X(AttributeProto)                                                                                                  \
    X(NodeProto)                                                                                                       \
    X(GraphProto)                                                                                                      \
    X(FunctionProto)                                                                                                   \
    X(ModelProto)

#define MEMBER_INT_ONE(sub) int64_t
#define MEMBER_INT_REP(sub) IntList
#define MEMBER_F32_ONE(sub) float
#define MEMBER_F32_REP(sub) F32List
#define MEMBER_F64_REP(sub) F64List
#define MEMBER_STR_ONE(sub) Str
#define MEMBER_STR_REP(sub) StrList
#define MEMBER_BYTES_ONE(sub) Blob
#define MEMBER_BYTES_REP(sub) BlobList
#define MEMBER_MSG_ONE(sub) sub *
#define MEMBER_MSG_REP(sub) MsgList
#define MEMBER(M, number, name, kind, arity, sub) MEMBER_##kind##_##arity(sub) name;
#define FIELD_BIT(M, number, name, kind, arity, sub) M##_##name,
#define X(M) typedef struct M M;
MESSAGES(X)
#undef X
#define X(M)                                                                                                           \
    struct M {                                                                                                         \
        uint64_t has;                                                                                                  \
        FIELDS_##M(MEMBER, M)                                                                                          \
    };                                                                                                                 \
    enum M##Bit { FIELDS_##M(FIELD_BIT, M) M##_COUNT };
MESSAGES(X)
#undef X
/* True if the field occurred in the file. */
#define HAS(M, pointer, field) (((pointer)->has >> M##_##field & 1) != 0)

/* ---- wire.c ------------------------------------------------------------------------------------------------------------ */

/* Structs live in arena; BYTES are views of the blob. NULL after reporting what and where; `file` is for messages. */
ModelProto *wire_read_model(Context *ctx, Arena *arena, Str file, Blob blob);
TensorProto *wire_read_tensor(Context *ctx, Arena *arena, Str file, Blob blob);

/* ---- onnx_tensor.c ----------------------------------------------------------------------------------------------------- */

/* AttributeProto.AttributeType and TensorProto.DataLocation */
enum { AT_FLOAT = 1, AT_INT, AT_STRING, AT_TENSOR, AT_GRAPH, AT_FLOATS, AT_INTS, AT_STRINGS, AT_TENSORS, AT_GRAPHS,
       AT_SPARSE_TENSOR, AT_SPARSE_TENSORS, AT_TYPE_PROTO, AT_TYPE_PROTOS };

typedef struct TensorSource {
    Context *ctx;
    Arena *arena; /* decoded data, when it is no view */
    Str file;     /* of the model: messages, and the folder of external data */
    Map *files;   /* of external data, by path */
    Blob blob;    /* the model's own bytes */
    Loc loc;
    int64_t max_bytes;
} TensorSource;
typedef struct TensorData {
    DType dtype;
    uint32_t rank;
    int64_t dim[IR_MAX_RANK];
    uint64_t count;
    const void *data; /* dense; a view of a mapped file if `file` is not "" */
    Str file;
    uint64_t offset;
} TensorData;
/* False after reporting, naming the tensor. `what`: "initializer" or another word for messages. */
bool onnx_read_tensor(TensorSource *source, const char *what, const TensorProto *proto, TensorData *out);
bool onnx_read_sparse(TensorSource *source, const SparseTensorProto *proto, TensorData *out);

/* ---- onnx_model.c, onnx_graph.c: the frame of an import ------------------------------------------------------------------ */

typedef struct Importer Importer;
typedef struct OnnxNode OnnxNode;
typedef bool ImportFn(OnnxNode *n); /* sets n->out[]; false after reporting */

/* A row of onnx.def: what the standard says of an operator from one version on. */
typedef struct OnnxRow {
    const char *type;
    int16_t since;
    int16_t in_min, in_max, out_min, out_max; /* max -1: variadic */
    ImportFn *import;
    int arg;           /* what the importer makes of it: an Op, mostly */
    const char *attrs; /* "name:kind ...", kind as AttributeProto.AttributeType by letter, '!' before a required one */
} OnnxRow;
const OnnxRow *onnx_find_row(const char *type, int64_t opset); /* NULL: none at that opset */
const char *onnx_table_name(Arena *arena, const NodeProto *node); /* the operator's type; "domain:type" outside of the main domain */
bool onnx_type_exists(const char *type, int64_t *first_version);
enum { ONNX_OPSET_MIN = 1, ONNX_OPSET_MAX = 28, ONNX_IR_MAX = 14, ONNX_MAX_NODES = 1 << 22 };

typedef struct Binding { /* what a name stands for */
    Val *val;                 /* NULL: not made yet (a tensor), or its maker failed */
    const TensorData *tensor; /* an initializer: `val` is made at its first use */
    Str name;
    bool absent; /* an input of a function that the call leaves out */
} Binding;
/* The versions of operator sets that a body (the model's or a function's) imports, and the values of its attributes. */
typedef struct BodyEnv {
    const MsgList *opsets;
    const FunctionProto *function; /* NULL: the model's graph */
    const OnnxNode *caller;
    uint32_t depth;
} BodyEnv;
typedef struct Scope {
    struct Scope *outer; /* the graph around a sub-graph; NULL: the model's graph or a function's body */
    const BodyEnv *env;
    Map *names; /* KEY(name) -> Binding */
    Builder b;
    Str path;
    const MsgList *nodes; /* being imported, for messages */
    uint32_t depth;
} Scope;
/* What a contraction was made of, so that a BatchNormalization that reads it can be folded into it. */
typedef struct Foldable Foldable;
typedef struct TripCount { /* of loops without a condition */
    Val *given, *scalar;
    const Region *region;
    const Dim *size; /* of what they stack; NULL: none has */
} TripCount;
struct Importer {
    Context *ctx;
    Arena *arena;
    Module *module;
    VEC(TripCount *) trips;
    Func *func;
    const ModelProto *model;
    const ImportOptions *options;
    Str file;
    TensorSource tensors;
    Map *foldable; /* KEY(Val) -> Foldable */
    Map *lists;    /* KEY(Val) -> ValList */
    Map *symbols;  /* KEY(name) -> Dim of a named size: given, or found in an input's given shape */
    uint32_t n_nodes, n_fresh;
    int64_t max_bytes;
};
struct OnnxNode {
    Importer *im;
    Scope *scope;
    const NodeProto *proto;
    const OnnxRow *row;
    int64_t opset; /* version of the operator set */
    Builder *b;
    Loc loc;
    Context *ctx;
    Val **in; /* NULL: absent; n_in without trailing absent ones */
    Val **out;
    uint32_t n_in, n_out;
    const AttributeProto **attr; /* references resolved */
    const char **attr_names;     /* as this node calls them */
    uint32_t n_attr;
};

bool onnx_import_graph(Importer *im, Scope *scope, const GraphProto *graph); /* initializers and nodes */
bool onnx_import_nodes(Importer *im, Scope *scope, const MsgList *nodes);
/* Reports names that are bound or visible already. */
bool onnx_bind(Importer *im, Scope *scope, Loc loc, Str name, Val *val);
/* NULL after reporting a name that nothing defines, or (silently) one whose maker failed. */
Val *onnx_lookup(Importer *im, Scope *scope, Loc loc, Str name);
Scope *onnx_scope(Importer *im, Scope *outer, const BodyEnv *env, Region *region, Str path, Loc loc);
Loc onnx_model_loc(const Importer *im);
int64_t onnx_domain_version(const MsgList *opsets, const char *domain); /* 0: not imported */
bool onnx_is_main_domain(const char *domain);
const FunctionProto *onnx_find_function(const Importer *im, const NodeProto *node);
const char *or_blank(Str text);
/* The declared type of a value as an IR type: symbols by name, unknown sizes fresh. bound: sizes given for an input. NULL
 * after reporting. */
const Type *onnx_declared_type(Importer *im, const ValueInfoProto *value, const ShapeBinding *bound);

/* ---- onnx_attr.c: attributes of a node; kinds and names are checked by the frame ---------------------------------------- */

bool onnx_attrs_resolve(OnnxNode *n); /* references, duplicates, kinds against the row */
const AttributeProto *na_find(const OnnxNode *n, const char *name);
int64_t na_int(const OnnxNode *n, const char *name, int64_t missing);
double na_float(const OnnxNode *n, const char *name, double missing);
const char *na_str(const OnnxNode *n, const char *name, const char *missing);
/* The list, or NULL and *count = 0 if missing. */
const int64_t *na_ints(const OnnxNode *n, const char *name, uint32_t *count);
/* "a|b|c": reports a word that is none of them. */
bool na_choice(const OnnxNode *n, const char *name, const char *choices, const char *missing, const char **value);
bool na_bad(const OnnxNode *n, const char *name, const char *format, ...) IG_PRINTF(3, 4);

/* ---- onnx_util.c: what importers share ------------------------------------------------------------------------------------ */

bool node_bad(const OnnxNode *n, const char *format, ...) IG_PRINTF(2, 3); /* reports, false */
Loc node_loc(const OnnxNode *n);
static inline Val *node_in(const OnnxNode *n, uint32_t i) { return i < n->n_in ? n->in[i] : NULL; }
static inline uint32_t val_rank(const Val *val) { return val->type->kind == TY_TENSOR ? val->type->rank : 0; }
bool node_unknown(const OnnxNode *n, uint32_t i, const char *what); /* reports an input whose value the import lacks */
bool node_done(OnnxNode *n, Val *result); /* the only result */
/* An axis in [-rank, rank) made non-negative; reports what is outside. */
bool node_axis(const OnnxNode *n, const char *name, int64_t value, uint32_t rank, uint32_t *axis);
bool node_axes(const OnnxNode *n, const char *name, const int64_t *values, uint32_t count, uint32_t rank, int64_t *axes);
/* Input i as dims (a shape, starts ...); reports input that is not known before the run. */
bool node_dims_in(const OnnxNode *n, uint32_t i, const char *what, uint32_t *count, const Dim *const **dims);
bool node_dim_in(const OnnxNode *n, uint32_t i, const char *what, const Dim **dim); /* exactly one */
/* The same as numbers; more than 64 elements are read from a constant. */
bool node_ints_in(const OnnxNode *n, uint32_t i, const char *what, uint32_t *count, const int64_t **values);
bool node_scalar_f64(const OnnxNode *n, uint32_t i, const char *what, double *value); /* a constant of one element */
bool node_folds_to(const OnnxNode *n, const Val *val, int64_t *value); /* an integer that the graph computes from constants */
/* A list of up to 4096 numbers that the graph computes from constants. */
bool node_floats_in(const OnnxNode *n, uint32_t i, const char *what, uint32_t *count, const double **values);
Val *node_const(const OnnxNode *n, DType dtype, uint32_t rank, const int64_t *dims, const double *values);
Val *node_scalar(const OnnxNode *n, Val *x); /* one element -> rank 0 */
/* Operators that are several ops here compute in f32 where x is f16 or bf16 (ir.md, the composite rule 4). */
Val *node_widened(const OnnxNode *n, Val *x);
bool node_done_as(OnnxNode *n, Val *result, DType dtype); /* cast back */
Val *node_unsaturated(OnnxNode *n, Val *x, Val *y); /* y = cast(x) to f8, what overflows becoming infinity or NaN */
Val *op_squeeze_axes(Builder *b, Val *x, const int64_t *axes, uint32_t n); /* axes of size 1, sorted or not */
Val *op_flatten_to(Builder *b, Val *x, uint32_t axis); /* [prod before axis, prod from axis] */
const Dim *dim_product(Context *ctx, const Dim *const *dims, uint32_t n);
bool node_is_const_fill(const Val *val, double *value); /* a constant all of whose elements are equal */

/* onnx_window.c: the attributes of Conv, ConvTranspose and pools, per spatial axis */
typedef struct Window {
    uint32_t n; /* spatial axes */
    int64_t size[IR_MAX_RANK], stride[IR_MAX_RANK], dilation[IR_MAX_RANK], lo[IR_MAX_RANK], hi[IR_MAX_RANK];
} Window;
/* kernel: the sizes that a weight has (kernel_shape must agree), or NULL: kernel_shape is required. */
bool window_read(OnnxNode *n, const Dim *const *spatial, uint32_t n_spatial, const int64_t *kernel, Window *w);
int64_t window_reach(const Window *w, uint32_t a); /* (size - 1) * dilation + 1 */

/* onnx_ops_sequence.c: sequences and optionals, whose elements are known */
typedef struct ValList {
    uint32_t count;
    Val **item;
} ValList;
Val *onnx_list_make(OnnxNode *n, const Type *type, Val *const *items, uint32_t count); /* a stand-in; see there */
bool onnx_takes_lists(ImportFn *import);
Val *onnx_with_axis(OnnxNode *n, Val *x, uint32_t axis); /* of size 1, new */

/* onnx_ops_found.c, onnx_ops_control.c, onnx_ops_reduce.c: sizes that the run finds */
/* A size that only the run knows, at most that of `bound` (NULL: no bound is known). */
const Dim *onnx_unbacked_dim(OnnxNode *n, const Dim *bound);
/* The value of a scalar s64, cut to [0, most], as a size: a number if it is known now, else the run finds it. NULL after reporting. */
const Dim *onnx_found_size(OnnxNode *n, Val *count, const Dim *most);
/* Values and indices (s64) of op topk. */
bool onnx_top_k(OnnxNode *n, Val *x, uint32_t axis, const Dim *k, bool largest, Val **out);

/* onnx_fold.c */
enum FoldKindOnnx { FOLD_OF_CONV, FOLD_OF_CONV_TRANSPOSE, FOLD_OF_GEMM };
struct Foldable {
    enum FoldKindOnnx kind;
    Val *x, *w, *bias; /* as ONNX has them; bias may be NULL */
    OnnxNode node;     /* attributes, location */
};
void onnx_note_foldable(OnnxNode *n, enum FoldKindOnnx kind, Val *result);
/* The folded contraction, or NULL if x is not one that folds: then nothing was made. */
Val *onnx_fold_batch_norm(OnnxNode *n, double epsilon);
/* nn: builds the contraction of a node with the weights given. */
Val *onnx_build_conv(OnnxNode *n, Val *x, Val *w, Val *bias);
Val *onnx_build_conv_transpose(OnnxNode *n, Val *x, Val *w, Val *bias);
Val *onnx_build_gemm(OnnxNode *n, Val *x, Val *w, Val *bias);

/* arguments of onnx.def's Reduce rows */
enum ReduceKind { RED_SUM, RED_PROD, RED_MAX, RED_MIN, RED_MEAN, RED_L1, RED_L2, RED_LOG_SUM, RED_LOG_SUM_EXP, RED_SUM_SQUARE };

#define ONNX(type, since, importer, arg, in_min, in_max, out_min, out_max, attrs) ImportFn import_##importer;
#include "front/onnx/onnx.def"
#undef ONNX

#endif
