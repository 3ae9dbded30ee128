/* SPDX-License-Identifier: Apache-2.0
 *
 * Control: types of if, loop, call, yield, check. `if` and `loop` have as many results as they were built with, and
 * regions that a shape rule does not see: what their parameters and yields must be is verify.c's. Here are the
 * operands.
 */
#include "op/op_int.h"

bool shape_yield(ShapeArgs *args)
{
    for (uint32_t i = 0; i < args->n_in; i++)
        if (!args->in[i])
            return sh_bad_shape(args, "yielded value %u is absent", i);
    return true;
}

bool shape_check(ShapeArgs *args)
{
    int64_t code = sh_int(args, AN_code);
    if (code < 1 || code > 255)
        return sh_bad_attr(args, AN_code, "%lld is outside of [1,255]", (long long)code);
    return sh_scalar(args, 0, DS_BOOL);
}

/* The symbol may have been replaced by its bound. */
bool shape_found(ShapeArgs *args)
{
    const Dim *size = sh_attr(args, AN_size)->u.dim;
    const Sym *sym = dim_as_sym(size);
    if (!(sym ? sym->unbacked : dim_is_const(size, NULL)))
        return sh_bad_attr(args, AN_size, "only the size of an unbacked symbol can be found");
    if (args->in[0]->kind != TY_TENSOR || args->in[0]->dtype != DT_S64)
        return sh_bad_shape(args, "a found size must be a scalar s64");
    return sh_scalar(args, 0, DS_INT);
}

bool shape_if(ShapeArgs *args)
{
    for (uint32_t i = 1; i < args->n_in; i++)
        if (!args->in[i])
            return sh_bad_shape(args, "captured operand %u is absent", i);
    if (args->in[0]->kind != TY_TENSOR)
        return sh_bad_shape(args, "the condition must be a scalar bool");
    return sh_scalar(args, 0, DS_BOOL);
}

bool shape_loop(ShapeArgs *args)
{
    int64_t carried = sh_int(args, AN_n_carried), scanned = sh_int(args, AN_n_scanned);
    if (carried < 0 || scanned < 0 || carried + scanned > args->n_in - 2)
        return sh_bad_attr(args, AN_n_carried,
                           "%lld carried and %lld scanned values, but %u operands after trip and go",
                           (long long)carried, (long long)scanned, args->n_in - 2);
    if (args->in[0] && !(args->in[0]->kind == TY_TENSOR && args->in[0]->dtype == DT_S64 && args->in[0]->rank == 0))
        return sh_bad_shape(args, "the trip count must be a scalar s64");
    if (args->in[1] && !(args->in[1]->kind == TY_TENSOR && args->in[1]->dtype == DT_BOOL && args->in[1]->rank == 0))
        return sh_bad_shape(args, "the condition must be a scalar bool");
    for (uint32_t i = 2; i < args->n_in; i++)
        if (!args->in[i])
            return sh_bad_shape(args, "operand %u is absent", i);
    for (uint32_t i = 0; i < scanned; i++) {
        const Type *type = args->in[2 + carried + i];
        if (type->kind != TY_TENSOR || type->rank == 0)
            return sh_bad_shape(args, "scanned operand %u must be a tensor with a first axis",
                                (uint32_t)(2 + carried + i));
    }
    if (args->n_out < carried)
        return sh_bad_attr(args, AN_n_carried, "%lld carried values, but %u results", (long long)carried, args->n_out);
    for (uint32_t i = 0; i < carried; i++) /* carried types are the loop's invariant */
        args->out[i] = args->in[2 + i];
    return true;
}

bool shape_call(ShapeArgs *args)
{
    const Func *func = sh_attr(args, AN_func)->u.func;
    if (!func || !func->body || !func->body->last)
        return sh_bad_attr(args, AN_func, "the function has no body yet");
    if (args->n_in != func->body->params.len)
        return sh_bad_attr(args, AN_func, "@%s takes %u arguments, got %u", func->name, func->body->params.len,
                           args->n_in);
    for (uint32_t i = 0; i < args->n_in; i++)
        if (args->in[i] != func->body->params.data[i]->type)
            return sh_bad_shape(args, "argument %u of @%s has another type than its parameter", i, func->name);
    if (args->n_out != func_n_out(func))
        return sh_bad_attr(args, AN_func, "@%s yields %u values, %u are taken", func->name, func_n_out(func),
                           args->n_out);
    for (uint32_t i = 0; i < args->n_out; i++)
        args->out[i] = func_out(func, i)->type;
    return true;
}

Val *op_captured(const Val *val)
{
    const Node *owner = val->def ? NULL : val->region->node;
    uint32_t own = 0;
    if (!owner)
        return NULL;
    if (owner->op == OP_loop) /* op-switch: structure */
        own = 1 + (uint32_t)node_int(owner, AN_n_carried) + (uint32_t)node_int(owner, AN_n_scanned);
    return val->out >= own ? ir_in(owner, 1 + val->out) : NULL;
}
