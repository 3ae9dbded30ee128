/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences and optionals of a length that is known when the graph is built (ir.md section 1): a list of values kept by the
 * importer. It is bound to a name through a stand-in value of type seq or opt that never enters the module; only the importers
 * of `onnx_takes_lists` see one. Positions, lengths and split points must be numbers.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

enum { MAX_ITEMS = 1 << 16 };

Val *onnx_list_make(OnnxNode *n, const Type *type, Val *const *items, uint32_t count)
{
    Val *stand_in = ARENA_NEW(n->im->arena, Val);
    ValList list = {.count = count, .item = ARENA_ARRAY(n->im->arena, Val *, count + 1)};
    if (count > MAX_ITEMS)
        return node_bad(n, "a sequence of more than %d elements is not supported", MAX_ITEMS), NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!(list.item[i] = items[i]))
            return NULL;
    *stand_in = (Val){.type = type, .region = n->b->region};
    map_set(n->im->lists, KEY(stand_in), arena_copy(n->im->arena, &list, sizeof list));
    return stand_in;
}

bool onnx_takes_lists(ImportFn *import)
{
    static ImportFn *const known[] = {
        import_identity,         import_loop,            import_if,            import_sequence_construct, import_sequence_insert,
        import_sequence_erase,   import_sequence_at,     import_sequence_length, import_concat_from_sequence, import_optional,
        import_optional_element, import_optional_present};
    for (size_t i = 0; i < IG_COUNT(known); i++)
        if (known[i] == import)
            return true;
    return false;
}

static const ValList *list_of(const OnnxNode *n, const Val *val, TypeKind kind)
{
    const ValList *list = val->type->kind == kind ? map_get(n->im->lists, KEY(val)) : NULL;
    if (!list)
        node_bad(n, "%s takes %s", n->row->type, kind == TY_SEQ ? "a sequence" : "an optional");
    return list;
}

static Val *sequence(OnnxNode *n, const Type *elem, Val *const *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (items[i] && (items[i]->type->kind != TY_TENSOR || items[i]->type->dtype != elem->dtype))
            return node_bad(n, "the elements of a sequence are tensors of one element type"), NULL;
    return onnx_list_make(n, type_seq(n->ctx, elem), items, count);
}

/* Input i as a position in [-limit, limit), made non-negative; absent: missing. */
static bool position(OnnxNode *n, uint32_t i, int64_t limit, int64_t missing, uint32_t *at)
{
    Val *val = node_in(n, i);
    int64_t value = missing;
    if (val && (val->type->kind != TY_TENSOR || !op_const_value(val, &value)))
        return val->type->kind == TY_TENSOR ? node_unknown(n, i, "position")
                                            : node_bad(n, "the position of %s is an integer", n->row->type);
    if (value < 0)
        value += limit;
    if (value < 0 || value >= limit)
        return node_bad(n, "the position of %s is outside of a sequence of %lld", n->row->type, (long long)limit);
    *at = (uint32_t)value;
    return true;
}

/* SequenceConstruct, and SequenceEmpty with its dtype */
bool import_sequence_construct(OnnxNode *n)
{
    DType dtype = dtype_from_onnx(na_int(n, "dtype", 1));
    if (n->n_in == 0 && dtype == DT_NONE)
        return na_bad(n, "dtype", "element type %lld is unknown", (long long)na_int(n, "dtype", 1));
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!n->in[i])
            return node_bad(n, "input %u of %s is absent", i, n->row->type);
    return node_done(n, sequence(n, n->n_in ? n->in[0]->type : type_tensor(n->ctx, dtype, 0, NULL), n->in, n->n_in));
}

bool import_sequence_insert(OnnxNode *n)
{
    const ValList *list = list_of(n, n->in[0], TY_SEQ);
    uint32_t at;
    if (!list || !position(n, 2, (int64_t)list->count + 1, list->count, &at))
        return false;
    Val *given = node_in(n, 2);
    int64_t value;
    if (given && op_const_value(given, &value) && value < 0) /* from the end of what is there */
        at--;
    Val **items = ARENA_ARRAY(n->im->arena, Val *, list->count + 1u);
    memcpy(items, list->item, at * sizeof *items);
    items[at] = n->in[1];
    memcpy(items + at + 1, list->item + at, (list->count - at) * sizeof *items);
    return node_done(n, sequence(n, list->count ? n->in[0]->type->elem : n->in[1]->type, items, list->count + 1));
}

bool import_sequence_erase(OnnxNode *n)
{
    const ValList *list = list_of(n, n->in[0], TY_SEQ);
    uint32_t at;
    if (!list || !position(n, 1, list->count, (int64_t)list->count - 1, &at))
        return false;
    Val **items = ARENA_ARRAY(n->im->arena, Val *, list->count);
    memcpy(items, list->item, at * sizeof *items);
    memcpy(items + at, list->item + at + 1, (list->count - at - 1) * sizeof *items);
    return node_done(n, sequence(n, n->in[0]->type->elem, items, list->count - 1));
}

bool import_sequence_at(OnnxNode *n)
{
    const ValList *list = list_of(n, n->in[0], TY_SEQ);
    uint32_t at;
    return list && position(n, 1, list->count, 0, &at) && node_done(n, list->item[at]);
}

bool import_sequence_length(OnnxNode *n)
{
    const ValList *list = list_of(n, n->in[0], TY_SEQ);
    return list && node_done(n, op_const_s64(n->b, DT_S64, list->count));
}

Val *onnx_with_axis(OnnxNode *n, Val *x, uint32_t axis)
{
    const Dim *dims[IR_MAX_RANK];
    if (!x || x->type->rank == IR_MAX_RANK)
        return x ? node_bad(n, "a result has more than %d axes", IR_MAX_RANK), NULL : NULL;
    for (uint32_t a = 0; a <= x->type->rank; a++)
        dims[a] = a == axis ? dim_const(n->ctx, 1) : x->type->dim[a - (a > axis)];
    return op_reshape(n->b, x, x->type->rank + 1, dims);
}

bool import_concat_from_sequence(OnnxNode *n)
{
    const ValList *list = list_of(n, n->in[0], TY_SEQ);
    bool stack = na_int(n, "new_axis", 0) != 0;
    uint32_t axis;
    if (!list)
        return false;
    if (list->count == 0)
        return node_bad(n, "ConcatFromSequence of no elements has no shape");
    if (!node_axis(n, "axis", na_int(n, "axis", 0), val_rank(list->item[0]) + stack, &axis))
        return false;
    Val **items = ARENA_ARRAY(n->im->arena, Val *, list->count);
    for (uint32_t i = 0; i < list->count; i++)
        items[i] = stack ? onnx_with_axis(n, list->item[i], axis) : list->item[i];
    return node_done(n, op_concat(n->b, items, list->count, axis));
}

/* Sizes of the parts: a list of them, one for all (the last may be short), or 1 each. */
static bool part_sizes(OnnxNode *n, int64_t size, uint32_t *count, const int64_t **sizes)
{
    Val *split = node_in(n, 1);
    int64_t step = 1, sum = 0;
    if (split && val_rank(split) > 0) {
        if (!node_ints_in(n, 1, "split", count, sizes))
            return false;
        for (uint32_t i = 0; i < *count; i++) {
            if ((*sizes)[i] < 0 || (*sizes)[i] > size - sum)
                return node_bad(n, "the parts of SplitToSequence do not sum to the %lld elements of its axis", (long long)size);
            sum += (*sizes)[i];
        }
        return sum == size || node_bad(n, "the parts of SplitToSequence do not sum to the %lld elements of its axis", (long long)size);
    }
    if (split && !op_const_value(split, &step))
        return node_unknown(n, 1, "split");
    if (step < 1 || size / step >= MAX_ITEMS)
        return node_bad(n, "SplitToSequence of %lld elements in parts of %lld is not supported", (long long)size, (long long)step);
    *count = (uint32_t)((size + step - 1) / step);
    int64_t *list = ARENA_ARRAY(n->im->arena, int64_t, *count + 1u);
    for (uint32_t i = 0; i < *count; i++)
        list[i] = i + 1 < *count ? step : size - step * i;
    *sizes = list;
    return true;
}

bool import_split_to_sequence(OnnxNode *n)
{
    Val *x = n->in[0];
    uint32_t axis, count;
    const int64_t *sizes;
    int64_t size, start = 0;
    if (!node_axis(n, "axis", na_int(n, "axis", 0), val_rank(x), &axis))
        return false;
    if (!dim_is_const(x->type->dim[axis], &size))
        return node_bad(n, "axis %u of SplitToSequence has a symbolic size, which is not supported", axis);
    if (!part_sizes(n, size, &count, &sizes))
        return false;
    bool drop = !node_in(n, 1) && na_int(n, "keepdims", 1) == 0;
    int64_t along = axis;
    Val **items = ARENA_ARRAY(n->im->arena, Val *, count + 1u);
    for (uint32_t i = 0; i < count; start += sizes[i++]) {
        items[i] = op_slice_axis(n->b, x, axis, dim_const(n->ctx, start), dim_const(n->ctx, sizes[i]), 1);
        items[i] = drop ? op_squeeze_axes(n->b, items[i], &along, 1) : items[i];
    }
    return node_done(n, sequence(n, count && items[0] ? items[0]->type : x->type, items, count));
}

/* ---- optionals ------------------------------------------------------------------------------------------------------------- */

bool import_optional(OnnxNode *n)
{
    Val *x = node_in(n, 0);
    return node_done(n, onnx_list_make(n, type_opt(n->ctx, x ? x->type : type_tensor(n->ctx, DT_F32, 0, NULL)), &x, x ? 1 : 0));
}

/* Since 18 a tensor or a sequence may stand for an optional that holds it. */
bool import_optional_element(OnnxNode *n)
{
    if (n->in[0]->type->kind != TY_OPT)
        return node_done(n, n->in[0]);
    const ValList *list = list_of(n, n->in[0], TY_OPT);
    if (list && list->count == 0)
        return node_bad(n, "OptionalGetElement of an optional without an element");
    return list && node_done(n, list->item[0]);
}

bool import_optional_present(OnnxNode *n)
{
    Val *x = node_in(n, 0);
    const ValList *list = x && x->type->kind == TY_OPT ? list_of(n, x, TY_OPT) : NULL;
    return node_done(n, op_const_s64(n->b, DT_BOOL, x && (!list || list->count)));
}
