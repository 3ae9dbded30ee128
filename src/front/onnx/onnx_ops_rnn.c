/* SPDX-License-Identifier: Apache-2.0
 *
 * RNN, GRU and LSTM, operator sets 1 to 22. The input's share of all steps is one dot; then the steps: written out one by one up
 * to MAX_UNROLLED of a known number, else a `loop` that scans the input's share and stacks the results.
 *
 * A gate is ((dot(x,W) + dot(h,R)) + Wb) + Rb (numerics.md), absent biases left out; a peephole's product is added after that,
 * the clip comes last. GRU with linear_before_reset = 0 takes dot(r*h, R) for the hidden gate, else (xW + r * (hR + Rb)) + Wb.
 * LSTM: C = f*C' + i*c, H = o*h(C). GRU: H = (1 - z)*h + z*H'. 16-bit floats are widened to f32 for the whole sequence.
 *
 * Sequence lengths: at a step beyond a row's length its state stays and its result is 0; the reverse direction runs from the
 * last step down, so a row's state is the initial one until its own last element.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>
#include <strings.h>

enum { MAX_UNROLLED = 64, KIND_RNN = 0, KIND_GRU = 1, KIND_LSTM = 2 };

typedef struct Activation {
    uint32_t row; /* of activations[] */
    double alpha, beta;
} Activation;
static const struct {
    const char *name;
    Op op; /* OP_COUNT: not one op */
    uint32_t n_params;
    double alpha, beta;
} activations[] = {{"Relu", OP_relu, 0, 0, 0},           {"Tanh", OP_tanh, 0, 0, 0},
                   {"Sigmoid", OP_sigmoid, 0, 0, 0},     {"Softsign", OP_softsign, 0, 0, 0},
                   {"Softplus", OP_softplus, 0, 0, 0},   {"LeakyRelu", OP_leaky_relu, 1, 0.01f, 0},
                   {"Elu", OP_elu, 1, 1, 0},             {"HardSigmoid", OP_hard_sigmoid, 2, 0.2f, 0.5},
                   {"Affine", OP_COUNT, 2, 1, 0},        {"ScaledTanh", OP_COUNT, 2, 1, 1},
                   {"ThresholdedRelu", OP_COUNT, 1, 1, 0}};

typedef struct Rnn {
    OnnxNode *n;
    int kind;
    uint32_t gates, dirs;
    bool batch_first, reverse_only, coupled, linear_before_reset, clipped;
    double clip;
    DType dtype; /* inside */
    const Dim *steps, *batch;
    int64_t hidden;
    Val *x, *w, *r, *bias, *lengths, *h, *c, *peephole; /* ONNX layout 0; lengths s64[batch,1]; absent: NULL */
    Activation act[2][3];
} Rnn;

/* What the steps of one direction read, in the region where they stand. */
typedef struct Cell {
    const Rnn *rnn;
    const Activation *act;
    Builder *b;
    Val *r, *w_bias, *r_bias, *peephole, *lengths;
} Cell;
typedef struct StepState {
    Val *h, *c, *y; /* y: the step's result */
} StepState;

/* ---- one step ------------------------------------------------------------------------------------------------------------ */

static Val *add(Builder *b, Val *x, Val *y) { return op_binary(b, OP_add, x, y); }
static Val *mul(Builder *b, Val *x, Val *y) { return op_binary(b, OP_mul, x, y); }
static Val *number(const Cell *cell, double value) { return op_const_f64(cell->b, cell->rnn->dtype, value); }

static Val *activate(const Cell *cell, uint32_t which, Val *x)
{
    Builder *b = cell->b;
    const Activation *act = &cell->act[which];
    const char *name = activations[act->row].name;
    Op op = activations[act->row].op;
    if (!x)
        return NULL;
    if (cell->rnn->clipped) {
        Val *in[3] = {x, number(cell, -cell->rnn->clip), number(cell, cell->rnn->clip)};
        x = op_emit(b, OP_clip, in, 3, NULL, 0);
    }
    if (op != OP_COUNT) {
        AttrVal attrs[2] = {attr_float(act->alpha), attr_float(act->beta)};
        return x ? op_emit(b, op, &x, 1, attrs, activations[act->row].n_params) : NULL;
    }
    if (!strcmp(name, "Affine"))
        return add(b, mul(b, number(cell, act->alpha), x), number(cell, act->beta));
    if (!strcmp(name, "ScaledTanh"))
        return mul(b, number(cell, act->alpha), op_unary(b, OP_tanh, mul(b, number(cell, act->beta), x)));
    return op_select(b, op_binary(b, OP_le, number(cell, act->alpha), x), x, number(cell, 0));
}

/* Gates [first, first + count) of a tensor that has all of them along its axis. */
static Val *gates_of(const Cell *cell, Val *x, uint32_t axis, uint32_t first, uint32_t count)
{
    Context *c = cell->rnn->n->ctx;
    int64_t hidden = cell->rnn->hidden;
    return x ? op_slice_axis(cell->b, x, axis, dim_const(c, first * hidden), dim_const(c, count * hidden), 1) : NULL;
}

static Val *recurrent(const Cell *cell, Val *h, uint32_t first, uint32_t count)
{
    static const int64_t one = 1;
    return op_dot(cell->b, h, gates_of(cell, cell->r, 0, first, count), NULL, NULL, 0, &one, &one, 1);
}

static Val *with_bias(const Cell *cell, Val *x, Val *bias, uint32_t first, uint32_t count)
{
    return bias ? add(cell->b, x, gates_of(cell, bias, 0, first, count)) : x;
}

static Val *gate_sums(const Cell *cell, Val *xw, Val *h, uint32_t first, uint32_t count)
{
    Val *sum = add(cell->b, gates_of(cell, xw, 1, first, count), recurrent(cell, h, first, count));
    return with_bias(cell, with_bias(cell, sum, cell->w_bias, first, count), cell->r_bias, first, count);
}

static void step_gru(const Cell *cell, Val *xw, StepState *s)
{
    Builder *b = cell->b;
    Val *sums = gate_sums(cell, xw, s->h, 0, 2), *hidden;
    Val *z = activate(cell, 0, gates_of(cell, sums, 1, 0, 1)), *r = activate(cell, 0, gates_of(cell, sums, 1, 1, 1));
    if (cell->rnn->linear_before_reset) {
        Val *inner = with_bias(cell, recurrent(cell, s->h, 2, 1), cell->r_bias, 2, 1);
        hidden = add(b, gates_of(cell, xw, 1, 2, 1), mul(b, r, inner));
        hidden = with_bias(cell, hidden, cell->w_bias, 2, 1);
    } else {
        hidden = gate_sums(cell, xw, mul(b, r, s->h), 2, 1);
    }
    hidden = activate(cell, 1, hidden);
    s->h = add(b, mul(b, op_binary(b, OP_sub, number(cell, 1), z), hidden), mul(b, z, s->h));
}

static Val *peep(const Cell *cell, Val *gate, uint32_t which, Val *c)
{
    return cell->peephole ? add(cell->b, gate, mul(cell->b, gates_of(cell, cell->peephole, 0, which, 1), c)) : gate;
}

static void step_lstm(const Cell *cell, Val *xw, StepState *s)
{
    Builder *b = cell->b;
    Val *sums = gate_sums(cell, xw, s->h, 0, 4);
    Val *i = activate(cell, 0, peep(cell, gates_of(cell, sums, 1, 0, 1), 0, s->c));
    Val *f = cell->rnn->coupled ? op_binary(b, OP_sub, number(cell, 1), i)
                                : activate(cell, 0, peep(cell, gates_of(cell, sums, 1, 2, 1), 2, s->c));
    Val *c = activate(cell, 1, gates_of(cell, sums, 1, 3, 1));
    s->c = add(b, mul(b, f, s->c), mul(b, i, c));
    Val *o = activate(cell, 0, peep(cell, gates_of(cell, sums, 1, 1, 1), 1, s->c));
    s->h = mul(b, o, activate(cell, 2, s->c));
}

/* xw: [batch, gates * hidden] of this step; t: its index, s64 scalar. */
static bool step(const Cell *cell, Val *xw, Val *t, StepState *s)
{
    Builder *b = cell->b;
    StepState before = *s;
    if (cell->rnn->kind == KIND_LSTM)
        step_lstm(cell, xw, s);
    else if (cell->rnn->kind == KIND_GRU)
        step_gru(cell, xw, s);
    else
        s->h = activate(cell, 0, gate_sums(cell, xw, s->h, 0, 1));
    s->y = s->h;
    if (cell->lengths) {
        Val *inside = op_binary(b, OP_lt, t, cell->lengths);
        s->y = op_select(b, inside, s->h, number(cell, 0));
        s->h = op_select(b, inside, s->h, before.h);
        s->c = s->c ? op_select(b, inside, s->c, before.c) : NULL;
    }
    return s->h && s->y && (s->c || cell->rnn->kind != KIND_LSTM);
}

/* ---- all steps of one direction --------------------------------------------------------------------------------------------- */

/* Results [steps, batch, hidden]; `last` holds the first state, then the last. */
static Val *unroll(const Cell *cell, Val *xw, bool reverse, int64_t steps, StepState *last)
{
    const Rnn *rnn = cell->rnn;
    Context *c = rnn->n->ctx;
    const Dim *row[2] = {rnn->batch, dim_const(c, rnn->gates * rnn->hidden)};
    const Dim *slab[3] = {dim_const(c, 1), rnn->batch, dim_const(c, rnn->hidden)};
    Val *results[MAX_UNROLLED];
    for (int64_t k = 0; k < steps; k++) {
        int64_t t = reverse ? steps - 1 - k : k;
        Val *x = op_slice_axis(cell->b, xw, 0, dim_const(c, t), dim_const(c, 1), 1);
        if (!step(cell, op_reshape(cell->b, x, 2, row), op_const_s64(cell->b, DT_S64, t), last))
            return NULL;
        results[t] = op_reshape(cell->b, last->y, 3, slab);
    }
    return op_concat(cell->b, results, (uint32_t)steps, 0);
}

static Val *backwards(Builder *b, Val *x)
{
    int64_t first = 0;
    AttrVal attr = attr_ints(&first, 1);
    return x ? op_emit(b, OP_reverse, &x, 1, &attr, 1) : NULL;
}

static Val *loop(const Cell *cell, Val *xw, bool reverse, StepState *last)
{
    const Rnn *rnn = cell->rnn;
    Context *c = rnn->n->ctx;
    Val *outer[5] = {cell->r, cell->w_bias, cell->r_bias, cell->peephole, cell->lengths}, *in[12] = {NULL};
    const Dim *stacked[3] = {rnn->steps, rnn->batch, dim_const(c, rnn->hidden)};
    const Dim *row[2] = {rnn->batch, dim_const(c, rnn->gates * rnn->hidden)};
    bool lstm = rnn->kind == KIND_LSTM;
    AttrVal counts[2] = {attr_int(lstm ? 2 : 1), attr_int(1)};
    const Type *types[3] = {last->h->type, last->h->type, NULL};
    types[lstm ? 2 : 1] = type_tensor(c, rnn->dtype, 3, stacked);
    uint32_t n_in = 2;
    in[0] = op_dimval(cell->b, rnn->steps);
    in[n_in++] = last->h;
    if (lstm)
        in[n_in++] = last->c;
    in[n_in++] = reverse ? backwards(cell->b, xw) : xw;
    for (uint32_t i = 0; i < 5; i++)
        if (outer[i])
            in[n_in++] = outer[i];
    Node *node = ir_emit(cell->b, OP_loop, in, n_in, attrs_make(c, counts, 2), types, lstm ? 3 : 2);
    Region *region = ir_add_region(node);
    Builder b = ir_at_end(region, cell->b->loc);
    Cell inner = {.rnn = rnn, .act = cell->act, .b = &b};
    Val *t = region_param(region, type_tensor(c, DT_S64, 0, NULL));
    StepState state = {.h = region_param(region, last->h->type)};
    state.c = lstm ? region_param(region, last->c->type) : NULL;
    Val *x = region_param(region, type_tensor(c, rnn->dtype, 2, row)), **slot[5] = {&inner.r, &inner.w_bias, &inner.r_bias,
                                                                                   &inner.peephole, &inner.lengths};
    for (uint32_t i = 0; i < 5; i++)
        *slot[i] = outer[i] ? region_param(region, outer[i]->type) : NULL;
    if (reverse)
        t = op_binary(&b, OP_sub, op_dimval(&b, dim_sub(c, rnn->steps, dim_const(c, 1))), t);
    if (!step(&inner, x, t, &state))
        return NULL;
    Val *yields[4] = {op_const_s64(&b, DT_BOOL, 1), state.h, lstm ? state.c : state.y, state.y};
    ir_emit(&b, OP_yield, yields, lstm ? 4 : 3, NULL, NULL, 0);
    last->h = ir_out(node, 0);
    last->c = lstm ? ir_out(node, 1) : NULL;
    Val *y = ir_out(node, lstm ? 2 : 1);
    return reverse ? backwards(cell->b, y) : y;
}

/* Entry `dir` of the first axis */
static Val *of_direction(const Rnn *rnn, Val *x, uint32_t dir)
{
    static const int64_t first = 0;
    Context *c = rnn->n->ctx;
    return x ? op_squeeze_axes(rnn->n->b, op_slice_axis(rnn->n->b, x, 0, dim_const(c, dir), dim_const(c, 1), 1), &first, 1) : NULL;
}

static Val *initial(const Rnn *rnn, Val *state, uint32_t dir)
{
    const Dim *dims[2] = {rnn->batch, dim_const(rnn->n->ctx, rnn->hidden)};
    return state ? of_direction(rnn, state, dir) : op_broadcast(rnn->n->b, op_const_f64(rnn->n->b, rnn->dtype, 0), 2, dims);
}

static Val *run_direction(const Rnn *rnn, uint32_t dir, StepState *last)
{
    static const int64_t input = 2, one = 1;
    Builder *b = rnn->n->b;
    Context *c = rnn->n->ctx;
    const Dim *width = dim_const(c, rnn->gates * rnn->hidden);
    Val *bias = of_direction(rnn, rnn->bias, dir);
    Cell cell = {.rnn = rnn, .act = rnn->act[dir], .b = b, .r = of_direction(rnn, rnn->r, dir), .lengths = rnn->lengths};
    cell.w_bias = bias ? op_slice_axis(b, bias, 0, dim_const(c, 0), width, 1) : NULL;
    cell.r_bias = bias ? op_slice_axis(b, bias, 0, width, width, 1) : NULL;
    cell.peephole = of_direction(rnn, rnn->peephole, dir);
    Val *xw = op_dot(b, rnn->x, of_direction(rnn, rnn->w, dir), NULL, NULL, 0, &input, &one, 1);
    *last = (StepState){.h = initial(rnn, rnn->h, dir), .c = rnn->kind == KIND_LSTM ? initial(rnn, rnn->c, dir) : NULL};
    if (!xw || !cell.r || !last->h || (rnn->kind == KIND_LSTM && !last->c))
        return NULL;
    bool reverse = rnn->reverse_only || dir == 1;
    int64_t steps;
    return dim_is_const(rnn->steps, &steps) && steps >= 1 && steps <= MAX_UNROLLED ? unroll(&cell, xw, reverse, steps, last)
                                                                                    : loop(&cell, xw, reverse, last);
}

/* ---- attributes and inputs ---------------------------------------------------------------------------------------------------- */

static bool read_activation(const OnnxNode *n, const char *name, uint32_t *next_alpha, uint32_t *next_beta, Activation *act)
{
    const AttributeProto *alpha = na_find(n, "activation_alpha"), *beta = na_find(n, "activation_beta");
    for (uint32_t i = 0; i < IG_COUNT(activations); i++) {
        if (strcasecmp(activations[i].name, name) != 0)
            continue;
        uint32_t params = activations[i].n_params;
        *act = (Activation){i, activations[i].alpha, activations[i].beta};
        if (params > 0 && alpha && *next_alpha < alpha->floats.len)
            act->alpha = alpha->floats.data[(*next_alpha)++];
        if (params > 1 && beta && *next_beta < beta->floats.len)
            act->beta = beta->floats.data[(*next_beta)++];
        return true;
    }
    return na_bad(n, "activations",
                  "'%s' is unknown; supported are Relu Tanh Sigmoid Softsign Softplus LeakyRelu Elu HardSigmoid Affine ScaledTanh "
                  "ThresholdedRelu", name);
}

/* Alphas and betas are consumed in order by the functions that take them. */
static bool read_activations(Rnn *rnn)
{
    static const char *const defaults[3][3] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    OnnxNode *n = rnn->n;
    const AttributeProto *names = na_find(n, "activations");
    uint32_t per = (uint32_t)rnn->kind + 1, next_alpha = 0, next_beta = 0;
    if (names && names->strings.len != per * rnn->dirs)
        return na_bad(n, "activations", "%s takes %u per direction, it has %u", n->row->type, per, names->strings.len);
    for (uint32_t i = 0; i < per * rnn->dirs; i++) {
        const Blob *given = names ? &names->strings.data[i] : NULL;
        const char *name = given ? str_intern_n(n->ctx, (const char *)given->data, (size_t)given->size) : defaults[rnn->kind][i % per];
        if (!read_activation(n, name, &next_alpha, &next_beta, &rnn->act[i / per][i % per]))
            return false;
    }
    return true;
}

static bool read_attributes(Rnn *rnn)
{
    OnnxNode *n = rnn->n;
    const char *direction;
    int64_t layout = na_int(n, "layout", 0);
    if (!na_choice(n, "direction", "forward|reverse|bidirectional", "forward", &direction))
        return false;
    if (layout != 0 && layout != 1)
        return na_bad(n, "layout", "%lld is neither 0 nor 1", (long long)layout);
    rnn->batch_first = layout == 1;
    rnn->dirs = *direction == 'b' ? 2 : 1;
    rnn->reverse_only = *direction == 'r';
    rnn->coupled = na_int(n, "input_forget", 0) != 0;
    rnn->linear_before_reset = na_int(n, "linear_before_reset", 0) != 0;
    rnn->clipped = na_find(n, "clip") != NULL;
    rnn->clip = na_float(n, "clip", 0);
    if (rnn->clipped && !(rnn->clip > 0))
        return na_bad(n, "clip", "%g is not above 0", rnn->clip);
    return read_activations(rnn);
}

/* Input i has these sizes (NULL: any); widened to the type inside. */
static bool read_input(Rnn *rnn, uint32_t i, const char *what, uint32_t rank, const Dim *const *dims, Val **out)
{
    Val *val = node_in(rnn->n, i);
    *out = NULL;
    if (!val)
        return true;
    if (val_rank(val) != rank || val->type->kind != TY_TENSOR || val->type->dtype != rnn->n->in[0]->type->dtype)
        return node_bad(rnn->n, "%s of %s has rank %u and the type of the input", what, rnn->n->row->type, rank);
    for (uint32_t a = 0; a < rank; a++) {
        if (!dims[a] || dim_eq(val->type->dim[a], dims[a]) == TRI_YES)
            continue;
        Text text;
        text_init(&text, rnn->n->im->arena);
        dim_print(&text, dims[a]);
        return node_bad(rnn->n, "axis %u of %s (input %u) of %s must be %s", a, what, i, rnn->n->row->type, text.data);
    }
    *out = node_widened(rnn->n, val);
    return *out != NULL;
}

/* A state, [dirs, batch, hidden] or batch first */
static bool read_state(Rnn *rnn, uint32_t i, const char *what, Val **out)
{
    static const int64_t perm[3] = {1, 0, 2};
    Context *c = rnn->n->ctx;
    const Dim *dirs = dim_const(c, rnn->dirs), *dims[3] = {rnn->batch_first ? rnn->batch : dirs, rnn->batch_first ? dirs : rnn->batch,
                                                          dim_const(c, rnn->hidden)};
    if (!read_input(rnn, i, what, 3, dims, out))
        return false;
    *out = *out && rnn->batch_first ? op_transpose(rnn->n->b, *out, perm) : *out;
    return true;
}

/* Lengths that are all those of the input mask nothing. */
static bool read_lengths(Rnn *rnn)
{
    OnnxNode *n = rnn->n;
    Val *val = node_in(n, 4);
    const Dim *column[2] = {rnn->batch, dim_const(n->ctx, 1)};
    double value;
    int64_t steps;
    if (!val)
        return true;
    if (val_rank(val) != 1 || !dtype_is_int(val->type->dtype) || dim_eq(val->type->dim[0], rnn->batch) != TRI_YES)
        return node_bad(n, "sequence_lens of %s are integers, one per batch entry", n->row->type);
    if (node_is_const_fill(val, &value) && dim_is_const(rnn->steps, &steps) && value == (double)steps)
        return true;
    rnn->lengths = op_reshape(n->b, op_cast_to(n->b, val, DT_S64), 2, column);
    return rnn->lengths != NULL;
}

static bool read_hidden(Rnn *rnn)
{
    OnnxNode *n = rnn->n;
    Val *r = n->in[2];
    int64_t given = na_int(n, "hidden_size", 0);
    if (val_rank(r) != 3 || !dim_is_const(r->type->dim[2], &rnn->hidden) || rnn->hidden < 1 || rnn->hidden > INT32_MAX)
        return node_bad(n, "the recurrence weight of %s has rank 3 and numbers as sizes", n->row->type);
    if (na_find(n, "hidden_size") && given != rnn->hidden)
        return na_bad(n, "hidden_size", "it is %lld, the recurrence weight has %lld", (long long)given, (long long)rnn->hidden);
    return true;
}

static bool read_inputs(Rnn *rnn)
{
    static const int64_t perm[3] = {1, 0, 2};
    OnnxNode *n = rnn->n;
    Context *c = n->ctx;
    Val *x = n->in[0];
    for (uint32_t i = 0; i < 3; i++)
        if (!node_in(n, i))
            return node_bad(n, "input %u of %s is absent", i, n->row->type);
    if (val_rank(x) != 3 || !dtype_is_float(x->type->dtype))
        return node_bad(n, "%s takes floats of rank 3", n->row->type);
    if (!read_hidden(rnn))
        return false;
    x = node_widened(n, x);
    rnn->x = rnn->batch_first ? op_transpose(n->b, x, perm) : x;
    if (!rnn->x)
        return false;
    rnn->dtype = rnn->x->type->dtype;
    rnn->steps = rnn->x->type->dim[0];
    rnn->batch = rnn->x->type->dim[1];
    const Dim *dirs = dim_const(c, rnn->dirs), *hidden = dim_const(c, rnn->hidden), *width = dim_const(c, rnn->gates * rnn->hidden);
    const Dim *w[3] = {dirs, width, rnn->x->type->dim[2]}, *r[3] = {dirs, width, hidden};
    const Dim *bias[2] = {dirs, dim_const(c, 2 * rnn->gates * rnn->hidden)}, *peephole[2] = {dirs, dim_const(c, 3 * rnn->hidden)};
    return read_input(rnn, 1, "W", 3, w, &rnn->w) && read_input(rnn, 2, "R", 3, r, &rnn->r) &&
           read_input(rnn, 3, "B", 2, bias, &rnn->bias) && read_lengths(rnn) && read_state(rnn, 5, "initial_h", &rnn->h) &&
           read_state(rnn, 6, "initial_c", &rnn->c) && read_input(rnn, 7, "P", 2, peephole, &rnn->peephole);
}

/* ---- results --------------------------------------------------------------------------------------------------------------------- */

/* [batch, hidden] of each direction -> Y_h or Y_c */
static Val *join_states(const Rnn *rnn, Val *const *parts)
{
    static const int64_t perm[3] = {1, 0, 2};
    Context *c = rnn->n->ctx;
    const Dim *dims[3] = {dim_const(c, 1), rnn->batch, dim_const(c, rnn->hidden)};
    Val *wide[2];
    for (uint32_t d = 0; d < rnn->dirs; d++)
        wide[d] = op_reshape(rnn->n->b, parts[d], 3, dims);
    Val *y = op_concat(rnn->n->b, wide, rnn->dirs, 0);
    return y && rnn->batch_first ? op_transpose(rnn->n->b, y, perm) : y;
}

/* [steps, batch, hidden] of each direction -> Y */
static Val *join_results(const Rnn *rnn, Val *const *parts)
{
    static const int64_t perm[4] = {2, 0, 1, 3};
    Context *c = rnn->n->ctx;
    const Dim *dims[4] = {rnn->steps, dim_const(c, 1), rnn->batch, dim_const(c, rnn->hidden)};
    Val *wide[2];
    for (uint32_t d = 0; d < rnn->dirs; d++)
        wide[d] = op_reshape(rnn->n->b, parts[d], 4, dims);
    Val *y = op_concat(rnn->n->b, wide, rnn->dirs, 1);
    return y && rnn->batch_first ? op_transpose(rnn->n->b, y, perm) : y;
}

bool import_rnn(OnnxNode *n)
{
    static const uint32_t gates[3] = {1, 3, 4};
    Rnn rnn = {.n = n, .kind = n->row->arg, .gates = gates[n->row->arg]};
    Val *y[2], *h[2], *c[2];
    if (!read_attributes(&rnn) || !read_inputs(&rnn))
        return false;
    for (uint32_t d = 0; d < rnn.dirs; d++) {
        StepState last;
        if (!(y[d] = run_direction(&rnn, d, &last)))
            return false;
        h[d] = last.h;
        c[d] = last.c;
    }
    Val *results[3] = {join_results(&rnn, y), join_states(&rnn, h), rnn.kind == KIND_LSTM ? join_states(&rnn, c) : NULL};
    for (uint32_t i = 0; i < n->n_out && i < 3; i++)
        if (!(n->out[i] = op_cast_to(n->b, results[i], n->in[0]->type->dtype)))
            return false;
    return true;
}
