/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints kernels. Grammar: doc/loop.md. A value that a statement uses several times is printed once, as `$n = ..`
 * before it: expressions are shared nodes, and their trees can be exponentially larger.
 */
#include "loop/loop_int.h"

#include <math.h>
#include <string.h>

typedef struct Printer {
    Text *text;
    const Kernel *k;
    Arena *tmp;
    Map *count; /* of the statement: KEY(expr) -> uses */
    Map *macro; /* KEY(expr) -> number + 1 */
    uint32_t n_macros;
    uint32_t depth;
} Printer;

static const char *const fold_kinds[] = {
    [FOLD_SUM] = "sum", [FOLD_PROD] = "prod", [FOLD_MAX] = "max", [FOLD_MIN] = "min",
    [FOLD_AND] = "and", [FOLD_OR] = "or",     [FOLD_DOT] = "dot"};
static const char *const fold_forms[] = {[FORM_EXACT] = "exact", [FORM_LANES16] = "lanes16", [FORM_CHAIN] = "chain"};
static const char *const binds[] = {
    [BIND_SEQ] = "seq", [BIND_PAR] = "par", [BIND_UNROLL] = "unroll", [BIND_VEC] = "vec"};
static const char *const spaces[] = {[BUF_ARG] = "arg", [BUF_WEIGHT] = "weight", [BUF_LOCAL] = "local",
                                      [BUF_SIZES] = "sizes"};

const char *fold_kind_name(FoldKind kind) { return fold_kinds[kind]; }
const char *fold_form_name(FoldForm form) { return fold_forms[form]; }
const char *bind_name(Bind bind) { return binds[bind]; }
const char *space_name(BufSpace space) { return spaces[space]; }

static bool is_identifier(const char *s)
{
    if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
        return false;
    for (const char *c = s; *c; c++)
        if (!(*c == '_' || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (c > s && *c >= '0' && *c <= '9')))
            return false;
    return *s != '\0';
}

static void name(Printer *p, Str s)
{
    if (is_identifier(s))
        text_add(p->text, s);
    else
        text_add_quoted(p->text, s);
}

static void put_s64(Printer *p, int64_t value) { text_addf(p->text, "%lld", (long long)value); }

static void put_list(Printer *p, const int64_t *values, uint32_t n)
{
    text_add(p->text, "[");
    for (uint32_t i = 0; i < n; i++) {
        text_add(p->text, i ? ", " : "");
        put_s64(p, values[i]);
    }
    text_add(p->text, "]");
}

/* ---- expressions ----------------------------------------------------------------------------------------------------- */

static void expr(Printer *p, const Expr *e);

static void exprs(Printer *p, const Expr *const *e, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        text_add(p->text, i ? ", " : "");
        expr(p, e[i]);
    }
}

static void put_sum(Printer *p, const Expr *e)
{
    const Expr *last = e->arg[1];
    expr(p, e->arg[0]);
    bool minus = last->kind == LX_INT && last->u.i < 0 && last->u.i != INT64_MIN;
    text_add(p->text, minus ? " - " : " + ");
    if (minus)
        put_s64(p, -last->u.i);
    else
        expr(p, last);
}

static void put_infix(Printer *p, const Expr *a, const char *op, const Expr *b)
{
    text_add(p->text, "(");
    expr(p, a);
    text_addf(p->text, " %s ", op);
    expr(p, b);
    text_add(p->text, ")");
}

static void put_const(Printer *p, const Expr *e)
{
    DType t = e->dtype;
    uint64_t bits = e->u.bits;
    if (t == DT_BOOL && bits <= 1) {
        text_add(p->text, bits ? "true" : "false");
        return;
    }
    text_addf(p->text, "%s(", dtype_name(t));
    double value = dtype_is_float(t) ? elem_get_f64(t, &bits, 0) : 0;
    bool decimal = t == DT_F64 || t == DT_F32 || t == DT_F16 || t == DT_BF16;
    if (decimal && !isnan(value) && t == DT_F64)
        text_add_f64(p->text, value);
    else if (decimal && !isnan(value))
        text_add_f32(p->text, (float)value);
    else if (dtype_is_int(t) && dtype_bits(t) >= 8 && !(t == DT_U64 && bits >> 63))
        put_s64(p, elem_get_s64(t, &bits, 0));
    else
        text_addf(p->text, "0x%llx", (unsigned long long)bits);
    text_add(p->text, ")");
}

static void put_load(Printer *p, const Expr *e)
{
    uint32_t rank = e->u.buf->rank;
    name(p, e->u.buf->name);
    text_add(p->text, "[");
    exprs(p, e->arg, rank);
    if (e->n_args > rank) {
        text_add(p->text, rank ? " if " : "if ");
        expr(p, e->arg[rank]);
        text_add(p->text, " else ");
        expr(p, e->arg[rank + 1]);
    }
    text_add(p->text, "]");
}

static void put_call(Printer *p, const char *what, DType dtype, const Expr *e)
{
    text_addf(p->text, "%s.%s(", what, dtype_name(dtype));
    exprs(p, e->arg, e->n_args);
    text_add(p->text, ")");
}

static void put_imm(Printer *p, const Expr *e, const char *op)
{
    bool sum = e->arg[0]->kind == LX_IADD;
    text_add(p->text, sum ? "((" : "(");
    expr(p, e->arg[0]);
    text_addf(p->text, "%s %s %lld)", sum ? ")" : "", op, (long long)e->u.i);
}

static void put_minmax(Printer *p, const Expr *e)
{
    text_add(p->text, e->kind == LX_IMIN ? "min(" : "max(");
    exprs(p, e->arg, 2);
    text_add(p->text, ")");
}

static void expr(Printer *p, const Expr *e)
{
    uintptr_t macro = (uintptr_t)map_get(p->macro, KEY(e));
    if (macro) {
        text_addf(p->text, "$%u", (unsigned)(macro - 1));
        return;
    }
    switch (e->kind) {
    case LX_INT: put_s64(p, e->u.i); break;
    case LX_ITER: name(p, e->u.iter->name); break;
    case LX_IADD: put_sum(p, e); break;
    case LX_IMUL:
        expr(p, e->arg[0]); /* an atom */
        text_addf(p->text, "*%lld", (long long)e->u.i);
        break;
    case LX_IDIV: put_imm(p, e, "/"); break;
    case LX_IMOD: put_imm(p, e, "%"); break;
    case LX_IMIN:
    case LX_IMAX: put_minmax(p, e); break;
    case LX_ILT: put_infix(p, e->arg[0], "<", e->arg[1]); break;
    case LX_IEQ: put_infix(p, e->arg[0], "==", e->arg[1]); break;
    case LX_AND: put_infix(p, e->arg[0], "&&", e->arg[1]); break;
    case LX_OR: put_infix(p, e->arg[0], "||", e->arg[1]); break;
    case LX_NOT:
        text_add(p->text, "!");
        expr(p, e->arg[0]);
        break;
    case LX_CONST: put_const(p, e); break;
    case LX_VAR: name(p, e->u.var->name); break;
    case LX_LOAD: put_load(p, e); break;
    case LX_MAP: put_call(p, op_info[e->op].name, e->dtype, e); break;
    case LX_CAST: put_call(p, "cast", e->dtype, e); break;
    case LX_INDEX:
        text_add(p->text, "index(");
        expr(p, e->arg[0]);
        text_addf(p->text, ", %lld, %lld)", (long long)e->lo, (long long)e->hi);
        break;
    }
}

/* ---- statements ------------------------------------------------------------------------------------------------------ */

static void indent(Printer *p)
{
    for (uint32_t i = 0; i < p->depth; i++)
        text_add(p->text, "  ");
}

static void count_uses(Printer *p, const Expr *e)
{
    if (!e)
        return;
    void **n = map_slot(p->count, KEY(e));
    *n = (void *)((uintptr_t)*n + 1);
    for (uint32_t i = 0; *n == (void *)1 && i < e->n_args; i++)
        count_uses(p, e->arg[i]);
}

static void define_shared(Printer *p, const Expr *e)
{
    if (!e || map_has(p->macro, KEY(e)))
        return;
    bool shareable = e->kind == LX_MAP || e->kind == LX_CAST || e->kind == LX_LOAD;
    for (uint32_t i = 0; i < e->n_args; i++)
        define_shared(p, e->arg[i]);
    void **slot = map_slot(p->macro, KEY(e)); /* present: visited */
    if (!shareable || (uintptr_t)map_get(p->count, KEY(e)) < 2)
        return;
    indent(p);
    text_addf(p->text, "$%u = ", p->n_macros);
    expr(p, e);
    text_add(p->text, "\n");
    *slot = (void *)(uintptr_t)++p->n_macros;
}

/* The definitions that a statement with these expressions needs. */
static void begin(Printer *p, const Expr *const *roots, uint32_t n)
{
    arena_reset(p->tmp);
    p->count = map_create(p->tmp);
    p->macro = map_create(p->tmp);
    p->n_macros = 0;
    for (uint32_t i = 0; i < n; i++)
        count_uses(p, roots[i]);
    for (uint32_t i = 0; i < n; i++)
        define_shared(p, roots[i]);
    indent(p);
}

static void put_element(Printer *p, const Buf *buf, const Expr *const *index, uint32_t n)
{
    name(p, buf->name);
    text_add(p->text, "[");
    exprs(p, index, n);
    text_add(p->text, "]");
}

static void put_optional(Printer *p, const char *word, const Expr *e)
{
    if (e) {
        text_addf(p->text, " %s ", word);
        expr(p, e);
    }
}

static void put_axes(Printer *p, const FoldAxis *axis, uint32_t n)
{
    text_add(p->text, " over (");
    for (uint32_t i = 0; i < n; i++) {
        text_add(p->text, i ? ", " : "");
        name(p, axis[i].iter->name);
        text_addf(p->text, ": %lld", (long long)axis[i].extent);
        put_optional(p, "to", axis[i].size);
    }
    text_add(p->text, ")");
}

static void put_tile(Printer *p, const Var *tile, const Iter *row, int64_t rows, const Iter *col, int64_t cols)
{
    name(p, tile->name);
    text_add(p->text, "[");
    name(p, row->name);
    text_addf(p->text, ": %lld, ", (long long)rows);
    name(p, col->name);
    text_addf(p->text, ": %lld]", (long long)cols);
}

static void list(Printer *p, const Stmt *s);

static void block(Printer *p, const Stmt *s)
{
    text_add(p->text, " {\n");
    p->depth++;
    list(p, s);
    p->depth--;
    indent(p);
    text_add(p->text, "}");
}

static void put_for(Printer *p, const Stmt *s)
{
    begin(p, (const Expr *[]){s->u.loop.lo, s->u.loop.hi}, 2);
    text_add(p->text, "for ");
    name(p, s->u.loop.iter->name);
    text_add(p->text, " in ");
    expr(p, s->u.loop.lo);
    text_add(p->text, " .. ");
    expr(p, s->u.loop.hi);
    if (s->u.loop.step != 1)
        text_addf(p->text, " step %lld", (long long)s->u.loop.step);
    if (s->u.loop.bind != BIND_SEQ)
        text_addf(p->text, " %s", binds[s->u.loop.bind]);
    block(p, s->u.loop.body);
}

static void put_if(Printer *p, const Stmt *s)
{
    begin(p, &s->u.branch.cond, 1);
    text_add(p->text, "if ");
    expr(p, s->u.branch.cond);
    block(p, s->u.branch.then);
    if (s->u.branch.otherwise) {
        text_add(p->text, " else");
        block(p, s->u.branch.otherwise);
    }
}

static void put_store(Printer *p, const Stmt *s)
{
    const Expr *roots[LOOP_MAX_RANK + 2] = {s->u.store.value, s->u.store.mask};
    for (uint32_t i = 0; i < s->u.store.n_index; i++)
        roots[i + 2] = s->u.store.index[i];
    begin(p, roots, s->u.store.n_index + 2);
    text_add(p->text, "store ");
    put_element(p, s->u.store.buf, s->u.store.index, s->u.store.n_index);
    text_add(p->text, " = ");
    expr(p, s->u.store.value);
    put_optional(p, "where", s->u.store.mask);
}

static void put_fold(Printer *p, const Stmt *s)
{
    begin(p, (const Expr *[]){s->u.fold.guard, s->u.fold.a, s->u.fold.b}, 3);
    text_add(p->text, "fold ");
    name(p, s->u.fold.var->name);
    text_addf(p->text, " = %s %s", fold_kinds[s->u.fold.kind], fold_forms[s->u.fold.form]);
    if (s->u.fold.form == FORM_CHAIN)
        text_addf(p->text, " %lld", (long long)s->u.fold.kb);
    put_axes(p, s->u.fold.axis, s->u.fold.n_axes);
    put_optional(p, "if", s->u.fold.guard);
    text_add(p->text, " : ");
    exprs(p, (const Expr *[]){s->u.fold.a, s->u.fold.b}, s->u.fold.b ? 2 : 1);
}

static void put_mma(Printer *p, const Stmt *s)
{
    begin(p, (const Expr *[]){s->u.mma.guard, s->u.mma.col_limit, s->u.mma.a, s->u.mma.b, s->u.mma.ahead}, 5);
    text_add(p->text, "mma ");
    put_tile(p, s->u.mma.tile, s->u.mma.row, s->u.mma.rows, s->u.mma.col, s->u.mma.cols);
    text_addf(p->text, " = dot %lld", (long long)s->u.mma.kb);
    put_axes(p, s->u.mma.axis, s->u.mma.n_axes);
    put_optional(p, "if", s->u.mma.guard);
    put_optional(p, "cols", s->u.mma.col_limit);
    text_add(p->text, " : ");
    exprs(p, (const Expr *[]){s->u.mma.a, s->u.mma.b}, 2);
    if (s->u.mma.ahead) {
        put_optional(p, "ahead", s->u.mma.ahead);
        text_addf(p->text, ", %lld", (long long)s->u.mma.n_ahead);
    }
}

static void put_put(Printer *p, const Stmt *s)
{
    const Expr *roots[LOOP_MAX_RANK + 3] = {s->u.put.value, s->u.put.col_limit, s->u.put.row_limit};
    for (uint32_t i = 0; i < s->u.put.n_index; i++)
        roots[i + 3] = s->u.put.index[i];
    begin(p, roots, s->u.put.n_index + 3);
    text_add(p->text, "put ");
    put_tile(p, s->u.put.tile, s->u.put.row, s->u.put.rows, s->u.put.col, s->u.put.cols);
    put_optional(p, "cols", s->u.put.col_limit);
    put_optional(p, "rows", s->u.put.row_limit);
    text_add(p->text, " : ");
    put_element(p, s->u.put.buf, s->u.put.index, s->u.put.n_index);
    text_add(p->text, " = ");
    expr(p, s->u.put.value);
}

static void list(Printer *p, const Stmt *s)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case LS_FOR: put_for(p, s); break;
        case LS_IF: put_if(p, s); break;
        case LS_STORE: put_store(p, s); break;
        case LS_FOLD: put_fold(p, s); break;
        case LS_MMA: put_mma(p, s); break;
        case LS_PUT: put_put(p, s); break;
        case LS_LET:
            begin(p, &s->u.let.value, 1);
            text_add(p->text, "let ");
            name(p, s->u.let.var->name);
            text_add(p->text, " = ");
            expr(p, s->u.let.value);
            break;
        case LS_CHECK:
            begin(p, &s->u.check.cond, 1);
            text_add(p->text, "check ");
            expr(p, s->u.check.cond);
            text_addf(p->text, " code %llu", (unsigned long long)s->u.check.code);
            break;
        }
        text_add(p->text, "\n");
    }
}

/* ---- declarations ---------------------------------------------------------------------------------------------------- */

static void put_pack(Printer *p, const Pack *pack, uint32_t rank)
{
    text_add(p->text, " pack ");
    text_add_quoted(p->text, pack->weight->name);
    if (pack->winograd)
        text_add(p->text, pack->winograd == WINOGRAD_FLIPPED ? " winograd flipped" : " winograd");
    text_addf(p->text, " offset %lld strides ", (long long)pack->offset);
    put_list(p, pack->stride, rank);
    for (int i = 0; i < pack->n_bounds; i++) {
        text_add(p->text, " bound ");
        put_list(p, pack->bound[i].coef, rank);
        text_addf(p->text, " < %lld", (long long)pack->bound[i].limit);
    }
}

/* Strides and the size are left out where they are those of kernel_buf: row-major. */
static void put_buf(Printer *p, const Buf *buf)
{
    indent(p);
    text_addf(p->text, "%s ", spaces[buf->space]);
    name(p, buf->name);
    text_addf(p->text, ": %s", dtype_name(buf->dtype));
    put_list(p, buf->dim, buf->rank);
    int64_t size = 1;
    bool row_major = true;
    for (uint32_t d = buf->rank; d-- > 0;) {
        row_major &= buf->stride[d] == size;
        size *= buf->dim[d] > 1 ? buf->dim[d] : 1;
    }
    if (!row_major) {
        text_add(p->text, " strides ");
        put_list(p, buf->stride, buf->rank);
    }
    if (buf->elements != size)
        text_addf(p->text, " elements %lld", (long long)buf->elements);
    if (buf->size) {
        text_add(p->text, " dense [");
        exprs(p, buf->size, buf->rank);
        text_add(p->text, "]");
    }
    if (buf->written)
        text_add(p->text, " written");
    if (buf->pack)
        put_pack(p, buf->pack, buf->rank);
    text_add(p->text, "\n");
}

/* Ids of the iterators and variables that the body binds or uses. */
typedef struct Used {
    bool *iter, *var;
} Used;

static void use_expr(Used *u, const Expr *e)
{
    for (uint32_t i = 0; e && i < e->n_uses; i++) {
        if (e->uses[i] >= EXPR_USES_VAR)
            u->var[e->uses[i] - EXPR_USES_VAR] = true;
        else
            u->iter[e->uses[i]] = true;
    }
}

static void use_axes(Used *u, const FoldAxis *axis, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        use_expr(u, axis[i].size);
        u->iter[axis[i].iter->id] = true;
    }
}

static void use_list(Used *u, const Stmt *s)
{
    for (; s; s = s->next) {
        switch (s->kind) {
        case LS_FOR:
            u->iter[s->u.loop.iter->id] = true;
            use_expr(u, s->u.loop.lo);
            use_expr(u, s->u.loop.hi);
            use_list(u, s->u.loop.body);
            break;
        case LS_IF:
            use_expr(u, s->u.branch.cond);
            use_list(u, s->u.branch.then);
            use_list(u, s->u.branch.otherwise);
            break;
        case LS_LET:
            u->var[s->u.let.var->id] = true;
            use_expr(u, s->u.let.value);
            break;
        case LS_STORE:
            for (uint32_t i = 0; i < s->u.store.n_index; i++)
                use_expr(u, s->u.store.index[i]);
            use_expr(u, s->u.store.value);
            use_expr(u, s->u.store.mask);
            break;
        case LS_FOLD:
            u->var[s->u.fold.var->id] = true;
            use_axes(u, s->u.fold.axis, s->u.fold.n_axes);
            use_expr(u, s->u.fold.guard);
            use_expr(u, s->u.fold.a);
            use_expr(u, s->u.fold.b);
            break;
        case LS_MMA:
            u->var[s->u.mma.tile->id] = u->iter[s->u.mma.row->id] = u->iter[s->u.mma.col->id] = true;
            use_axes(u, s->u.mma.axis, s->u.mma.n_axes);
            use_expr(u, s->u.mma.guard);
            use_expr(u, s->u.mma.col_limit);
            use_expr(u, s->u.mma.ahead);
            use_expr(u, s->u.mma.a);
            use_expr(u, s->u.mma.b);
            break;
        case LS_PUT:
            u->var[s->u.put.tile->id] = u->iter[s->u.put.row->id] = u->iter[s->u.put.col->id] = true;
            for (uint32_t i = 0; i < s->u.put.n_index; i++)
                use_expr(u, s->u.put.index[i]);
            use_expr(u, s->u.put.col_limit);
            use_expr(u, s->u.put.row_limit);
            use_expr(u, s->u.put.value);
            break;
        case LS_CHECK: use_expr(u, s->u.check.cond); break;
        }
    }
}

/* For messages: an index expression or predicate, which are small. */
void expr_print(Text *text, const Kernel *k, const Expr *e)
{
    Arena *tmp = arena_create(k->ctx);
    Printer p = {.text = text, .k = k, .tmp = tmp, .macro = map_create(tmp)};
    expr(&p, e);
    arena_destroy(tmp);
}

void kernel_print(Text *text, const Kernel *k)
{
    Arena *arena = arena_create(k->ctx);
    Printer p = {.text = text, .k = k, .tmp = arena_create(k->ctx), .depth = 1};
    Used used = {ARENA_ARRAY(arena, bool, k->iters.len), ARENA_ARRAY(arena, bool, k->vars.len)};
    p.macro = map_create(arena);
    use_list(&used, k->body);
    text_add(text, "kernel ");
    text_add_quoted(text, k->name);
    text_add(text, " {\n");
    for (uint32_t i = 0; i < k->bufs.len; i++)
        put_buf(&p, k->bufs.data[i]);
    for (uint32_t i = 0; i < k->iters.len; i++) {
        const Iter *iter = k->iters.data[i];
        if (!used.iter[i])
            continue;
        text_add(text, "  iter ");
        name(&p, iter->name);
        text_addf(text, " in [%lld, %lld]\n", (long long)iter->lo, (long long)iter->hi);
    }
    for (uint32_t i = 0; i < k->vars.len; i++) {
        const Var *var = k->vars.data[i];
        if (!used.var[i])
            continue;
        text_add(text, "  var ");
        name(&p, var->name);
        text_addf(text, ": %s\n", dtype_name(var->dtype));
    }
    list(&p, k->body);
    text_add(text, "}\n");
    arena_destroy(p.tmp);
    arena_destroy(arena);
}
