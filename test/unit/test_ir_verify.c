/* SPDX-License-Identifier: Apache-2.0
 * The structural verifier: each fault is found, and named at its node; a sound module passes. */
#include "support/unit.h"

#include "ir/ir.h"

#include <string.h>

static Context *ctx;
static Module *module;
static Func *func;
static Val *x;
static const Type *vec4;
static Builder b;

static Str s(const char *text) { return str_intern(ctx, text); }

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    module = module_create(ctx);
    func = module_func(module, s("main"), true);
    vec4 = type_tensor_s64(ctx, DT_F32, 1, (int64_t[]){4});
    x = func_param(func, s("x"), vec4);
    b = ir_at_end(func->body, loc_text(ctx, s("here"), 3, 7));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    module_destroy(module);
    ctx_destroy(ctx);
    return 0;
}

static Node *emit(Op op, Val *in, const AttrVal *attrs, uint32_t n)
{
    return ir_emit(&b, op, &in, 1, attrs_make(ctx, attrs, n), &vec4, 1);
}

static void finish(Val *val) { func_yield(func, b.loc, &val, (Str[]){s("y")}, 1); }

/* Exactly this fault, `times` times, and nothing else. */
static void assert_faults(DiagId id, uint32_t times)
{
    assert_false(ir_verify(module));
    for (uint32_t i = 0; i < diag_count(ctx); i++)
        if (diag_get(ctx, i)->id != id)
            fail_msg("unexpected [%s] %s", diag_name(diag_get(ctx, i)->id), diag_get(ctx, i)->message);
    assert_int_equal(diag_count(ctx), times);
}

static void test_sound(void **state)
{
    (void)state;
    finish(&emit(OP_neg, x, NULL, 0)->out[0]);
    assert_true(ir_verify(module));
    assert_int_equal(diag_count(ctx), 0);
}

static void test_no_entry(void **state)
{
    (void)state;
    finish(x);
    func->entry = false;
    assert_faults(DIAG_ir_no_entry, 1);
}

static void test_no_location(void **state)
{
    (void)state;
    emit(OP_neg, x, NULL, 0)->loc = 0;
    finish(x);
    assert_faults(DIAG_ir_no_loc, 1);
}

static void test_types(void **state)
{
    (void)state;
    Module *other = module_create(ctx);
    const Dim *foreign = dim_sym(ctx, module_sym(other, s("N"), 1, 9));
    emit(OP_neg, x, NULL, 0)->out[0].type = NULL;
    emit(OP_neg, x, NULL, 0)->out[0].type = type_seq(ctx, type_tensor(ctx, DT_F32, 1, &foreign));
    finish(x);
    module_state(module, s("kv"), type_tensor(ctx, DT_F32, 1, &foreign));
    assert_faults(DIAG_ir_bad_type, 3);
    module_destroy(other);
}

static void test_arity(void **state)
{
    (void)state;
    emit(OP_add, x, NULL, 0);                                /* two operands */
    ir_emit(&b, OP_neg, (Val *[]){x, x}, 2, NULL, &vec4, 1); /* one */
    ir_emit(&b, OP_neg, (Val *[]){x}, 1, NULL, NULL, 0);     /* one result */
    ir_emit(&b, OP_if, (Val *[]){x}, 1, NULL, NULL, 0);      /* regions */
    Node *node = emit(OP_neg, x, NULL, 0);
    Builder inner = ir_at_end(ir_add_region(node), b.loc); /* none */
    ir_emit(&inner, OP_yield, NULL, 0, NULL, NULL, 0);
    finish(x);
    assert_faults(DIAG_ir_arity, 5);
    assert_non_null(strstr(diag_get(ctx, 0)->message, "'add' has 1 operands, expected 2"));
    assert_int_equal(diag_get(ctx, 0)->loc, b.loc);
}

static void test_absent_operands(void **state)
{
    (void)state;
    AttrVal axis = attr_int(0);
    emit(OP_neg, NULL, NULL, 0);
    ir_emit(&b, OP_concat, (Val *[]){x, NULL}, 2, attrs_make(ctx, &axis, 1), &vec4, 1);
    int64_t axes[] = {0};
    AttrVal norm[] = {attr_ints(axes, 1), attr_float(1)};
    ir_emit(&b, OP_layer_norm, (Val *[]){x, x, NULL}, 3, attrs_make(ctx, norm, 2), &vec4, 1); /* may be absent */
    finish(x);
    assert_faults(DIAG_ir_absent, 2);
}

static void test_order(void **state)
{
    (void)state;
    Node *first = emit(OP_neg, x, NULL, 0), *second = emit(OP_neg, &first->out[0], NULL, 0);
    finish(&second->out[0]);
    ir_move(second, first);
    assert_faults(DIAG_ir_order, 1);
}

static void test_regions_are_closed(void **state)
{
    (void)state;
    Node *node = ir_emit(&b, OP_if, &x, 1, NULL, &vec4, 1);
    Builder inner = ir_at_end(ir_add_region(node), b.loc);
    ir_emit(&inner, OP_yield, &x, 1, NULL, NULL, 0);
    finish(x);
    assert_faults(DIAG_ir_order, 1);
}

static void test_use_lists(void **state)
{
    (void)state;
    Node *node = emit(OP_neg, x, NULL, 0);
    finish(&node->out[0]);
    func->body->last->in[0].val = x; /* behind the back of ir_set_in: both lists are wrong now */
    assert_false(ir_verify(module));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_ir_use_list);
}

static void test_forgotten_uses(void **state)
{
    (void)state;
    Node *node = emit(OP_neg, x, NULL, 0);
    finish(&node->out[0]);
    node->out[0].uses = NULL; /* the yield's operand is in no list */
    assert_faults(DIAG_ir_use_list, 1);
}

static void test_attributes(void **state)
{
    (void)state;
    Module *other = module_create(ctx);
    Func *away = module_func(other, s("f"), false);
    float data[4] = {0};
    int64_t axes[] = {0};
    AttrVal kind[] = {attr_ints(axes, 1), attr_str(ctx, "median")},
            swapped[] = {attr_str(ctx, "sum"), attr_ints(axes, 1)};
    AttrVal dtype = attr_dtype(DT_NONE), callee = attr_func(away), extra = attr_int(0);
    AttrVal weight = attr_weight(module_weight(other, s("w"), vec4, data, true));
    const Dim *foreign = dim_sym(ctx, module_sym(other, s("N"), 1, 9));
    AttrVal shape = attr_dims(&foreign, 1);
    AttrVal last[] = {attr_int(0), attr_str(ctx, "max"), {.kind = AK_BOOL, .u.i = 2}};
    emit(OP_reduce, x, kind, 2);    /* no such kind */
    emit(OP_reduce, x, swapped, 2); /* two wrong kinds of value */
    emit(OP_reduce, x, kind, 1);    /* the second is missing */
    emit(OP_neg, x, &extra, 1);     /* has none */
    emit(OP_cast, x, &dtype, 1);
    emit(OP_call, x, &callee, 1);
    emit(OP_broadcast, x, &shape, 1);
    emit(OP_argreduce, x, last, 3);
    ir_emit(&b, OP_const, NULL, 0, attrs_make(ctx, &weight, 1), &vec4, 1);
    finish(x);
    assert_faults(DIAG_ir_attr, 10);
    assert_non_null(strstr(diag_get(ctx, 0)->message, "'kind' is 'median', expected one of sum|prod|max|min|and|or"));
    module_destroy(other);
}

static void test_yield(void **state)
{
    (void)state;
    emit(OP_neg, x, NULL, 0); /* the body does not end with yield */
    assert_faults(DIAG_ir_yield, 1);
    diag_clear(ctx);
    finish(x);
    emit(OP_neg, x, NULL, 0); /* a node after it, and again no yield at the end */
    assert_faults(DIAG_ir_yield, 2);
}

static void test_nesting(void **state)
{
    (void)state;
    Builder at = b;
    Val *condition = x;
    for (int depth = 0; depth < IR_MAX_NESTING + 1; depth++) {
        Node *node = ir_emit(&at, OP_if, &condition, 1, NULL, NULL, 0);
        Builder rest = at;
        if (depth)
            ir_emit(&rest, OP_yield, NULL, 0, NULL, NULL, 0);
        at = ir_at_end(ir_add_region(node), b.loc);
        condition = region_param(at.region, vec4);
    }
    ir_emit(&at, OP_yield, NULL, 0, NULL, NULL, 0);
    finish(x);
    assert_faults(DIAG_ir_nesting, 1);
}

static void test_names(void **state)
{
    (void)state;
    func_param(func, s("x"), vec4); /* the name of another */
    func_param(func, s(""), vec4);
    func_yield(func, b.loc, (Val *[]){x, x}, (Str[]){s(""), NULL}, 2);
    assert_faults(DIAG_ir_names, 4);
}

static void test_recursion(void **state)
{
    (void)state;
    Func *f = module_func(module, s("f"), false), *g = module_func(module, s("g"), false);
    AttrVal call_f = attr_func(f), call_g = attr_func(g);
    finish(&emit(OP_call, x, &call_f, 1)->out[0]);
    for (int i = 0; i < 2; i++) {
        Func *own = i ? g : f;
        b.region = own->body;
        Val *y = func_param(own, s(""), vec4);
        Node *call = emit(OP_call, y, i ? &call_f : &call_g, 1);
        func_yield(own, b.loc, (Val *[]){&call->out[0]}, (Str[]){s("")}, 1);
    }
    assert_faults(DIAG_ir_recursion, 3); /* f, g, and main, which reaches them */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sound, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_location, setup, teardown),
        cmocka_unit_test_setup_teardown(test_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_arity, setup, teardown),
        cmocka_unit_test_setup_teardown(test_absent_operands, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_regions_are_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_use_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forgotten_uses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attributes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_yield, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nesting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recursion, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
