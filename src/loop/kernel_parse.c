/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the text form of kernels (doc/loop.md). Recursive descent over one token of lookahead; expressions go through
 * the constructors of kernel_build.c and index_form.c, so hand-written index arithmetic is brought to normal form. The
 * first error is reported and ends the parse: every function then returns NULL or false, and nothing that the
 * constructors require is left unchecked.
 */
#include "loop/loop_int.h"

#include <string.h>

enum { MAX_DEPTH = 200 };

typedef enum TokKind { T_END, T_NAME, T_QUOTED, T_NUMBER, T_PUNCT, T_BAD } TokKind;
typedef struct Tok {
    TokKind kind;
    char text[3]; /* PUNCT */
    Str name;     /* NAME, QUOTED, NUMBER: content */
    uint32_t line, column;
} Tok;

typedef enum SymKind { SYM_NONE, SYM_BUF, SYM_ITER, SYM_VAR } SymKind;
typedef struct Symbol {
    SymKind kind;
    union {
        Buf *buf;
        Iter *iter;
        Var *var;
    } u;
} Symbol;

typedef struct Reader {
    Kernel *k;
    Context *ctx;
    Arena *tmp;
    Str file;
    const char *at, *end, *line_start;
    uint32_t line;
    Tok tok;
    bool failed;
    uint32_t depth;
    Map *symbols; /* KEY(Str) -> Symbol */
    VEC(const Expr *) macros;
} Reader;

/* ---- tokens ---------------------------------------------------------------------------------------------------------- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void skip_blanks(Reader *r)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        if (r->at == r->end)
            return;
        if (*r->at == '\n') {
            r->line++;
            r->line_start = r->at + 1;
        } else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r') {
            return;
        }
    }
}

static int hex_value(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The inverse of text_add_quoted. */
static bool read_quoted(Reader *r, Tok *tok)
{
    Text text;
    text_init(&text, r->tmp);
    for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
        char c = *r->at;
        if (c == '\n' || c == '\0')
            return false;
        if (c == '\\') {
            if (++r->at == r->end)
                return false;
            c = *r->at;
            if (c == 'x') {
                if (r->end - r->at < 3)
                    return false;
                int high = hex_value(r->at[1]), low = hex_value(r->at[2]);
                if (high < 0 || low < 0 || high + low == 0)
                    return false;
                c = (char)(high * 16 + low);
                r->at += 2;
            } else if (c == 'n' || c == 't') {
                c = c == 'n' ? '\n' : '\t';
            } else if (c != '"' && c != '\\') {
                return false;
            }
        }
        text_add_n(&text, &c, 1);
    }
    if (r->at == r->end)
        return false;
    r->at++;
    tok->name = str_intern_n(r->ctx, text.data, text.len);
    return true;
}

static void advance(Reader *r)
{
    static const char *const pairs[] = {"..", "==", "&&", "||"};
    skip_blanks(r);
    Tok tok = {.kind = T_END, .line = r->line, .column = (uint32_t)(r->at - r->line_start) + 1};
    const char *start = r->at;
    if (r->at == r->end) {
        r->tok = tok;
        return;
    }
    char c = *r->at;
    if (is_letter(c)) {
        while (r->at < r->end && (is_letter(*r->at) || is_digit(*r->at)))
            r->at++;
        tok.kind = T_NAME;
        tok.name = str_intern_n(r->ctx, start, (size_t)(r->at - start));
    } else if (is_digit(c)) {
        /* a point belongs to the number unless it starts ".."; a sign only after a decimal exponent */
        for (r->at++; r->at < r->end; r->at++) {
            char d = *r->at;
            bool exponent = (d == '-' || d == '+') && (r->at[-1] == 'e' || r->at[-1] == 'E') && start[1] != 'x';
            bool point = d == '.' && !(r->end - r->at > 1 && r->at[1] == '.');
            if (!is_digit(d) && !is_letter(d) && !exponent && !point)
                break;
        }
        tok.kind = T_NUMBER;
        tok.name = str_intern_n(r->ctx, start, (size_t)(r->at - start));
    } else if (c == '"') {
        tok.kind = read_quoted(r, &tok) ? T_QUOTED : T_BAD;
    } else {
        tok.kind = strchr("{}[](),:=<+-*/%!$.", c) && c ? T_PUNCT : T_BAD;
        tok.text[0] = c;
        for (size_t i = 0; i < IG_COUNT(pairs); i++)
            if (r->end - r->at > 1 && r->at[0] == pairs[i][0] && r->at[1] == pairs[i][1]) {
                tok.kind = T_PUNCT;
                tok.text[1] = pairs[i][1];
            }
        r->at += tok.text[1] ? 2 : 1;
    }
    r->tok = tok;
}

static Loc here(const Reader *r) { return loc_text(r->ctx, r->file, r->tok.line, r->tok.column); }

static const char *found(const Reader *r)
{
    switch (r->tok.kind) {
    case T_END: return "the end of the text";
    case T_PUNCT: return r->tok.text;
    case T_BAD: return "a character or string that no token starts with";
    default: return r->tok.name;
    }
}

static bool expected(Reader *r, const char *what)
{
    if (!r->failed)
        diag_report(r->ctx, here(r), DIAG_loop_syntax, what, found(r));
    r->failed = true;
    return false;
}

/* What is written is well formed but does not fit. */
static void *misfit(Reader *r, const char *what)
{
    if (!r->failed)
        diag_report(r->ctx, here(r), DIAG_loop_misfit, what);
    r->failed = true;
    return NULL;
}

static bool at_punct(const Reader *r, const char *text) { return r->tok.kind == T_PUNCT && !strcmp(r->tok.text, text); }
static bool at_word(const Reader *r, const char *word) { return r->tok.kind == T_NAME && !strcmp(r->tok.name, word); }

static bool take_punct(Reader *r, const char *text)
{
    if (r->failed || !at_punct(r, text))
        return false;
    advance(r);
    return true;
}

static bool take_word(Reader *r, const char *word)
{
    if (r->failed || !at_word(r, word))
        return false;
    advance(r);
    return true;
}

static bool need_punct(Reader *r, const char *text) { return take_punct(r, text) || expected(r, text); }
static bool need_word(Reader *r, const char *word) { return take_word(r, word) || expected(r, word); }

static Str need_name(Reader *r)
{
    Str name = r->tok.name;
    if (r->failed || (r->tok.kind != T_NAME && r->tok.kind != T_QUOTED)) {
        expected(r, "a name");
        return NULL;
    }
    advance(r);
    return name;
}

static bool need_s64(Reader *r, int64_t *value)
{
    bool minus = take_punct(r, "-");
    if (r->failed || r->tok.kind != T_NUMBER)
        return expected(r, "an integer");
    const char *text = minus ? str_format(r->ctx, "-%s", r->tok.name) : r->tok.name;
    if (!text_parse_s64(text, value))
        return expected(r, "an integer of 64 bits");
    advance(r);
    return true;
}

static bool need_u64(Reader *r, uint64_t *value)
{
    uint64_t sum = 0;
    const char *s = r->tok.name;
    if (r->failed || r->tok.kind != T_NUMBER)
        return expected(r, "an unsigned integer");
    bool hex = s[0] == '0' && s[1] == 'x';
    for (s += hex ? 2 : 0; *s; s++) {
        int digit = hex ? hex_value(*s) : is_digit(*s) ? *s - '0' : -1;
        uint64_t base = hex ? 16 : 10;
        if (digit < 0 || sum > (UINT64_MAX - (uint64_t)digit) / base)
            return expected(r, "an unsigned integer of 64 bits");
        sum = sum * base + (uint64_t)digit;
    }
    *value = sum;
    advance(r);
    return true;
}

static DType need_dtype(Reader *r)
{
    DType dtype = r->tok.kind == T_NAME && !r->failed ? dtype_from_name(r->tok.name) : DT_NONE;
    bool compiled = dtype_is_float(dtype) || dtype_is_int(dtype) || dtype == DT_BOOL;
    if (!compiled || dtype_bits(dtype) < 8) {
        expected(r, "an element type of at least 8 bits");
        return DT_NONE;
    }
    advance(r);
    return dtype;
}

static Symbol *find(Reader *r, Str name) { return map_get(r->symbols, KEY(name)); }

static Symbol *need_symbol(Reader *r, SymKind kind, const char *what)
{
    Symbol *symbol = r->tok.kind == T_NAME || r->tok.kind == T_QUOTED ? find(r, r->tok.name) : NULL;
    if (r->failed || !symbol || symbol->kind != kind) {
        expected(r, what);
        return NULL;
    }
    advance(r);
    return symbol;
}

static const Iter *need_iter(Reader *r)
{
    const Symbol *symbol = need_symbol(r, SYM_ITER, "a declared iterator");
    return symbol ? symbol->u.iter : NULL;
}

static const Var *need_var(Reader *r)
{
    const Symbol *symbol = need_symbol(r, SYM_VAR, "a declared variable");
    return symbol ? symbol->u.var : NULL;
}

static Buf *need_buf(Reader *r)
{
    const Symbol *symbol = need_symbol(r, SYM_BUF, "a declared buffer");
    return symbol ? symbol->u.buf : NULL;
}

/* ---- expressions ----------------------------------------------------------------------------------------------------- */

static const Expr *read_expr(Reader *r);
static const Expr *read_unary(Reader *r);

/* Where a value is wanted, an index is its s64. */
static const Expr *read_value(Reader *r)
{
    const Expr *e = read_expr(r);
    return e && lx_is_index(e) ? lx_cast(r->k, e, DT_S64) : e;
}

static const Expr *need_index(Reader *r, const Expr *e)
{
    if (e && !lx_is_index(e))
        return misfit(r, "an index expression is needed here, not a value or predicate");
    return e;
}

static const Expr *need_pred(Reader *r, const Expr *e)
{
    if (e && e->dtype != DT_BOOL)
        return misfit(r, "a predicate is needed here");
    return e;
}

static const Expr *read_const(Reader *r, DType dtype)
{
    uint64_t bits;
    int64_t integer;
    double value;
    bool minus = take_punct(r, "-");
    if (r->tok.kind == T_NUMBER && r->tok.name[0] == '0' && r->tok.name[1] == 'x' && !minus) {
        if (!need_u64(r, &bits))
            return NULL;
    } else if (dtype_is_float(dtype)) {
        Str text = r->tok.name;
        bool number = r->tok.kind == T_NUMBER || r->tok.kind == T_NAME;
        if (!number || !text_parse_f64(minus ? str_format(r->ctx, "-%s", text) : text, &value) || value != value) {
            expected(r, "a number");
            return NULL;
        }
        advance(r);
        return need_punct(r, ")") ? lx_const_f64(r->k, dtype, value) : NULL;
    } else {
        Str text = r->tok.name;
        if (r->tok.kind != T_NUMBER || !text_parse_s64(minus ? str_format(r->ctx, "-%s", text) : text, &integer)) {
            expected(r, "an integer");
            return NULL;
        }
        advance(r);
        bits = (uint64_t)integer;
    }
    if (dtype == DT_BOOL && bits > 1)
        return misfit(r, "a bool is 0 or 1");
    return need_punct(r, ")") ? lx_const(r->k, dtype, bits) : NULL;
}

static uint32_t read_args(Reader *r, const Expr **args, uint32_t max)
{
    uint32_t n = 0;
    do {
        if (n == max) {
            misfit(r, "too many arguments");
            return 0;
        }
        args[n] = read_expr(r);
    } while (args[n++] && take_punct(r, ","));
    return r->failed || !need_punct(r, ")") ? 0 : n;
}

/* op.dtype(..) or cast.dtype(..), after the point */
static const Expr *read_call(Reader *r, Str name)
{
    const Expr *args[4];
    DType dtype = need_dtype(r);
    if (!dtype || !need_punct(r, "("))
        return NULL;
    uint32_t n = read_args(r, args, 4);
    if (!n)
        return NULL;
    if (strcmp(name, "cast") == 0) {
        if (n != 1 || !cast_types_match(dtype, args[0]->dtype))
            return misfit(r, "no such conversion");
        return lx_cast(r->k, args[0], dtype);
    }
    const char *why;
    Op op = op_from_name(name);
    if (op == OP_COUNT || op == OP_cast)
        return misfit(r, "no such elementwise op");
    for (uint32_t i = 0; i < n; i++)
        if (lx_is_index(args[i]))
            args[i] = lx_cast(r->k, args[i], DT_S64);
    if (!map_types_match(op, dtype, args, n, &why))
        return misfit(r, why);
    return lx_map(r->k, op, dtype, args, n);
}

/* min( max( index( or a constant dtype(, after the parenthesis */
static const Expr *read_function(Reader *r, Str name)
{
    const Expr *args[2];
    int64_t lo, hi;
    if (strcmp(name, "min") == 0 || strcmp(name, "max") == 0) {
        uint32_t n = read_args(r, args, 2);
        if (n != 2 || !need_index(r, args[0]) || !need_index(r, args[1]))
            return r->failed ? NULL : misfit(r, "min and max take two index expressions");
        return name[1] == 'i' ? lx_min(r->k, args[0], args[1]) : lx_max(r->k, args[0], args[1]);
    }
    if (strcmp(name, "index") == 0) {
        const Expr *value = read_expr(r);
        if (!value || !need_punct(r, ",") || !need_s64(r, &lo) || !need_punct(r, ",") || !need_s64(r, &hi) ||
            !need_punct(r, ")"))
            return NULL;
        if (lo > hi || (!lx_is_index(value) && !dtype_is_int(value->dtype)))
            return misfit(r, "index takes an integer value and a range that is not empty");
        return lx_index(r->k, value, lo, hi);
    }
    DType dtype = dtype_from_name(name);
    if (dtype == DT_NONE || dtype_bits(dtype) < 8 || dtype_bits(dtype) > 64 || dtype_kind(dtype) == DK_COMPLEX)
        return misfit(r, "no such function or element type");
    return read_const(r, dtype);
}

/* Indices up to the closing bracket or `if`; rank of them. */
static bool read_indices(Reader *r, const Buf *buf, const Expr **index)
{
    if (!need_punct(r, "["))
        return false;
    for (uint32_t i = 0; i < buf->rank; i++) {
        if (i && !need_punct(r, ","))
            return false;
        if (!(index[i] = need_index(r, read_expr(r))))
            return false;
    }
    return true;
}

static const Expr *read_load(Reader *r, Buf *buf)
{
    const Expr *index[LOOP_MAX_RANK], *mask = NULL, *otherwise = NULL;
    if (!read_indices(r, buf, index))
        return NULL;
    if (take_word(r, "if")) {
        mask = need_pred(r, read_expr(r));
        if (!mask || !need_word(r, "else") || !(otherwise = read_value(r)))
            return NULL;
        if (otherwise->dtype != buf->dtype)
            return misfit(r, "the value of a masked load must have the buffer's element type");
    }
    return need_punct(r, "]") ? lx_load(r->k, buf, index, mask, otherwise) : NULL;
}

static const Expr *read_named(Reader *r)
{
    bool quoted = r->tok.kind == T_QUOTED;
    Str name = need_name(r);
    if (!quoted && (strcmp(name, "true") == 0 || strcmp(name, "false") == 0))
        return lx_const(r->k, DT_BOOL, name[0] == 't');
    if (!quoted && take_punct(r, "."))
        return read_call(r, name);
    if (!quoted && take_punct(r, "("))
        return read_function(r, name);
    const Symbol *symbol = find(r, name);
    if (!symbol)
        return misfit(r, str_format(r->ctx, "'%s' is not declared", name));
    switch (symbol->kind) {
    case SYM_ITER: return lx_iter(r->k, symbol->u.iter);
    case SYM_VAR: return lx_var(r->k, symbol->u.var);
    default: return read_load(r, symbol->u.buf);
    }
}

static const Expr *read_operand(Reader *r)
{
    int64_t value;
    if (take_punct(r, "!")) {
        const Expr *e = need_pred(r, read_unary(r));
        return e ? lx_not(r->k, e) : NULL;
    }
    if (take_punct(r, "(")) {
        const Expr *e = read_expr(r);
        return e && need_punct(r, ")") ? e : NULL;
    }
    if (take_punct(r, "$")) {
        if (!need_s64(r, &value))
            return NULL;
        if (value < 0 || value >= r->macros.len)
            return misfit(r, "no such $ definition");
        return r->macros.data[value];
    }
    if (r->tok.kind == T_NUMBER || at_punct(r, "-"))
        return need_s64(r, &value) ? lx_int(r->k, value) : NULL;
    if (r->tok.kind == T_NAME || r->tok.kind == T_QUOTED)
        return read_named(r);
    expected(r, "an expression");
    return NULL;
}

/* All nesting of expressions passes through here. */
static const Expr *read_unary(Reader *r)
{
    if (++r->depth > MAX_DEPTH)
        return misfit(r, "expressions or blocks nest too deeply");
    const Expr *e = read_operand(r);
    r->depth--;
    return e;
}

static const Expr *read_product(Reader *r)
{
    const Expr *e = read_unary(r);
    while (e && (at_punct(r, "*") || at_punct(r, "/") || at_punct(r, "%"))) {
        char op = r->tok.text[0];
        int64_t value;
        advance(r);
        if (!need_index(r, e) || !need_s64(r, &value))
            return NULL;
        if (op != '*' && value <= 0)
            return misfit(r, "the divisor must be positive");
        e = op == '*' ? lx_mul(r->k, e, value) : op == '/' ? lx_div(r->k, e, value) : lx_mod(r->k, e, value);
    }
    return e;
}

static const Expr *read_sum(Reader *r)
{
    const Expr *e = read_product(r);
    while (e && (at_punct(r, "+") || at_punct(r, "-"))) {
        bool minus = at_punct(r, "-");
        advance(r);
        const Expr *other = need_index(r, read_product(r));
        if (!other || !need_index(r, e))
            return NULL;
        e = minus ? lx_sub(r->k, e, other) : lx_add(r->k, e, other);
    }
    return e;
}

static const Expr *read_comparison(Reader *r)
{
    const Expr *e = read_sum(r);
    if (e && (at_punct(r, "<") || at_punct(r, "=="))) {
        bool less = at_punct(r, "<");
        advance(r);
        const Expr *other = need_index(r, read_sum(r));
        if (!other || !need_index(r, e))
            return NULL;
        e = less ? lx_lt(r->k, e, other) : lx_eq(r->k, e, other);
    }
    return e;
}

static const Expr *read_expr(Reader *r)
{
    const Expr *e = read_comparison(r);
    while (e && (at_punct(r, "&&") || at_punct(r, "||"))) {
        bool both = at_punct(r, "&&");
        advance(r);
        const Expr *other = need_pred(r, read_comparison(r));
        if (!other || !need_pred(r, e))
            return NULL;
        e = both ? lx_and(r->k, e, other) : lx_or(r->k, e, other);
    }
    return e;
}

/* ---- statements ------------------------------------------------------------------------------------------------------ */

static bool read_list(Reader *r, Stmt **list);

static bool read_block(Reader *r, Stmt **list)
{
    if (!need_punct(r, "{"))
        return false;
    if (++r->depth > MAX_DEPTH)
        return misfit(r, "expressions or blocks nest too deeply") != NULL;
    bool fine = read_list(r, list) && need_punct(r, "}");
    r->depth--;
    return fine;
}

static Stmt *read_for(Reader *r)
{
    const Iter *iter = need_iter(r);
    const Expr *lo, *hi;
    int64_t step = 1;
    Bind bind = BIND_SEQ;
    Stmt *body = NULL;
    if (!iter || !need_word(r, "in") || !(lo = need_index(r, read_expr(r))) || !need_punct(r, "..") ||
        !(hi = need_index(r, read_expr(r))))
        return NULL;
    if (take_word(r, "step") && !need_s64(r, &step))
        return NULL;
    if (step <= 0)
        return misfit(r, "the step must be positive");
    for (int b = BIND_PAR; b <= BIND_VEC; b++)
        if (take_word(r, bind_name((Bind)b)))
            bind = (Bind)b;
    return read_block(r, &body) ? ls_for(r->k, iter, lo, hi, step, bind, body) : NULL;
}

static Stmt *read_if(Reader *r)
{
    Stmt *s = ls_new(r->k, LS_IF);
    s->u.branch.cond = need_pred(r, read_expr(r));
    if (!s->u.branch.cond || !read_block(r, &s->u.branch.then))
        return NULL;
    if (take_word(r, "else") && !read_block(r, &s->u.branch.otherwise))
        return NULL;
    return s;
}

static Stmt *read_let(Reader *r)
{
    const Var *var = need_var(r);
    const Expr *value = var && need_punct(r, "=") ? read_value(r) : NULL;
    return value ? ls_let(r->k, var, value) : NULL;
}

static Buf *read_target(Reader *r, const Expr **index)
{
    Buf *buf = need_buf(r);
    return buf && read_indices(r, buf, index) && need_punct(r, "]") && need_punct(r, "=") ? buf : NULL;
}

static Stmt *read_store(Reader *r)
{
    const Expr *index[LOOP_MAX_RANK], *value, *mask = NULL;
    Buf *buf = read_target(r, index);
    if (!buf || !(value = read_value(r)))
        return NULL;
    if (take_word(r, "where") && !(mask = need_pred(r, read_expr(r))))
        return NULL;
    return ls_store(r->k, buf, index, value, mask);
}

static bool read_axes(Reader *r, FoldAxis *axis, uint32_t *n)
{
    if (!need_word(r, "over") || !need_punct(r, "("))
        return false;
    *n = 0;
    if (take_punct(r, ")"))
        return true;
    do {
        if (*n == LOOP_MAX_FOLD_ITERS)
            return misfit(r, "too many fold axes") != NULL;
        axis[*n].iter = need_iter(r);
        axis[*n].size = NULL;
        if (!axis[*n].iter || !need_punct(r, ":") || !need_s64(r, &axis[*n].extent) ||
            (take_word(r, "to") && !(axis[*n].size = need_index(r, read_expr(r)))))
            return false;
        if (axis[*n].extent < 0)
            return misfit(r, "an extent is not negative") != NULL;
        ++*n;
    } while (take_punct(r, ","));
    return need_punct(r, ")");
}

static bool read_operands(Reader *r, const Expr **a, const Expr **b, bool two)
{
    if (!need_punct(r, ":") || !(*a = read_value(r)))
        return false;
    return !two || (need_punct(r, ",") && (*b = read_value(r)));
}

static Stmt *read_fold(Reader *r)
{
    Stmt *s = ls_new(r->k, LS_FOLD);
    int kind = FOLD_SUM, form = FORM_EXACT;
    if (!(s->u.fold.var = need_var(r)) || !need_punct(r, "="))
        return NULL;
    while (kind <= FOLD_DOT && !take_word(r, fold_kind_name((FoldKind)kind)))
        kind++;
    while (form <= FORM_CHAIN && !take_word(r, fold_form_name((FoldForm)form)))
        form++;
    if (kind > FOLD_DOT || form > FORM_CHAIN) {
        expected(r, "a fold kind and form");
        return NULL;
    }
    s->u.fold.kind = (FoldKind)kind;
    s->u.fold.form = (FoldForm)form;
    if (form == FORM_CHAIN && !need_s64(r, &s->u.fold.kb))
        return NULL;
    if (!read_axes(r, s->u.fold.axis, &s->u.fold.n_axes))
        return NULL;
    if (take_word(r, "if") && !(s->u.fold.guard = need_pred(r, read_expr(r))))
        return NULL;
    return read_operands(r, &s->u.fold.a, &s->u.fold.b, kind == FOLD_DOT) ? s : NULL;
}

static bool read_tile(Reader *r, const Var **tile, const Iter **row, int64_t *rows, const Iter **col, int64_t *cols)
{
    return (*tile = need_var(r)) && need_punct(r, "[") && (*row = need_iter(r)) && need_punct(r, ":") &&
           need_s64(r, rows) && need_punct(r, ",") && (*col = need_iter(r)) && need_punct(r, ":") &&
           need_s64(r, cols) && need_punct(r, "]");
}

static Stmt *read_mma(Reader *r)
{
    Stmt *s = ls_new(r->k, LS_MMA);
    if (!read_tile(r, &s->u.mma.tile, &s->u.mma.row, &s->u.mma.rows, &s->u.mma.col, &s->u.mma.cols) ||
        !need_punct(r, "=") || !need_word(r, "dot") || !need_s64(r, &s->u.mma.kb) ||
        !read_axes(r, s->u.mma.axis, &s->u.mma.n_axes))
        return NULL;
    if (take_word(r, "if") && !(s->u.mma.guard = need_pred(r, read_expr(r))))
        return NULL;
    if (take_word(r, "cols") && !(s->u.mma.col_limit = need_index(r, read_expr(r))))
        return NULL;
    if (!read_operands(r, &s->u.mma.a, &s->u.mma.b, true))
        return NULL;
    if (take_word(r, "ahead") &&
        (!(s->u.mma.ahead = need_index(r, read_expr(r))) || !need_punct(r, ",") || !need_s64(r, &s->u.mma.n_ahead)))
        return NULL;
    return s;
}

static Stmt *read_put(Reader *r)
{
    Stmt *s = ls_new(r->k, LS_PUT);
    const Expr *index[LOOP_MAX_RANK];
    if (!read_tile(r, &s->u.put.tile, &s->u.put.row, &s->u.put.rows, &s->u.put.col, &s->u.put.cols))
        return NULL;
    if (take_word(r, "cols") && !(s->u.put.col_limit = need_index(r, read_expr(r))))
        return NULL;
    if (take_word(r, "rows") && !(s->u.put.row_limit = need_index(r, read_expr(r))))
        return NULL;
    if (!need_punct(r, ":") || !(s->u.put.buf = read_target(r, index)) || !(s->u.put.value = read_value(r)))
        return NULL;
    s->u.put.buf->written = true;
    s->u.put.n_index = s->u.put.buf->rank;
    s->u.put.index = arena_copy(r->k->arena, index, s->u.put.n_index * sizeof *index);
    return s;
}

static Stmt *read_check(Reader *r)
{
    Stmt *s = ls_new(r->k, LS_CHECK);
    s->u.check.cond = need_pred(r, read_expr(r));
    return s->u.check.cond && need_word(r, "code") && need_u64(r, &s->u.check.code) ? s : NULL;
}

/* $n = expr: n counts from 0 for each statement. */
static bool read_macro(Reader *r)
{
    int64_t number;
    if (!need_s64(r, &number) || !need_punct(r, "="))
        return false;
    if (number == 0)
        r->macros.len = 0;
    if (number != r->macros.len)
        return misfit(r, "$ definitions count from 0") != NULL;
    const Expr *e = read_expr(r);
    if (!e)
        return false;
    vec_push(r->tmp, &r->macros, e);
    return true;
}

static bool read_list(Reader *r, Stmt **list)
{
    static const struct {
        const char *word;
        Stmt *(*read)(Reader *);
    } kinds[] = {{"for", read_for},   {"if", read_if},   {"let", read_let}, {"store", read_store},
                 {"fold", read_fold}, {"mma", read_mma}, {"put", read_put}, {"check", read_check}};
    while (!r->failed && !at_punct(r, "}")) {
        if (take_punct(r, "$")) {
            if (!read_macro(r))
                return false;
            continue;
        }
        size_t i = 0;
        while (i < IG_COUNT(kinds) && !take_word(r, kinds[i].word))
            i++;
        if (i == IG_COUNT(kinds))
            return expected(r, "a statement or '}'");
        Stmt *s = kinds[i].read(r);
        if (!s)
            return false;
        r->macros.len = 0;
        list = ls_append(list, s);
    }
    return !r->failed;
}

/* ---- declarations ---------------------------------------------------------------------------------------------------- */

static Symbol *declare(Reader *r, SymKind kind)
{
    Str name = need_name(r);
    if (!name)
        return NULL;
    if (find(r, name))
        return misfit(r, str_format(r->ctx, "'%s' is declared twice", name));
    Symbol *symbol = ARENA_NEW(r->tmp, Symbol);
    symbol->kind = kind;
    map_set(r->symbols, KEY(name), symbol);
    if (kind == SYM_ITER)
        symbol->u.iter = kernel_iter(r->k, name, 0, 0);
    return symbol;
}

static bool read_s64_list(Reader *r, int64_t *values, uint32_t *n, int64_t least)
{
    *n = 0;
    if (!need_punct(r, "["))
        return false;
    if (take_punct(r, "]"))
        return true;
    do {
        if (*n == LOOP_MAX_RANK)
            return misfit(r, "too many axes") != NULL;
        if (!need_s64(r, &values[*n]))
            return false;
        if (values[(*n)++] < least)
            return misfit(r, "sizes and strides are not negative") != NULL;
    } while (take_punct(r, ","));
    return need_punct(r, "]");
}

static bool same_rank(Reader *r, uint32_t n, const Buf *buf)
{
    return n == buf->rank || misfit(r, "one number for each axis is needed") != NULL;
}

/* A pack names its weight; the weight itself is not part of the text. */
static bool read_pack(Reader *r, Buf *buf)
{
    Pack *pack = ARENA_NEW(r->k->arena, Pack);
    uint32_t n;
    pack->weight = ARENA_NEW(r->k->arena, Weight);
    pack->weight->name = need_name(r);
    if (take_word(r, "winograd"))
        pack->winograd = take_word(r, "flipped") ? WINOGRAD_FLIPPED : WINOGRAD;
    if (!pack->weight->name || !need_word(r, "offset") || !need_s64(r, &pack->offset) || !need_word(r, "strides") ||
        !read_s64_list(r, pack->stride, &n, INT64_MIN) || !same_rank(r, n, buf))
        return false;
    while (take_word(r, "bound")) {
        if (pack->n_bounds == 2)
            return misfit(r, "a pack has at most two bounds") != NULL;
        if (!read_s64_list(r, pack->bound[pack->n_bounds].coef, &n, INT64_MIN) || !same_rank(r, n, buf) ||
            !need_punct(r, "<") || !need_s64(r, &pack->bound[pack->n_bounds].limit))
            return false;
        pack->n_bounds++;
    }
    buf->pack = pack;
    return !r->failed;
}

static bool read_sizes(Reader *r, Buf *buf)
{
    const Expr **size = ARENA_ARRAY(r->k->arena, const Expr *, buf->rank + 1);
    bool fine = need_punct(r, "[");
    for (uint32_t d = 0; d < buf->rank && fine; d++)
        fine = (d == 0 || need_punct(r, ",")) && (size[d] = need_index(r, read_expr(r)));
    buf->size = size;
    return fine && need_punct(r, "]");
}

static bool read_buf(Reader *r, BufSpace space)
{
    Str name = r->tok.name;
    Symbol *symbol = declare(r, SYM_BUF);
    int64_t dim[LOOP_MAX_RANK], size = 1;
    uint32_t rank, n;
    DType dtype;
    if (!symbol || !need_punct(r, ":") || !(dtype = need_dtype(r)) || !read_s64_list(r, dim, &rank, 0))
        return false;
    for (uint32_t d = 0; d < rank; d++)
        if (dim[d] > 1 && __builtin_mul_overflow(size, dim[d], &size))
            return misfit(r, "the buffer is too large") != NULL;
    Buf *buf = symbol->u.buf = kernel_buf(r->k, name, dtype, space, rank, dim);
    if (take_word(r, "strides") && (!read_s64_list(r, buf->stride, &n, 0) || !same_rank(r, n, buf)))
        return false;
    if (take_word(r, "elements") && !need_s64(r, &buf->elements))
        return false;
    if (buf->elements < 0)
        return misfit(r, "sizes and strides are not negative") != NULL;
    if (space == BUF_SIZES)
        r->k->sizes = buf;
    if (take_word(r, "dense") && !read_sizes(r, buf))
        return false;
    buf->written = take_word(r, "written");
    return !r->failed && (!take_word(r, "pack") || read_pack(r, buf));
}

static bool read_iter(Reader *r)
{
    Symbol *symbol = declare(r, SYM_ITER);
    if (!symbol || !need_word(r, "in") || !need_punct(r, "[") || !need_s64(r, &symbol->u.iter->lo) ||
        !need_punct(r, ",") || !need_s64(r, &symbol->u.iter->hi) || !need_punct(r, "]"))
        return false;
    return symbol->u.iter->lo <= symbol->u.iter->hi || misfit(r, "the range of an iterator is not empty") != NULL;
}

static bool read_var(Reader *r)
{
    Str name = r->tok.name;
    Symbol *symbol = declare(r, SYM_VAR);
    DType dtype;
    if (!symbol || !need_punct(r, ":") || !(dtype = need_dtype(r)))
        return false;
    symbol->u.var = kernel_var(r->k, name, dtype);
    return true;
}

static bool read_declarations(Reader *r)
{
    while (!r->failed) {
        bool is_buf = false;
        for (int space = BUF_ARG; space <= BUF_SIZES && !is_buf; space++)
            if (take_word(r, space_name((BufSpace)space))) {
                is_buf = true;
                if (!read_buf(r, (BufSpace)space))
                    return false;
            }
        if (is_buf)
            continue;
        if (take_word(r, "iter")) {
            if (!read_iter(r))
                return false;
        } else if (take_word(r, "var")) {
            if (!read_var(r))
                return false;
        } else {
            return true;
        }
    }
    return false;
}

Kernel *kernel_parse(Context *ctx, Arena *arena, Str file, const char *text, size_t size)
{
    Arena *tmp = arena_create(ctx);
    Reader r = {.ctx = ctx, .tmp = tmp, .file = file, .at = text, .end = text + size, .line_start = text, .line = 1};
    r.symbols = map_create(tmp);
    advance(&r);
    Loc loc = here(&r);
    Str name = need_word(&r, "kernel") ? need_name(&r) : NULL;
    if (name) {
        r.k = kernel_create(ctx, arena, name);
        r.k->loc = loc;
    }
    bool fine =
        name && need_punct(&r, "{") && read_declarations(&r) && read_list(&r, &r.k->body) && need_punct(&r, "}");
    if (fine && r.tok.kind != T_END)
        fine = expected(&r, "the end of the text");
    arena_destroy(tmp);
    return fine ? r.k : NULL;
}
