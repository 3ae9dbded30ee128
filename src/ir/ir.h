/* SPDX-License-Identifier: Apache-2.0
 *
 * ir: the SSA tensor IR. Types, dims, nodes, values, regions, modules; builder, walk, text form, structural verifier.
 * What an operator *means* is not known here: that is op/. Language reference: doc/ir.md.
 *
 * Invariants (ir_verify):
 *  - Nodes and values are different things. A node's list order is the program order and is topological.
 *  - Regions are closed: a node uses values of its own region only; captures are operands of the region's node.
 *  - The last node of a region is `yield`. Everything is pure; `check` is pinned.
 *  - Every node has a location. Ids grow by creation and never repeat in a module: hash and sort by id or content,
 *    never by address.
 *  - Operands change only through ir_set_in, ir_replace_all, ir_erase and ir_move, which keep the use lists.
 */
#ifndef IGATA_IR_H
#define IGATA_IR_H

#include "base/base.h"

enum { IR_MAX_RANK = 12, IR_MAX_ATTRS = 10, IR_MAX_NESTING = 64 };

typedef struct Dim Dim;
typedef struct Sym Sym;
typedef struct Type Type;
typedef struct Val Val;
typedef struct Use Use;
typedef struct Node Node;
typedef struct Region Region;
typedef struct Func Func;
typedef struct Weight Weight;
typedef struct State State;
typedef struct Module Module;
typedef struct Attrs Attrs;
typedef struct ModuleIndex ModuleIndex;

/* ---- dim.c: sizes as interned expressions in normal form --------------------------------------------------
 * A dim is a sum of coefficient x product of atoms; an atom is a symbol, floordiv, mod, min or max of dims.
 * Equal dims are equal pointers (per Context). Values are s64; arithmetic that overflows is ig_bug-free: it yields
 * dim_invalid, which every constructor keeps and every type refuses. */

/* A named size with a range, declared once in a Module. lo >= 0. */
struct Sym {
    Str name;
    int64_t lo, hi;
    uint32_t id;
    bool unbacked; /* defined by a node (NonZero, a Loop's count), not by an input */
};
typedef enum Tri { TRI_NO, TRI_YES, TRI_UNKNOWN } Tri;

const Dim *dim_const(Context *ctx, int64_t value);
const Dim *dim_sym(Context *ctx, const Sym *sym);
const Dim *dim_add(Context *ctx, const Dim *a, const Dim *b);
const Dim *dim_sub(Context *ctx, const Dim *a, const Dim *b);
const Dim *dim_mul(Context *ctx, const Dim *a, const Dim *b);
const Dim *dim_floordiv(Context *ctx, const Dim *a, const Dim *b); /* b = 0: invalid */
const Dim *dim_mod(Context *ctx, const Dim *a, const Dim *b);      /* sign of the divisor */
const Dim *dim_min(Context *ctx, const Dim *a, const Dim *b);
const Dim *dim_max(Context *ctx, const Dim *a, const Dim *b);
bool dim_is_valid(const Dim *dim);
bool dim_is_const(const Dim *dim, int64_t *value); /* value may be NULL */
const Sym *dim_as_sym(const Dim *dim);             /* the symbol that it is, or NULL */
void dim_range(const Dim *dim, int64_t *lo, int64_t *hi); /* conservative */
Tri dim_eq(const Dim *a, const Dim *b);
Tri dim_le(const Dim *a, const Dim *b);
Tri dim_divides(const Dim *divisor, const Dim *dim);
/* Replaces symbols: bind(user, sym) returns a dim, or NULL to keep the symbol. */
const Dim *dim_bind(Context *ctx, const Dim *dim, const Dim *(*bind)(void *user, const Sym *sym), void *user);
/* The dim from its leaves up, as any type: numbers, symbols, and what `apply` makes of two results. The dim is valid. */
typedef enum DimOp { DIM_ADD, DIM_MUL, DIM_FLOORDIV, DIM_MOD, DIM_MIN, DIM_MAX } DimOp;
typedef struct DimFold {
    void *user;
    const void *(*number)(void *user, int64_t value);
    const void *(*sym)(void *user, const Sym *sym);
    const void *(*apply)(void *user, DimOp op, const void *a, const void *b);
} DimFold;
const void *dim_fold(const Dim *dim, const DimFold *fold);
void dim_print(Text *text, const Dim *dim);

/* ---- type.c ----------------------------------------------------------------------------------------------- */

typedef enum TypeKind { TY_TENSOR, TY_SEQ, TY_OPT } TypeKind;
struct Type { /* interned: equal types are equal pointers */
    TypeKind kind;
    DType dtype;           /* TENSOR */
    uint32_t rank;         /* TENSOR */
    const Dim *const *dim; /* TENSOR: rank dims, each >= 0 */
    const Type *elem;      /* SEQ, OPT */
};
/* NULL if the rank exceeds IR_MAX_RANK, or a dim is invalid or known to be negative. */
const Type *type_tensor(Context *ctx, DType dtype, uint32_t rank, const Dim *const *dims);
const Type *type_tensor_s64(Context *ctx, DType dtype, uint32_t rank, const int64_t *dims);
const Type *type_seq(Context *ctx, const Type *elem);
const Type *type_opt(Context *ctx, const Type *elem);
const Type *type_with_dtype(Context *ctx, const Type *type, DType dtype);
/* Replaces symbols in every dim (dim_bind). NULL if a dim becomes invalid or negative. */
const Type *type_bind(Context *ctx, const Type *type, const Dim *(*bind)(void *user, const Sym *sym), void *user);
bool type_is_static(const Type *type);                 /* a tensor whose dims are all numbers */
int64_t type_dim(const Type *type, uint32_t axis);     /* requires a constant dim */
int64_t type_bound(const Type *type, uint32_t axis);   /* the largest size of the axis */
bool type_count(const Type *type, uint64_t *elements); /* false: not static, or more than 2^62 */
bool type_count_bound(const Type *type, uint64_t *elements); /* of a tensor at its bounds; false: more than 2^62 */
bool type_bytes(const Type *type, uint64_t *bytes);
void type_print(Text *text, const Type *type); /* f32[1,N,3*N+2] */

/* ---- attr.c: attributes, typed by the schema column of ops.def ----------------------------------------------- */

typedef enum AttrKind {
    AK_INT,    /* s64 */
    AK_BOOL,   /* s64, 0 or 1 */
    AK_FLOAT,  /* f64 */
    AK_STR,    /* Str; also enums: the schema's text names the choices */
    AK_DTYPE,  /* DType */
    AK_INTS,   /* list of s64 */
    AK_DIM,    /* Dim */
    AK_DIMS,   /* list of Dim */
    AK_WEIGHT, /* Weight of the module */
    AK_FUNC,   /* Func of the module */
} AttrKind;
typedef struct AttrVal {
    AttrKind kind;
    uint32_t n; /* INTS, DIMS */
    union {
        int64_t i;
        double f;
        Str s;
        DType dtype;
        const int64_t *ints;
        const Dim *dim;
        const Dim *const *dims;
        Weight *weight;
        Func *func;
    } u;
} AttrVal;
typedef enum AttrName {
    AN_NONE,
#define ATTRNAME(name) AN_##name,
#include "ir/attrs.def"
#undef ATTRNAME
    AN_COUNT
} AttrName;
/* Values in schema order; interned (equal attributes are equal pointers). */
struct Attrs {
    uint32_t n;
    AttrVal val[];
};
AttrVal attr_int(int64_t value);
AttrVal attr_bool(bool value);
AttrVal attr_float(double value);
AttrVal attr_str(Context *ctx, const char *value);
AttrVal attr_dtype(DType dtype);
AttrVal attr_ints(const int64_t *values, uint32_t n); /* copied when interned */
AttrVal attr_dim(const Dim *dim);
AttrVal attr_dims(const Dim *const *dims, uint32_t n); /* copied when interned */
AttrVal attr_weight(Weight *weight);
AttrVal attr_func(Func *func);
const Attrs *attrs_make(Context *ctx, const AttrVal *values, uint32_t n);
/* Replaces symbols in every dim (dim_bind). tmp: scratch. */
const Attrs *attrs_bind(Context *ctx, Arena *tmp, const Attrs *attrs, const Dim *(*bind)(void *user, const Sym *sym), void *user);

/* ---- ops: the columns of ops.def that belong to this layer --------------------------------------------------- */

typedef enum Op {
#define OP(id, in_min, in_max, outs, kind, traits, attrs, shape, eval, adjoint, lower, body) OP_##id,
#include "ir/ops.def"
#undef OP
    OP_COUNT
} Op;
typedef enum OpKind { /* how fusion and lowering see an op; ir.md section 2 */
    OK_MAP,
    OK_INDEX,
    OK_FOLD,
    OK_CONTRACT,
    OK_OPAQUE,
    OK_CONTROL,
    OK_SOURCE,
    OK_COMPOSITE, /* has a body; `expand` replaces it by primitives before lowering */
} OpKind;
typedef enum OpTrait {
    OT_NONE = 0,
    OT_COMM = 1 << 0,    /* in0 and in1 may be exchanged without changing a bit (never for float min/max) */
    OT_PINNED = 1 << 1,  /* DCE keeps it */
    OT_COSTLY = 1 << 2,  /* an elementary function or a division: do not recompute per use */
    OT_COMPARE = 1 << 3, /* result is bool */
    OT_REGION = 1 << 4,  /* has regions */
    OT_EVALONLY = 1 << 5 /* runs in the evaluator only; `igata ops` says so */
} OpTrait;
typedef struct AttrSchema {
    AttrName name;
    AttrKind kind;
    const char *choices; /* AK_STR: "a|b|c", NULL: free text */
} AttrSchema;
typedef struct OpInfo {
    const char *name;
    int16_t in_min, in_max; /* in_max -1: variadic */
    int16_t outs;           /* -1: given at construction */
    OpKind kind;
    uint32_t traits;
    AttrSchema attr[IR_MAX_ATTRS]; /* ends at AN_NONE */
} OpInfo;
extern const OpInfo op_info[OP_COUNT];
const char *attr_name(AttrName name);
Op op_from_name(const char *name); /* OP_COUNT if unknown */

/* ---- nodes, values, regions, modules ------------------------------------------------------------------------- */

struct Use {
    Val *val; /* NULL: an absent optional operand */
    Node *user;
    Use *next, **prev;
};
struct Val {
    const Type *type;
    Node *def;      /* NULL: parameter of `region` */
    Region *region; /* parameters only */
    Use *uses;
    uint32_t id;
    uint32_t out; /* which result, or which parameter */
};
struct Node {
    uint16_t op, n_in, n_out, n_region;
    Loc loc;
    const Attrs *attr;
    Region *parent;
    Node *next, *prev;
    uint32_t id, order; /* order: see ir_before */
    Use *in;
    Val *out;
    Region **region;
};
struct Region {
    Module *module;
    Func *func;
    Node *node; /* owner; NULL for a function's body */
    VEC(Val *) params;
    Node *first, *last; /* last: yield, once built */
    bool order_valid;
};
struct Func {
    Module *module;
    Str name;
    Region *body;
    bool entry;
    Str *in_names, *out_names; /* parameters and yield operands by the user's names */
};
/* A constant's bytes: a view of a mapped file or module memory; never copied by passes. */
struct Weight {
    Str name;
    const Type *type;   /* static tensor */
    const void *data;   /* type_bytes bytes */
    uint64_t hash;      /* of type and content */
    Str file;           /* "" or the file `data` is a view of (path as opened), for the text form */
    uint64_t file_offset;
    uint32_t id;
};
struct State {
    Str name;
    const Type *type;
    uint32_t id;
};
struct Module {
    Context *ctx;
    Arena *arena;
    VEC(Func *) funcs;
    VEC(Weight *) weights;
    VEC(State *) states;
    VEC(Sym *) syms;
    VEC(Str) meta; /* key, value, key, value ... */
    Str dir;       /* folder of the module's .ig file; "": none. The text form names weight files relative to it */
    uint32_t next_id;
    ModuleIndex *index; /* name tables, private */
};

/* build.c */
Module *module_create(Context *ctx);
void module_destroy(Module *module);
/* Strict: no arithmetic class that reorders sums (numerics.md: wino2). Part of the module's meaning, kept in its meta as
 * "igata.arithmetic" "strict". */
bool module_is_strict(const Module *module);
void module_set_strict(Module *module);
Module *module_clone(const Module *module); /* same Context; weights' bytes are shared: the original must outlive it */
Func *module_func(Module *module, Str name, bool entry); /* the name must be new in the module */
Func *module_find_func(const Module *module, Str name);
Sym *module_sym(Module *module, Str name, int64_t lo, int64_t hi); /* the existing one if the name is known */
/* A symbol of the same name with another range takes its place; whoever calls this replaces it in every dim. */
Sym *module_replace_sym(Module *module, const Sym *sym, int64_t lo, int64_t hi);
/* Adds a weight, or returns an equal one (type and bytes). `copy`: take the bytes into the module. The type is a static
 * tensor, not of str. A name that is "" or taken is made unique. */
Weight *module_weight(Module *module, Str name, const Type *type, const void *data, bool copy);
State *module_state(Module *module, Str name, const Type *type); /* the name must be new in the module */
Weight *module_find_weight(const Module *module, Str name); /* these return NULL if there is none */
State *module_find_state(const Module *module, Str name);
Sym *module_find_sym(const Module *module, Str name);
Val *func_param(Func *func, Str name, const Type *type);
/* Ends the body with yield. names: one per value. */
void func_yield(Func *func, Loc loc, Val *const *values, const Str *names, uint32_t n);
uint32_t func_n_out(const Func *func);
Val *func_out(const Func *func, uint32_t i);

typedef struct Builder {
    Module *module;
    Region *region;
    Node *before; /* NULL: append */
    Loc loc;
} Builder;
Builder ir_at_end(Region *region, Loc loc);
Builder ir_before_node(Node *node, Loc loc); /* inserts before node */
/* Raw: no inference, no folding. in[i] may be NULL for an absent optional operand. types: one per result. */
Node *ir_emit(Builder *b, Op op, Val *const *in, uint32_t n_in, const Attrs *attrs, const Type *const *types,
              uint32_t n_out);
Region *ir_add_region(Node *node);
Val *region_param(Region *region, const Type *type);
void ir_set_in(Node *node, uint32_t i, Val *val);
void ir_replace_all(Val *old, Val *with); /* every use */
void ir_erase(Node *node);                /* requires that no result is used */
void ir_move(Node *node, Node *before);   /* within a region */
static inline Val *ir_in(const Node *node, uint32_t i) { return i < node->n_in ? node->in[i].val : NULL; }
static inline Val *ir_out(Node *node, uint32_t i) { return &node->out[i]; }

/* walk.c */
bool ir_before(const Node *a, const Node *b); /* a precedes b in their common region; renumbers when needed */
uint32_t val_n_uses(const Val *val);
bool val_is_output(const Val *val); /* used by a function's yield */
#define REGION_FOREACH(node, region) for (Node *node = (region)->first; node; node = node->next)
/* attributes of a node; a missing one is ig_bug, so a pass cannot read what the schema lacks */
const AttrVal *node_attr(const Node *node, AttrName name); /* NULL if the op has none of that name */
const AttrVal *attrs_get(Op op, const Attrs *attrs, AttrName name);
/* Whether the test holds of every size that the attributes name; attrs may be NULL. */
bool attrs_all_dims(const Attrs *attrs, bool (*test)(void *user, const Dim *dim), void *user);
int64_t node_int(const Node *node, AttrName name);
bool node_bool(const Node *node, AttrName name);
double node_float(const Node *node, AttrName name);
Str node_str(const Node *node, AttrName name);
bool node_str_is(const Node *node, AttrName name, const char *value);
uint32_t node_ints(const Node *node, AttrName name, const int64_t **values); /* count */
uint32_t node_dims(const Node *node, AttrName name, const Dim *const **values);
Weight *node_weight(const Node *node, AttrName name);
/* The constant behind a value, or NULL. */
Weight *val_const(const Val *val);
/* A constant, or a view of one through nodes of kind INDEX with one operand: a contraction reads it packed, without a copy. */
bool val_is_const_view(const Val *val);

/* dead.c */
/* Whether the node gives a value the size `sym`, which none of its operands and attributes names: it finds what the size is. */
bool node_finds(const Node *node, const Sym *sym);
/* Erases what nobody needs, in all regions; true if anything went. Pinned nodes stay, and what finds a size that a node names. */
bool ir_drop_dead(Func *func);

/* print.c, parse.c: lossless; print(parse(print(x))) = print(x) */
void ir_print(Text *text, const Module *module);
void ir_print_node(Text *text, const Node *node);
/* Weights above 64 elements are written to `weights_path` (beside the .ig) when they are not views of a file. */
bool ir_save(const Module *module, const char *path);
Module *ir_parse(Context *ctx, Str file, const char *text, size_t size); /* NULL after reporting */
Module *ir_load(Context *ctx, const char *path);

/* verify.c: structure only; false after reporting everything that is wrong */
bool ir_verify(const Module *module);

#endif
