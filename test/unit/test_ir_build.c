/* SPDX-License-Identifier: Apache-2.0
 * Types, attributes, weights, use lists, program order, clones. */
#include "support/unit.h"

#include "ir/ir.h"

#include <string.h>

static Context *ctx;
static Module *module;
static Func *func;
static const Type *vec4;
static Loc here;

static Str s(const char *text) { return str_intern(ctx, text); }

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    module = module_create(ctx);
    func = module_func(module, s("main"), true);
    vec4 = type_tensor_s64(ctx, DT_F32, 1, (int64_t[]){4});
    here = loc_text(ctx, s("here"), 1, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    module_destroy(module);
    ctx_destroy(ctx);
    return 0;
}

static Val *emit(Builder *b, Op op, Val *x, Val *y)
{
    return ir_out(ir_emit(b, op, (Val *[]){x, y}, y ? 2 : 1, NULL, &vec4, 1), 0);
}

static const char *text_of(const Module *m)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    ir_print(&text, m);
    return text.data;
}

/* Checks every link between operands and use lists, and that counts agree. */
static void assert_uses(const Val *val, uint32_t expected)
{
    uint32_t n = 0;
    for (const Use *use = val->uses; use; use = use->next, n++) {
        assert_ptr_equal(use->val, val);
        assert_ptr_equal(*use->prev, use);
        assert_true(use >= use->user->in && use < use->user->in + use->user->n_in);
    }
    assert_int_equal(n, expected);
    assert_int_equal(val_n_uses(val), expected);
}

static void test_types_are_interned(void **state)
{
    (void)state;
    const Dim *n = dim_sym(ctx, module_sym(module, s("N"), 1, 8));
    const Dim *dims[] = {n, dim_add(ctx, n, dim_const(ctx, 1))};
    const Type *t = type_tensor(ctx, DT_F16, 2, dims);
    uint64_t count;
    assert_ptr_equal(t, type_tensor(ctx, DT_F16, 2, dims));
    assert_ptr_equal(vec4, type_with_dtype(ctx, type_with_dtype(ctx, vec4, DT_S8), DT_F32));
    assert_ptr_equal(type_seq(ctx, t), type_seq(ctx, t));
    assert_ptr_not_equal(type_seq(ctx, t), type_opt(ctx, t));
    assert_false(type_is_static(t));
    assert_false(type_count(t, &count));
    const Type *huge = type_tensor_s64(ctx, DT_F32, 3, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40, 2});
    assert_false(type_count(huge, &count));
    const Type *empty = type_tensor_s64(ctx, DT_F32, 3, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 40, 0});
    assert_true(type_count(empty, &count) && count == 0);
    const Type *nibbles = type_tensor_s64(ctx, DT_S4, 1, (int64_t[]){5});
    assert_true(type_bytes(nibbles, &count) && count == 3);
    int64_t thirteen[13] = {0};
    assert_null(type_tensor_s64(ctx, DT_F32, 13, thirteen));
}

static void test_attributes_are_interned_by_bits(void **state)
{
    (void)state;
    int64_t one[] = {1, 2}, two[] = {1, 2};
    AttrVal a[] = {attr_ints(one, 2), attr_float(0.0)}, b[] = {attr_ints(two, 2), attr_float(0.0)};
    const Attrs *first = attrs_make(ctx, a, 2);
    one[0] = 9; /* the values were copied */
    assert_ptr_equal(first, attrs_make(ctx, b, 2));
    assert_int_equal(first->val[0].u.ints[0], 1);
    b[1] = attr_float(-0.0);
    assert_ptr_not_equal(first, attrs_make(ctx, b, 2));
    AttrVal i = attr_int(1), t = attr_bool(true);
    assert_ptr_not_equal(attrs_make(ctx, &i, 1), attrs_make(ctx, &t, 1));
}

static void test_op_table(void **state)
{
    (void)state;
    assert_int_equal(op_from_name("dot"), OP_dot);
    assert_int_equal(op_from_name("no such op"), OP_COUNT);
    for (int op = 0; op < OP_COUNT; op++) {
        const OpInfo *info = &op_info[op];
        assert_int_equal(op_from_name(info->name), op);
        assert_true(info->in_max < 0 || info->in_min <= info->in_max);
        bool ended = false;
        for (int i = 0; i < IR_MAX_ATTRS; i++) {
            ended = ended || info->attr[i].name == AN_NONE;
            assert_true(!ended || info->attr[i].name == AN_NONE);
            assert_true(!info->attr[i].choices || info->attr[i].kind == AK_STR);
        }
    }
    assert_true(op_info[OP_add].traits & OT_COMM);
    assert_int_equal(op_info[OP_reduce].attr[1].name, AN_kind);
    assert_string_equal(attr_name(AN_lhs_contract), "lhs_contract");
}

static void test_equal_weights_are_one(void **state)
{
    (void)state;
    float ones[] = {1, 1, 1, 1}, again[] = {1, 1, 1, 1}, twos[] = {2, 2, 2, 2};
    Weight *w = module_weight(module, s("w"), vec4, ones, false);
    assert_ptr_equal(w, module_weight(module, s("w"), vec4, again, true));
    assert_ptr_equal(w, module_weight(module, s(""), vec4, again, true));
    Weight *named = module_weight(module, s("v"), vec4, again, true); /* a name of the user's stays, its bytes do not */
    assert_ptr_not_equal(w, named);
    assert_string_equal(named->name, "v");
    assert_ptr_equal(w->data, named->data);
    Weight *other = module_weight(module, s("w"), vec4, twos, true);
    assert_ptr_not_equal(w, other);
    assert_string_not_equal(w->name, other->name);
    assert_ptr_not_equal(other->data, (const void *)twos);
    const Type *bits = type_with_dtype(ctx, vec4, DT_U32); /* same bytes, another type */
    Weight *retyped = module_weight(module, s(""), bits, ones, false);
    assert_ptr_not_equal(w, retyped);
    assert_int_not_equal(w->hash, retyped->hash);
    assert_int_equal(module->weights.len, 4);
    assert_ptr_equal(module_find_weight(module, other->name), other);
}

static void test_use_lists_follow_every_change(void **state)
{
    (void)state;
    Val *x = func_param(func, s("x"), vec4), *y = func_param(func, s("y"), vec4);
    Builder b = ir_at_end(func->body, here);
    Val *sum = emit(&b, OP_add, x, x), *product = emit(&b, OP_mul, sum, y), *dead = emit(&b, OP_neg, sum, NULL);
    func_yield(func, here, (Val *[]){product, sum}, (Str[]){s("p"), s("q")}, 2);
    assert_uses(x, 2);
    assert_uses(sum, 3);
    assert_true(val_is_output(sum));
    assert_false(val_is_output(x));
    ir_set_in(sum->def, 1, y);
    assert_uses(x, 1);
    assert_uses(y, 2);
    ir_set_in(sum->def, 1, y); /* no change */
    assert_uses(y, 2);
    ir_erase(dead->def);
    assert_uses(sum, 2);
    ir_replace_all(sum, x);
    assert_uses(sum, 0);
    assert_uses(x, 3);
    assert_ptr_equal(func_out(func, 1), x);
    ir_replace_all(x, x);
    assert_uses(x, 3);
    ir_erase(sum->def);
    assert_uses(x, 2);
    assert_uses(y, 1);
    assert_true(ir_verify(module));
}

static void erase_used(void *arg) { ir_erase(arg); }

static void test_erasing_a_used_node_is_a_bug(void **state)
{
    (void)state;
    Builder b = ir_at_end(func->body, here);
    Val *x = func_param(func, s("x"), vec4), *a = emit(&b, OP_neg, x, NULL);
    emit(&b, OP_neg, a, NULL);
    assert_int_equal(ctx_protect(ctx, erase_used, a->def), CTX_BUG);
}

/* ir_before against positions, through insertions at one place (which exhaust any gap) and moves. */
static void test_order_is_the_list_order(void **state)
{
    (void)state;
    Val *x = func_param(func, s("x"), vec4);
    Builder b = ir_at_end(func->body, here);
    Node *last = emit(&b, OP_neg, x, NULL)->def, *first = last;
    for (int i = 0; i < 300; i++) {
        Builder at = ir_before_node(i % 3 ? last : first, here);
        Node *node = emit(&at, OP_abs, x, NULL)->def;
        first = i % 3 ? first : node;
        assert_true(ir_before(node, last));
        assert_true(node == first || ir_before(first, node));
    }
    ir_move(last, first);
    assert_ptr_equal(func->body->first, last);
    ir_move(first, NULL);
    assert_ptr_equal(func->body->last, first);
    REGION_FOREACH(node, func->body)
    if (node->next) {
        assert_true(ir_before(node, node->next));
        assert_false(ir_before(node->next, node));
        assert_ptr_equal(node->next->prev, node);
    }
    assert_false(ir_before(first, first));
}

static void test_attributes_by_name(void **state)
{
    (void)state;
    Val *x = func_param(func, s("x"), vec4);
    int64_t axes[] = {0};
    AttrVal values[] = {attr_ints(axes, 1), attr_str(ctx, "max")};
    Builder b = ir_at_end(func->body, here);
    Node *node = ir_emit(&b, OP_reduce, &x, 1, attrs_make(ctx, values, 2), &vec4, 1);
    const int64_t *list;
    assert_int_equal(node_ints(node, AN_axes, &list), 1);
    assert_true(node_str_is(node, AN_kind, "max"));
    assert_null(node_attr(node, AN_perm));
    float data[] = {1, 2, 3, 4};
    AttrVal weight = attr_weight(module_weight(module, s("w"), vec4, data, true));
    Node *constant = ir_emit(&b, OP_const, NULL, 0, attrs_make(ctx, &weight, 1), &vec4, 1);
    assert_ptr_equal(val_const(&constant->out[0]), weight.u.weight);
    assert_null(val_const(x));
    assert_null(val_const(&node->out[0]));
}

static void read_wrong_attribute(void *arg) { (void)node_int(arg, AN_axis); }

static void test_reading_what_the_schema_lacks_is_a_bug(void **state)
{
    (void)state;
    Val *x = func_param(func, s("x"), vec4);
    Builder b = ir_at_end(func->body, here);
    assert_int_equal(ctx_protect(ctx, read_wrong_attribute, emit(&b, OP_neg, x, NULL)->def), CTX_BUG);
}

static void test_a_clone_is_equal_and_apart(void **state)
{
    (void)state;
    Func *helper = module_func(module, s("helper"), false);
    Val *hx = func_param(helper, s(""), vec4);
    func_yield(helper, here, &hx, (Str[]){s("")}, 1);
    float data[] = {1, 2, 3, 4};
    Val *x = func_param(func, s("x"), vec4);
    AttrVal callee = attr_func(helper), weight = attr_weight(module_weight(module, s("w"), vec4, data, true));
    Builder b = ir_at_end(func->body, here);
    Node *constant = ir_emit(&b, OP_const, NULL, 0, attrs_make(ctx, &weight, 1), &vec4, 1);
    Node *call = ir_emit(&b, OP_call, &x, 1, attrs_make(ctx, &callee, 1), &vec4, 1);
    Val *sum = emit(&b, OP_add, &call->out[0], &constant->out[0]);
    func_yield(func, here, &sum, (Str[]){s("y")}, 1);
    const char *before = text_of(module);
    Module *clone = module_clone(module);
    assert_string_equal(text_of(clone), before);
    assert_true(ir_verify(clone)); /* also: names only weights and functions of its own */
    assert_int_equal(clone->funcs.data[0]->body->last->id, func->body->last->id);
    assert_int_equal(clone->next_id, module->next_id);
    Func *main_copy = module_find_func(clone, s("main"));
    ir_replace_all(func_out(main_copy, 0), main_copy->body->params.data[0]);
    assert_string_equal(text_of(module), before);
    assert_string_not_equal(text_of(clone), before);
    module_destroy(clone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_types_are_interned, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attributes_are_interned_by_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_op_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_equal_weights_are_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_use_lists_follow_every_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_erasing_a_used_node_is_a_bug, setup, teardown),
        cmocka_unit_test_setup_teardown(test_order_is_the_list_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_attributes_by_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reading_what_the_schema_lacks_is_a_bug, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_clone_is_equal_and_apart, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
