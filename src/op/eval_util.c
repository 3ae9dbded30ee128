/* SPDX-License-Identifier: Apache-2.0
 * Tensors of the evaluator: allocation, widening, rounding back, element copies, dims at run time. */
#include "op/eval_support.h"

EvalClass eval_class(const Tensor *t)
{
    if (t->store == DT_F64)
        return EC_F64;
    switch (dtype_kind(t->dtype)) {
    case DK_FLOAT:
        return EC_F32;
    case DK_SINT:
    case DK_UINT:
    case DK_BOOL:
        return EC_INT;
    default:
        return EC_NONE;
    }
}

size_t eval_class_bytes(EvalClass c) { return c == EC_F32 ? 4 : 8; }

bool eval_unsigned(const Tensor *t) { return dtype_kind(t->dtype) == DK_UINT || dtype_kind(t->dtype) == DK_BOOL; }

uint64_t eval_tensor_bytes(const Tensor *t)
{
    uint64_t bytes = 0;
    return dtype_bytes(t->store, t->count, &bytes) ? bytes : UINT64_MAX;
}

Tensor *tensor_new(EvalCtx *ec, DType dtype, uint32_t rank, const int64_t *dims)
{
    Tensor *t = ARENA_NEW(ec->arena, Tensor);
    t->dtype = dtype;
    t->store = ec->mode == EVAL_F64 && dtype_is_float(dtype) ? DT_F64 : dtype;
    t->rank = rank;
    t->count = 1;
    bool overflow = false;
    for (uint32_t i = 0; i < rank; i++) {
        t->dim[i] = dims[i];
        overflow |= __builtin_mul_overflow(t->count, (uint64_t)dims[i], &t->count);
    }
    for (uint32_t i = 0; i < rank; i++) /* an empty tensor of huge sizes is still empty */
        if (dims[i] == 0) {
            t->count = 0;
            overflow = false;
        }
    uint64_t bytes = overflow ? UINT64_MAX : eval_tensor_bytes(t);
    t->data = arena_alloc(ec->arena, bytes < SIZE_MAX ? (size_t)bytes : SIZE_MAX);
    return t;
}

#define INDEX(i) (index ? index[i] : first + (i))
/* Constants are views of a model file, aligned to nothing. */
#define FETCH_AS(To, From)                                                                                             \
    do {                                                                                                               \
        To *to = out;                                                                                                  \
        for (uint64_t i = 0; i < n; i++) {                                                                             \
            From element;                                                                                              \
            memcpy(&element, (const char *)t->data + INDEX(i) * sizeof element, sizeof element);                     \
            to[i] = (To)element;                                                                                       \
        }                                                                                                              \
        return;                                                                                                        \
    } while (0)

static void fetch_f32(const Tensor *t, const uint64_t *index, uint64_t first, uint64_t n, float *out)
{
    if (t->store == DT_F32)
        FETCH_AS(float, float);
    if (t->store == DT_F16 || t->store == DT_BF16)
        for (uint64_t i = 0; i < n; i++) {
            uint16_t half;
            memcpy(&half, (const char *)t->data + INDEX(i) * sizeof half, sizeof half);
            out[i] = t->store == DT_F16 ? f16_to_f32(half) : bf16_to_f32(half);
        }
    else
        for (uint64_t i = 0; i < n; i++)
            out[i] = (float)elem_get_f64(t->store, t->data, INDEX(i));
}

static void fetch_int(const Tensor *t, const uint64_t *index, uint64_t first, uint64_t n, int64_t *out)
{
    switch (t->store) {
    case DT_S64:
    case DT_U64:
        FETCH_AS(int64_t, int64_t);
    case DT_S32:
        FETCH_AS(int64_t, int32_t);
    case DT_U8:
        FETCH_AS(int64_t, uint8_t);
    case DT_S8:
        FETCH_AS(int64_t, int8_t);
    default:
        for (uint64_t i = 0; i < n; i++)
            out[i] = elem_get_s64(t->store, t->data, INDEX(i));
    }
}

void eval_fetch(const Tensor *t, EvalClass c, const uint64_t *index, uint64_t first, uint64_t n, void *out)
{
    if (c == EC_F32)
        fetch_f32(t, index, first, n, out);
    else if (c == EC_INT)
        fetch_int(t, index, first, n, out);
    else if (t->store == DT_F64)
        FETCH_AS(double, double);
    else
        for (uint64_t i = 0; i < n; i++)
            ((double *)out)[i] = elem_get_f64(t->store, t->data, INDEX(i));
}

#define PUT_AS(To, From)                                                                                               \
    do {                                                                                                               \
        To *to = t->data;                                                                                              \
        const From *src = in;                                                                                          \
        for (uint64_t i = 0; i < n; i++)                                                                               \
            to[first + i] = (To)src[i];                                                                                \
        return;                                                                                                        \
    } while (0)

void eval_put(Tensor *t, EvalClass c, uint64_t first, uint64_t n, const void *in)
{
    if (c == EC_F32) {
        if (t->store == DT_F32)
            PUT_AS(float, float);
        for (uint64_t i = 0; i < n; i++)
            elem_set_f64(t->store, t->data, first + i, ((const float *)in)[i]);
    } else if (c == EC_F64) {
        if (t->store == DT_F64)
            PUT_AS(double, double);
        for (uint64_t i = 0; i < n; i++)
            elem_set_f64(t->store, t->data, first + i, ((const double *)in)[i]);
    } else {
        if (t->store == DT_S64 || t->store == DT_U64)
            PUT_AS(int64_t, int64_t);
        if (t->store == DT_S32)
            PUT_AS(int32_t, int64_t);
        uint8_t *bytes = t->data;
        for (uint64_t i = 0; i < n && t->store == DT_BOOL; i++)
            bytes[first + i] = ((const int64_t *)in)[i] != 0;
        for (uint64_t i = 0; i < n && t->store != DT_BOOL; i++)
            elem_set_s64(t->store, t->data, first + i, ((const int64_t *)in)[i]);
    }
}

void eval_put_at(Tensor *t, EvalClass c, uint64_t index, const void *in) { eval_put(t, c, index, 1, in); }

const void *eval_widen(Arena *arena, const Tensor *t, EvalClass c)
{
    DType same = c == EC_F32 ? DT_F32 : c == EC_F64 ? DT_F64 : DT_S64;
    bool aligned = (uintptr_t)t->data % eval_class_bytes(c) == 0;
    if (aligned && (t->store == same || (c == EC_INT && t->store == DT_U64)))
        return t->data;
    void *wide = arena_array(arena, (size_t)t->count, eval_class_bytes(c));
    eval_fetch(t, c, NULL, 0, t->count, wide);
    return wide;
}

int64_t eval_index(const Tensor *t, uint64_t i) { return elem_get_s64(t->store, t->data, i); }

void eval_copy(Tensor *to, uint64_t i, const Tensor *from, uint64_t j)
{
    if (to->store == DT_F32) { /* the usual case, for speed */
        memcpy((uint8_t *)to->data + 4 * i, (const uint8_t *)from->data + 4 * j, 4);
        return;
    }
    int bits = dtype_bits(to->store);
    if (bits >= 8) {
        size_t bytes = (size_t)bits / 8;
        memcpy((uint8_t *)to->data + i * bytes, (const uint8_t *)from->data + j * bytes, bytes);
        return;
    }
    uint64_t per_byte = 8 / (uint64_t)bits;
    unsigned mask = (1u << bits) - 1, put = (unsigned)(i % per_byte) * (unsigned)bits;
    const uint8_t *src = from->data;
    uint8_t *dst = (uint8_t *)to->data + i / per_byte;
    unsigned value = (src[j / per_byte] >> (j % per_byte * (uint64_t)bits)) & mask;
    *dst = (uint8_t)((*dst & ~(mask << put)) | value << put);
}

void eval_copy_run(Tensor *to, uint64_t i, const Tensor *from, uint64_t j, uint64_t n)
{
    int bits = dtype_bits(to->store);
    if (bits >= 8 && n) {
        size_t bytes = (size_t)bits / 8;
        memcpy((uint8_t *)to->data + i * bytes, (const uint8_t *)from->data + j * bytes, n * bytes);
    } else {
        for (uint64_t k = 0; k < n; k++)
            eval_copy(to, i + k, from, j + k);
    }
}

void eval_strides(const Tensor *t, int64_t *stride)
{
    int64_t s = 1;
    for (uint32_t i = t->rank; i-- > 0; s *= t->dim[i])
        stride[i] = s;
}

bool eval_next(uint32_t rank, const int64_t *dim, int64_t *at)
{
    for (uint32_t i = rank; i-- > 0;) {
        if (++at[i] < dim[i])
            return true;
        at[i] = 0;
    }
    return false;
}

/* ---- dims and results -------------------------------------------------------------------------------------- */

typedef struct BindArgs {
    EvalCtx *ec;
    const EvalScope *scope;
} BindArgs;

static const Dim *bound_value(void *user, const Sym *sym)
{
    const BindArgs *args = user;
    if (!args->scope)
        return NULL;
    void *value = map_get(args->scope->syms, sym->id);
    return value ? dim_const(args->ec->ctx, (int64_t)(intptr_t)value - 1) : NULL;
}

bool eval_dim(EvalCtx *ec, const Dim *dim, int64_t *value)
{
    if (dim_is_const(dim, value))
        return true;
    BindArgs args = {ec, ec->driver};
    const Dim *bound = dim_bind(ec->ctx, dim, bound_value, &args);
    if (dim_is_const(bound, value))
        return true;
    Text text;
    text_init(&text, ec->arena);
    dim_print(&text, dim);
    return diag_report(ec->ctx, ec->loc, DIAG_eval_unbound_dim, text.data);
}

Tensor *eval_result(EvalCtx *ec, const Node *node, uint32_t i)
{
    const Type *type = node->out[i].type;
    int64_t dims[IR_MAX_RANK];
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        if (!eval_dim(ec, type->dim[axis], &dims[axis]))
            return NULL;
        if (dims[axis] < 0) {
            diag_report(ec->ctx, ec->loc, DIAG_eval_negative_dim, (int)axis, op_info[node->op].name,
                        (long long)dims[axis]);
            return NULL;
        }
    }
    return tensor_new(ec, type->dtype, type->rank, dims);
}

void eval_error(EvalCtx *ec, const Node *node, int64_t code)
{
    if (ec->error && !*ec->error)
        *ec->error = (uint64_t)node->id << 8 | ((uint64_t)code & 0xFF);
}

bool eval_refuse(EvalCtx *ec, const Node *node, const Tensor *t)
{
    return diag_report(ec->ctx, ec->loc, DIAG_eval_dtype, op_info[node->op].name, dtype_name(t->dtype));
}
