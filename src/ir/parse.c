/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser of the text form (grammar: doc/ir.md): recursive descent, one function a rule, one token of lookahead. It
 * checks what is needed to build a module (names, kinds, counts); ir_verify checks the structure of what was built. The
 * first error ends it. Input is not trusted: nesting and sizes are limited before anything is allocated for them.
 *
 * Functions may be called before they are defined, so a first sweep over the tokens creates all of them.
 */
#include "ir/lex.h"

#include <string.h>

enum { MAX_INLINE_ELEMENTS = 1 << 16, MAX_OPERANDS = UINT16_MAX, MAX_RECURSION = 64 };

typedef struct Parser {
    Context *ctx;
    Module *module;
    Arena *scratch;
    Lexer lexer;
    Token token; /* the next one, not yet consumed */
    Token last;  /* the one consumed before it */
    Str file;
    Map *vals;    /* KEY(name) -> Val, of the region being read */
    Map *weights; /* KEY(name in the text) -> Weight */
    Map *parsed;  /* KEY(Func) of those whose body was read */
    Map *locs;    /* number -> Loc + 1 */
    Map *blobs;   /* KEY(path) -> Blob */
    int recursion, nesting;
    /* of the node being read */
    VEC(Token) results;
    VEC(Val *) operands;
    VEC(const Type *) types;
} Parser;

static Loc loc_of(const Parser *p, const Token *token) { return loc_text(p->ctx, p->file, token->line, token->column); }

/* Report at the next token, at the last one, or at another; false. */
#define FAIL(p, ...) (diag_report((p)->ctx, loc_of((p), &(p)->token), __VA_ARGS__), false)
#define FAIL_LAST(p, ...) (diag_report((p)->ctx, loc_of((p), &(p)->last), __VA_ARGS__), false)
#define FAIL_AT(p, token, ...) (diag_report((p)->ctx, loc_of((p), (token)), __VA_ARGS__), false)

static void advance(Parser *p)
{
    p->last = p->token;
    p->token = lex_next(&p->lexer);
}

/* Is the token after the next one this character? */
static bool followed_by(const Parser *p, char c)
{
    Lexer ahead = p->lexer;
    Token token = lex_next(&ahead);
    return token.kind == TOK_PUNCT && token.punct == c;
}

static bool fail_expected(Parser *p, const char *what)
{
    return FAIL(p, DIAG_ir_syntax, what, lex_describe(&p->lexer, &p->token));
}

static bool at_punct(const Parser *p, char c) { return p->token.kind == TOK_PUNCT && p->token.punct == c; }

static bool at_word(const Parser *p, const char *word)
{
    return p->token.kind == TOK_NAME && strcmp(p->token.text, word) == 0;
}

static bool accept_punct(Parser *p, char c)
{
    if (!at_punct(p, c))
        return false;
    advance(p);
    return true;
}

static bool accept_word(Parser *p, const char *word)
{
    if (!at_word(p, word))
        return false;
    advance(p);
    return true;
}

static bool expect_punct(Parser *p, char c)
{
    char what[] = {'\'', c, '\'', '\0'};
    return accept_punct(p, c) || fail_expected(p, what);
}

static bool expect_word(Parser *p, const char *word) { return accept_word(p, word) || fail_expected(p, word); }

static bool expect_text(Parser *p, TokenKind kind, const char *what, Str *text)
{
    *text = p->token.text;
    if (p->token.kind != kind)
        return fail_expected(p, what);
    advance(p);
    return true;
}

/* A name, quoted if it is no identifier. */
static bool parse_name(Parser *p, const char *what, Str *name)
{
    return expect_text(p, p->token.kind == TOK_STRING ? TOK_STRING : TOK_NAME, what, name);
}

static bool enter(Parser *p)
{
    return ++p->recursion <= MAX_RECURSION || FAIL(p, DIAG_ir_limit, "nested expressions", (long long)MAX_RECURSION);
}

static bool leave(Parser *p, bool ok)
{
    p->recursion--;
    return ok;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* A number with its sign as one text: -12, 1.5, inf, nan, true. */
static bool parse_number_text(Parser *p, const char *what, const char **text)
{
    bool negative = accept_punct(p, '-');
    bool word = at_word(p, "inf") || at_word(p, "nan") || (!negative && (at_word(p, "true") || at_word(p, "false")));
    if (p->token.kind != TOK_NUMBER && !word)
        return fail_expected(p, what);
    *text = negative ? arena_printf(p->scratch, "-%s", p->token.text) : p->token.text;
    advance(p);
    return true;
}

static bool parse_s64(Parser *p, int64_t *value)
{
    bool negative = accept_punct(p, '-');
    if (p->token.kind != TOK_NUMBER)
        return fail_expected(p, "an integer");
    const char *text = negative ? arena_printf(p->scratch, "-%s", p->token.text) : p->token.text;
    if (!text_parse_s64(text, value))
        return FAIL(p, DIAG_ir_value, "integer", text, "expected -2^63 to 2^63-1");
    advance(p);
    return true;
}

static bool parse_u32(Parser *p, uint32_t *value)
{
    int64_t number = 0;
    const char *text = p->token.text;
    if (p->token.kind != TOK_NUMBER)
        return fail_expected(p, "an integer");
    if (!text_parse_s64(text, &number) || number > UINT32_MAX)
        return FAIL(p, DIAG_ir_value, "integer", text, "expected 0 to 2^32-1");
    *value = (uint32_t)number;
    advance(p);
    return true;
}

static bool parse_hex(Parser *p, uint64_t *value)
{
    const char *s = p->token.text;
    if (p->token.kind != TOK_NUMBER || s[0] != '0' || s[1] != 'x' || !s[2])
        return fail_expected(p, "a hexadecimal number 0x...");
    uint64_t x = 0;
    for (s += 2; *s; s++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, *s | 0x20);
        if (!digit || x >> 60)
            return FAIL(p, DIAG_ir_value, "hexadecimal number", p->token.text, "expected up to 16 digits");
        x = x << 4 | (uint64_t)(digit - digits);
    }
    *value = x;
    advance(p);
    return true;
}

static bool parse_f64(Parser *p, double *value)
{
    uint64_t bits;
    if (accept_word(p, "bits")) {
        if (!parse_hex(p, &bits))
            return false;
        *value = f64_from_bits(bits);
        return true;
    }
    const char *text;
    if (!parse_number_text(p, "a number", &text))
        return false;
    return text_parse_f64(text, value) ||
           FAIL_LAST(p, DIAG_ir_value, "number", text, "expected a finite number, inf or nan");
}

/* ---- dims and types --------------------------------------------------------------------------------------------- */

static bool parse_dim(Parser *p, const Dim **dim);

static bool parse_dim_call(Parser *p, Str name, const Dim **dim)
{
    static const struct {
        const char *name;
        const Dim *(*make)(Context *ctx, const Dim *a, const Dim *b);
    } calls[] = {{"floordiv", dim_floordiv}, {"mod", dim_mod}, {"min", dim_min}, {"max", dim_max}};
    for (size_t i = 0; i < IG_COUNT(calls); i++) {
        const Dim *a, *b;
        if (strcmp(calls[i].name, name) != 0)
            continue;
        if (!expect_punct(p, '(') || !parse_dim(p, &a) || !expect_punct(p, ',') || !parse_dim(p, &b) ||
            !expect_punct(p, ')'))
            return false;
        *dim = calls[i].make(p->ctx, a, b);
        return true;
    }
    return FAIL(p, DIAG_ir_unknown, "size function", name);
}

/* A number takes the sign before it: -9223372036854775808 has no positive counterpart. */
static bool parse_dim_factor(Parser *p, bool negative, const Dim **dim)
{
    if (p->token.kind == TOK_NUMBER) {
        int64_t value;
        const char *text = negative ? arena_printf(p->scratch, "-%s", p->token.text) : p->token.text;
        if (!text_parse_s64(text, &value))
            return FAIL(p, DIAG_ir_value, "size", text, "expected -2^63 to 2^63-1");
        *dim = dim_const(p->ctx, value);
        advance(p);
        return true;
    }
    if (accept_punct(p, '(')) {
        if (!parse_dim(p, dim) || !expect_punct(p, ')'))
            return false;
    } else {
        Token start = p->token;
        Str name;
        if (!parse_name(p, "a size", &name))
            return false;
        if (start.kind == TOK_NAME && at_punct(p, '(')) {
            if (!parse_dim_call(p, name, dim))
                return false;
        } else {
            const Sym *sym = module_find_sym(p->module, name);
            if (!sym)
                return FAIL_AT(p, &start, DIAG_ir_unknown, "symbol", name);
            *dim = dim_sym(p->ctx, sym);
        }
    }
    if (negative)
        *dim = dim_mul(p->ctx, dim_const(p->ctx, -1), *dim);
    return true;
}

static bool parse_dim_term(Parser *p, bool negative, const Dim **dim)
{
    if (!parse_dim_factor(p, negative, dim))
        return false;
    while (accept_punct(p, '*')) {
        const Dim *factor;
        bool minus = accept_punct(p, '-');
        if (!parse_dim_factor(p, minus, &factor))
            return false;
        *dim = dim_mul(p->ctx, *dim, factor);
    }
    return true;
}

static bool parse_dim_sum(Parser *p, const Dim **dim)
{
    const Token start = p->token;
    bool negative = accept_punct(p, '-');
    if (!parse_dim_term(p, negative, dim))
        return false;
    while (at_punct(p, '+') || at_punct(p, '-')) {
        const Dim *term;
        negative = at_punct(p, '-');
        advance(p);
        if (!parse_dim_term(p, negative, &term))
            return false;
        *dim = dim_add(p->ctx, *dim, term);
    }
    if (dim_is_valid(*dim))
        return true;
    ptrdiff_t length = p->last.start + p->last.length - start.start;
    bool shown = start.line == p->last.line && length < 60;
    return FAIL_AT(p, &start, DIAG_ir_value, "size",
                   shown ? arena_printf(p->scratch, "%.*s", (int)length, start.start) : "...",
                   "it overflows, divides by zero or is too large");
}

static bool parse_dim(Parser *p, const Dim **dim)
{
    *dim = NULL;
    bool ok = enter(p) && parse_dim_sum(p, dim);
    return leave(p, ok);
}

static bool parse_type(Parser *p, const Type **type);

static bool parse_container(Parser *p, const Type *(*make)(Context *ctx, const Type *elem), const Type **type)
{
    const Type *elem;
    if (!expect_punct(p, '<') || !parse_type(p, &elem) || !expect_punct(p, '>'))
        return false;
    *type = make(p->ctx, elem);
    return true;
}

static bool parse_dtype(Parser *p, DType *dtype)
{
    if (p->token.kind != TOK_NAME)
        return fail_expected(p, "an element type");
    *dtype = dtype_from_name(p->token.text);
    if (*dtype == DT_NONE)
        return FAIL(p, DIAG_ir_unknown, "element type", p->token.text);
    advance(p);
    return true;
}

static bool parse_tensor(Parser *p, const Type **type)
{
    const Dim *dims[IR_MAX_RANK];
    uint32_t rank = 0;
    DType dtype;
    if (!parse_dtype(p, &dtype) || !expect_punct(p, '['))
        return false;
    while (!at_punct(p, ']')) {
        if (rank && !expect_punct(p, ','))
            return false;
        if (rank == IR_MAX_RANK)
            return FAIL(p, DIAG_ir_limit, "axes of a tensor", (long long)IR_MAX_RANK);
        if (!parse_dim(p, &dims[rank++]))
            return false;
    }
    *type = type_tensor(p->ctx, dtype, rank, dims);
    if (!*type)
        return FAIL(p, DIAG_ir_value, "type", dtype_name(dtype), "an axis has a negative size");
    advance(p);
    return true;
}

static bool parse_type(Parser *p, const Type **type)
{
    *type = NULL;
    bool ok = enter(p);
    if (ok && accept_word(p, "seq"))
        ok = parse_container(p, type_seq, type);
    else if (ok && accept_word(p, "opt"))
        ok = parse_container(p, type_opt, type);
    else if (ok)
        ok = parse_tensor(p, type);
    return leave(p, ok);
}

static bool parse_colon_type(Parser *p, const Type **type) { return expect_punct(p, ':') && parse_type(p, type); }

/* ---- locations -------------------------------------------------------------------------------------------------- */

static bool parse_loc_body(Parser *p, Loc *loc);

static bool parse_loc_list(Parser *p, Loc *loc)
{
    VEC(Loc) parents = {0};
    if (!expect_punct(p, '['))
        return false;
    while (!accept_punct(p, ']')) {
        Loc parent;
        if ((parents.len && !expect_punct(p, ',')) || !parse_loc_body(p, &parent))
            return false;
        vec_push(p->scratch, &parents, parent);
    }
    *loc = loc_fused(p->ctx, parents.data, parents.len);
    return true;
}

static bool parse_loc_kind(Parser *p, Loc *loc)
{
    Str file, path, node, op_type;
    uint32_t line, column;
    *loc = 0;
    if (accept_punct(p, '#')) {
        uint32_t number;
        if (!parse_u32(p, &number))
            return false;
        uint64_t found = KEY(map_get(p->locs, number));
        if (!found)
            return FAIL_LAST(p, DIAG_ir_unknown, "location", arena_printf(p->scratch, "#%u", (unsigned)number));
        *loc = (Loc)(found - 1);
        return true;
    }
    if (accept_word(p, "none"))
        return true;
    if (accept_word(p, "text")) {
        if (!expect_text(p, TOK_STRING, "a file name", &file) || !parse_u32(p, &line) || !expect_punct(p, ':') ||
            !parse_u32(p, &column))
            return false;
        *loc = loc_text(p->ctx, file, line, column);
        return true;
    }
    if (accept_word(p, "onnx")) {
        if (!expect_text(p, TOK_STRING, "a file name", &file) || !expect_text(p, TOK_STRING, "a graph path", &path) ||
            !parse_u32(p, &line) || !expect_text(p, TOK_STRING, "a node name", &node) ||
            !expect_text(p, TOK_STRING, "an operator name", &op_type))
            return false;
        *loc = loc_onnx(p->ctx, file, path, line, node, op_type);
        return true;
    }
    if (accept_word(p, "from")) {
        Str what;
        Loc parent;
        if (!expect_text(p, TOK_STRING, "what made it", &what) || !parse_loc_body(p, &parent))
            return false;
        *loc = loc_from(p->ctx, parent, what);
        return true;
    }
    if (accept_word(p, "fused"))
        return parse_loc_list(p, loc);
    return fail_expected(p, "a location (text, onnx, from, fused, none or #number)");
}

static bool parse_loc_body(Parser *p, Loc *loc)
{
    bool ok = enter(p) && parse_loc_kind(p, loc);
    return leave(p, ok);
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

static bool parse_ints(Parser *p, AttrVal *value)
{
    VEC(int64_t) list = {0};
    if (!expect_punct(p, '['))
        return false;
    while (!accept_punct(p, ']')) {
        int64_t x;
        if ((list.len && !expect_punct(p, ',')) || !parse_s64(p, &x))
            return false;
        vec_push(p->scratch, &list, x);
    }
    *value = attr_ints(list.data, list.len);
    return true;
}

static bool parse_dims(Parser *p, AttrVal *value)
{
    VEC(const Dim *) list = {0};
    if (!expect_punct(p, '['))
        return false;
    while (!accept_punct(p, ']')) {
        const Dim *dim;
        if ((list.len && !expect_punct(p, ',')) || !parse_dim(p, &dim))
            return false;
        vec_push(p->scratch, &list, dim);
    }
    *value = attr_dims(list.data, list.len);
    return true;
}

static bool parse_attr_symbol(Parser *p, AttrKind kind, AttrVal *value)
{
    if (p->token.kind != TOK_SYMBOL)
        return fail_expected(p, kind == AK_FUNC ? "a function @name" : "a weight @name");
    Weight *weight = map_get(p->weights, KEY(p->token.text));
    Func *func = module_find_func(p->module, p->token.text);
    if (kind == AK_FUNC ? !func : !weight)
        return FAIL(p, DIAG_ir_unknown, kind == AK_FUNC ? "function" : "weight", p->token.text);
    *value = kind == AK_FUNC ? attr_func(func) : attr_weight(weight);
    advance(p);
    return true;
}

static bool parse_attr_value(Parser *p, AttrKind kind, AttrVal *value)
{
    *value = (AttrVal){.kind = kind};
    Str text;
    switch (kind) {
    case AK_INT:
        return parse_s64(p, &value->u.i);
    case AK_FLOAT:
        return parse_f64(p, &value->u.f);
    case AK_DTYPE:
        return parse_dtype(p, &value->u.dtype);
    case AK_INTS:
        return parse_ints(p, value);
    case AK_DIM:
        return parse_dim(p, &value->u.dim);
    case AK_DIMS:
        return parse_dims(p, value);
    case AK_WEIGHT:
    case AK_FUNC:
        return parse_attr_symbol(p, kind, value);
    case AK_BOOL:
        value->u.i = at_word(p, "true");
        return accept_word(p, "true") || accept_word(p, "false") || fail_expected(p, "true or false");
    case AK_STR:
        if (!parse_name(p, "a word or a text", &text))
            return false;
        value->u.s = text;
        return true;
    }
    return false;
}

/* All attributes of the op, in any order. */
static bool parse_attrs(Parser *p, Op op, const Attrs **attrs)
{
    const AttrSchema *schema = op_info[op].attr;
    AttrVal values[IR_MAX_ATTRS];
    bool present[IR_MAX_ATTRS] = {false};
    uint32_t n = 0, given = 0;
    while (n < IR_MAX_ATTRS && schema[n].name != AN_NONE)
        n++;
    const Token start = p->last;
    if (at_punct(p, '{') && !followed_by(p, '(')) { /* else a region's parameters */
        advance(p);
        while (!accept_punct(p, '}')) {
            if (given && !expect_punct(p, ','))
                return false;
            uint32_t i = 0;
            if (p->token.kind != TOK_NAME)
                return fail_expected(p, "an attribute");
            while (i < n && strcmp(attr_name(schema[i].name), p->token.text) != 0)
                i++;
            if (i == n)
                return FAIL(p, DIAG_ir_unknown, arena_printf(p->scratch, "attribute of %s", op_info[op].name),
                            p->token.text);
            if (present[i])
                return FAIL(p, DIAG_ir_redefined, "attribute", p->token.text);
            advance(p);
            if (!expect_punct(p, '=') || !parse_attr_value(p, schema[i].kind, &values[i]))
                return false;
            present[i] = true;
            given++;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        if (!present[i])
            return FAIL_AT(p, &start, DIAG_ir_missing, op_info[op].name, attr_name(schema[i].name));
    *attrs = attrs_make(p->ctx, values, n);
    return true;
}

/* ---- nodes and regions ------------------------------------------------------------------------------------------- */

static bool define_val(Parser *p, const Token *name, Val *val)
{
    void **slot = map_slot(p->vals, KEY(name->text));
    if (*slot)
        return FAIL_AT(p, name, DIAG_ir_redefined, "value", name->text);
    *slot = val;
    return true;
}

static bool parse_results(Parser *p)
{
    p->results.len = 0;
    while (p->token.kind == TOK_VALUE) {
        if (p->results.len == MAX_OPERANDS)
            return FAIL(p, DIAG_ir_limit, "results of a node", (long long)MAX_OPERANDS);
        vec_push(p->scratch, &p->results, p->token);
        advance(p);
        if (!accept_punct(p, ','))
            return expect_punct(p, '=');
        if (p->token.kind != TOK_VALUE)
            return fail_expected(p, "a value %name");
    }
    return true;
}

static bool parse_operands(Parser *p)
{
    p->operands.len = 0;
    while (p->token.kind == TOK_VALUE || at_word(p, "_")) {
        Val *val = p->token.kind == TOK_VALUE ? map_get(p->vals, KEY(p->token.text)) : NULL;
        if (p->token.kind == TOK_VALUE && !val)
            return FAIL(p, DIAG_ir_unknown, "value in this region", p->token.text);
        if (p->operands.len == MAX_OPERANDS)
            return FAIL(p, DIAG_ir_limit, "operands of a node", (long long)MAX_OPERANDS);
        vec_push(p->scratch, &p->operands, val);
        advance(p);
        if (!accept_punct(p, ','))
            return true;
        if (p->token.kind != TOK_VALUE && !at_word(p, "_"))
            return fail_expected(p, "an operand %name or _");
    }
    return true;
}

static bool parse_result_types(Parser *p)
{
    p->types.len = 0;
    for (uint32_t i = 0; i < p->results.len; i++) {
        const Type *type;
        if (!expect_punct(p, i ? ',' : ':') || !parse_type(p, &type))
            return false;
        vec_push(p->scratch, &p->types, type);
    }
    return true;
}

static bool parse_region(Parser *p, Region *region);

static bool parse_node(Parser *p, Region *region)
{
    Loc loc = loc_of(p, &p->token);
    const Attrs *attrs = NULL;
    if (!parse_results(p))
        return false;
    if (p->token.kind != TOK_NAME)
        return fail_expected(p, "an op");
    Op op = op_from_name(p->token.text);
    if (op == OP_COUNT)
        return FAIL(p, DIAG_ir_unknown, "op", p->token.text);
    advance(p);
    if (!parse_operands(p) || !parse_attrs(p, op, &attrs) || !parse_result_types(p))
        return false;
    if (accept_word(p, "loc") && (!expect_punct(p, '(') || !parse_loc_body(p, &loc) || !expect_punct(p, ')')))
        return false;
    Builder b = ir_at_end(region, loc);
    Node *node = ir_emit(&b, op, p->operands.data, p->operands.len, attrs, p->types.data, p->results.len);
    for (uint32_t i = 0; i < node->n_out; i++)
        if (!define_val(p, &p->results.data[i], &node->out[i]))
            return false;
    while (at_punct(p, '{')) {
        if (node->n_region == UINT16_MAX)
            return FAIL(p, DIAG_ir_limit, "regions of a node", (long long)UINT16_MAX);
        if (!parse_region(p, ir_add_region(node)))
            return false;
    }
    return true;
}

static bool parse_nodes(Parser *p, Region *region)
{
    while (!accept_punct(p, '}'))
        if (!parse_node(p, region))
            return false;
    return true;
}

static bool parse_region(Parser *p, Region *region)
{
    Map *outer = p->vals;
    p->vals = map_create(p->scratch);
    if (++p->nesting > IR_MAX_NESTING)
        return FAIL(p, DIAG_ir_limit, "nested regions", (long long)IR_MAX_NESTING);
    if (!expect_punct(p, '{') || !expect_punct(p, '('))
        return false;
    while (!accept_punct(p, ')')) {
        Token name;
        const Type *type;
        if (region->params.len && !expect_punct(p, ','))
            return false;
        name = p->token;
        if (name.kind != TOK_VALUE)
            return fail_expected(p, "a parameter %name");
        advance(p);
        if (!parse_colon_type(p, &type) || !define_val(p, &name, region_param(region, type)))
            return false;
    }
    if (!parse_nodes(p, region))
        return false;
    p->nesting--;
    p->vals = outer;
    return true;
}

/* ---- declarations ------------------------------------------------------------------------------------------------ */

static bool parse_func_params(Parser *p, Func *func)
{
    if (!expect_punct(p, '('))
        return false;
    while (!accept_punct(p, ')')) {
        const Type *type;
        Str text = str_intern(p->ctx, "");
        if (func->body->params.len && !expect_punct(p, ','))
            return false;
        Token name = p->token;
        if (name.kind != TOK_VALUE)
            return fail_expected(p, "a parameter %name");
        advance(p);
        if (!parse_colon_type(p, &type))
            return false;
        if (p->token.kind == TOK_STRING)
            expect_text(p, TOK_STRING, "", &text);
        if (!define_val(p, &name, func_param(func, text, type)))
            return false;
    }
    return true;
}

static bool parse_func(Parser *p)
{
    VEC(Str) outs = {0};
    Str name;
    Func *func = p->token.kind == TOK_SYMBOL ? module_find_func(p->module, p->token.text) : NULL;
    if (func && map_has(p->parsed, KEY(func)))
        return FAIL(p, DIAG_ir_redefined, "function", p->token.text);
    if (!func)
        return fail_expected(p, "a function @name");
    map_slot(p->parsed, KEY(func));
    advance(p);
    p->vals = map_create(p->scratch);
    if (!parse_func_params(p, func))
        return false;
    if (p->token.kind != TOK_ARROW)
        return fail_expected(p, "'->'");
    advance(p);
    if (!expect_punct(p, '('))
        return false;
    while (!accept_punct(p, ')')) {
        if ((outs.len && !expect_punct(p, ',')) || !expect_text(p, TOK_STRING, "an output name", &name))
            return false;
        vec_push(p->scratch, &outs, name);
    }
    if (!expect_punct(p, '{') || !parse_nodes(p, func->body))
        return false;
    if (outs.len != func_n_out(func))
        return FAIL_LAST(p, DIAG_ir_value, "function", func->name,
                         arena_printf(p->scratch, "it names %u outputs and yields %u", (unsigned)outs.len,
                                      (unsigned)func_n_out(func)));
    func->out_names = arena_copy(p->module->arena, outs.data, outs.len * sizeof(Str));
    return true;
}

static bool parse_sym(Parser *p)
{
    int64_t lo, hi;
    Str name;
    if (!parse_name(p, "a symbol", &name))
        return false;
    if (module_find_sym(p->module, name))
        return FAIL_LAST(p, DIAG_ir_redefined, "symbol", name);
    if (!expect_word(p, "in") || !expect_punct(p, '[') || !parse_s64(p, &lo) || !expect_punct(p, ',') ||
        !parse_s64(p, &hi))
        return false;
    if (lo < 0 || hi < lo)
        return FAIL_LAST(p, DIAG_ir_value, "range of symbol", name, "expected 0 <= low <= high");
    if (!expect_punct(p, ']'))
        return false;
    bool unbacked = accept_word(p, "unbacked");
    if (unbacked && lo > 0)
        return FAIL_LAST(p, DIAG_ir_value, "range of symbol", name, "expected low = 0: a run may find nothing");
    module_sym(p->module, name, lo, hi)->unbacked = unbacked;
    return true;
}

static bool parse_meta(Parser *p)
{
    Str key, value;
    if (!expect_text(p, TOK_STRING, "a key", &key) || !expect_text(p, TOK_STRING, "a value", &value))
        return false;
    vec_push(p->module->arena, &p->module->meta, key);
    vec_push(p->module->arena, &p->module->meta, value);
    return true;
}

static bool parse_loc_decl(Parser *p)
{
    uint32_t number;
    Loc loc;
    if (!expect_punct(p, '#') || !parse_u32(p, &number))
        return false;
    if (map_has(p->locs, number))
        return FAIL_LAST(p, DIAG_ir_redefined, "location", arena_printf(p->scratch, "#%u", (unsigned)number));
    if (!expect_punct(p, '=') || !parse_loc_body(p, &loc))
        return false;
    map_set(p->locs, number, (void *)((uintptr_t)loc + 1));
    return true;
}

static bool parse_state(Parser *p)
{
    Str name;
    const Type *type;
    if (!expect_text(p, TOK_SYMBOL, "a state @name", &name))
        return false;
    if (module_find_state(p->module, name))
        return FAIL_LAST(p, DIAG_ir_redefined, "state", name);
    if (!parse_colon_type(p, &type))
        return false;
    module_state(p->module, name, type);
    return true;
}

/* ---- weights --------------------------------------------------------------------------------------------------------- */

static bool parse_elem(Parser *p, DType dtype, void *data, uint64_t index)
{
    uint64_t bits;
    if (accept_word(p, "bits")) {
        if (!parse_hex(p, &bits))
            return false;
        elem_set_bits(dtype, data, index, bits);
        return true;
    }
    const char *text;
    if (!parse_number_text(p, "an element", &text))
        return false;
    return elem_from_text(dtype, text, data, index) ||
           FAIL_LAST(p, DIAG_ir_value, arena_printf(p->scratch, "%s element", dtype_name(dtype)), text,
                     "it is not of this type");
}

static bool parse_complex(Parser *p, DType part, void *data, uint64_t index)
{
    return expect_punct(p, '(') && parse_elem(p, part, data, 2 * index) && expect_punct(p, ',') &&
           parse_elem(p, part, data, 2 * index + 1) && expect_punct(p, ')');
}

static bool parse_elems(Parser *p, const Type *type, void *data, uint64_t count)
{
    bool complex = dtype_kind(type->dtype) == DK_COMPLEX;
    DType part = type->dtype == DT_C64 ? DT_F32 : type->dtype == DT_C128 ? DT_F64 : type->dtype;
    for (uint64_t i = 0; i < count; i++)
        if ((i && !expect_punct(p, ',')) || !(complex ? parse_complex : parse_elem)(p, part, data, i))
            return false;
    return expect_punct(p, ']');
}

static bool parse_hash(Parser *p, uint64_t *hash)
{
    return expect_punct(p, ',') && expect_word(p, "hash") && parse_hex(p, hash);
}

static bool fail_weight(Parser *p, Str name, const char *why) { return FAIL_LAST(p, DIAG_ir_weight, name, why); }

/* file "w.igw" @4096, hash 0x... */
static bool parse_file_weight(Parser *p, Str name, const Type *type, uint64_t bytes, Weight **weight)
{
    Str file, offset_text;
    int64_t offset = 0;
    uint64_t hash;
    if (!expect_text(p, TOK_STRING, "a file name", &file) ||
        !expect_text(p, TOK_SYMBOL, "@ and an offset", &offset_text) || !parse_hash(p, &hash))
        return false;
    if (!text_parse_s64(offset_text, &offset) || offset < 0)
        return fail_weight(p, name, "the offset is not a number");
    if (!ir_path_is_inside(file))
        return fail_weight(p, name,
                           "its file must lie in the folder of the .ig file: no absolute path, no '.' or '..'");
    Str path = str_intern(p->ctx, path_join(p->scratch, p->module->dir, file));
    Blob *blob = map_get(p->blobs, KEY(path));
    if (!blob) {
        blob = ARENA_NEW(p->scratch, Blob);
        if (!file_map(p->ctx, path, blob))
            return fail_weight(p, name, "its file cannot be read");
        map_set(p->blobs, KEY(path), blob);
    }
    if ((uint64_t)offset > blob->size || bytes > blob->size - (uint64_t)offset)
        return fail_weight(p, name, "its bytes lie past the end of its file");
    const uint8_t *data = blob->data + offset;
    *weight = module_weight(p->module, name, type, data, false);
    if ((*weight)->hash != hash)
        return fail_weight(p, name, "the content of its file does not have this hash");
    if ((*weight)->data == data) {
        (*weight)->file = path;
        (*weight)->file_offset = (uint64_t)offset;
    }
    return true;
}

/* memory, hash 0x...: a weight that a living module of the Context holds. */
static bool parse_memory_weight(Parser *p, Str name, const Type *type, Weight **weight)
{
    uint64_t hash;
    if (!parse_hash(p, &hash))
        return false;
    for (const Module *module = ir_ctx(p->ctx)->modules; module; module = module->index->next)
        for (uint32_t i = 0; i < module->weights.len && module != p->module; i++) {
            const Weight *held = module->weights.data[i];
            if (held->hash != hash || held->type != type)
                continue;
            *weight = module_weight(p->module, name, type, held->data, false);
            (*weight)->file = held->file;
            (*weight)->file_offset = held->file_offset;
            return true;
        }
    return fail_weight(p, name, "its content was not saved with this text");
}

static bool parse_inline_weight(Parser *p, Str name, const Type *type, uint64_t bytes, Weight **weight)
{
    uint64_t count = 0;
    if (!type_count(type, &count) || count > MAX_INLINE_ELEMENTS)
        return FAIL_LAST(p, DIAG_ir_limit, "elements of a weight in the text", (long long)MAX_INLINE_ELEMENTS);
    void *data = arena_alloc(p->module->arena, (size_t)bytes);
    if (!parse_elems(p, type, data, count))
        return false;
    *weight = module_weight(p->module, name, type, data, false);
    return true;
}

static bool parse_weight(Parser *p)
{
    Str name;
    const Type *type;
    Weight *weight = NULL;
    uint64_t bytes = 0;
    if (!expect_text(p, TOK_SYMBOL, "a weight @name", &name))
        return false;
    if (map_has(p->weights, KEY(name)))
        return FAIL_LAST(p, DIAG_ir_redefined, "weight", name);
    if (!parse_colon_type(p, &type) || !expect_punct(p, '='))
        return false;
    if (!type_bytes(type, &bytes) || bytes > SIZE_MAX)
        return fail_weight(p, name, "it needs a tensor type of known size, not of str");
    bool ok;
    if (accept_punct(p, '['))
        ok = parse_inline_weight(p, name, type, bytes, &weight);
    else if (accept_word(p, "file"))
        ok = parse_file_weight(p, name, type, bytes, &weight);
    else if (accept_word(p, "memory"))
        ok = parse_memory_weight(p, name, type, &weight);
    else
        ok = fail_expected(p, "[elements], file or memory");
    if (ok)
        map_set(p->weights, KEY(name), weight);
    return ok;
}

/* ---- modules --------------------------------------------------------------------------------------------------------- */

/* Creates the functions that the text declares outside of braces, in order. */
static void declare_funcs(Parser *p)
{
    Lexer start = p->lexer;
    int depth = 0;
    bool entry = false, func = false;
    for (Token token = lex_next(&p->lexer); token.kind != TOK_END; token = lex_next(&p->lexer)) {
        if (depth == 0 && func && token.kind == TOK_SYMBOL && !module_find_func(p->module, token.text))
            module_func(p->module, token.text, entry);
        bool word = token.kind == TOK_NAME;
        bool now_func = word && strcmp(token.text, "func") == 0;
        entry = word && ((now_func && entry) || strcmp(token.text, "entry") == 0);
        func = now_func;
        if (token.kind == TOK_PUNCT)
            depth += (token.punct == '{') - (token.punct == '}');
    }
    p->lexer = start;
}

static bool parse_decl(Parser *p)
{
    static const struct {
        const char *word;
        bool (*parse)(Parser *p);
    } decls[] = {{"sym", parse_sym},       {"meta", parse_meta},   {"loc", parse_loc_decl},
                 {"weight", parse_weight}, {"state", parse_state}, {"func", parse_func}};
    if (accept_word(p, "entry"))
        return expect_word(p, "func") && parse_func(p);
    for (size_t i = 0; i < IG_COUNT(decls); i++)
        if (accept_word(p, decls[i].word))
            return decls[i].parse(p);
    return fail_expected(p, "sym, meta, loc, weight, state, func or entry");
}

Module *ir_parse(Context *ctx, Str file, const char *text, size_t size)
{
    Arena *scratch = arena_create(ctx);
    text = size ? text : ""; /* an empty file has no address */
    Parser p = {.ctx = ctx,
                .module = module_create(ctx),
                .scratch = scratch,
                .lexer = {ctx, scratch, text, text + size, text, 1},
                .file = file,
                .weights = map_create(scratch),
                .parsed = map_create(scratch),
                .locs = map_create(scratch),
                .blobs = map_create(scratch)};
    p.module->dir = str_intern(ctx, path_dir(scratch, file));
    bool ok = size < UINT32_MAX || FAIL(&p, DIAG_ir_limit, "bytes of a text", (long long)UINT32_MAX);
    if (ok)
        declare_funcs(&p);
    for (advance(&p); ok && p.token.kind != TOK_END;)
        ok = parse_decl(&p);
    arena_destroy(scratch);
    if (ok)
        return p.module;
    module_destroy(p.module);
    return NULL;
}

Module *ir_load(Context *ctx, const char *path)
{
    Blob blob;
    if (!file_map(ctx, path, &blob))
        return NULL;
    Str file = str_intern(ctx, strcmp(path, "-") == 0 ? "<stdin>" : path);
    Module *module = ir_parse(ctx, file, (const char *)blob.data, (size_t)blob.size);
    if (module && !ir_verify(module)) {
        module_destroy(module);
        return NULL;
    }
    return module;
}
