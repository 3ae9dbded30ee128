/* SPDX-License-Identifier: Apache-2.0
 *
 * Einsum-12. Operands are contracted from left to right: letters that occur nowhere else are summed away first, repeated
 * letters of one operand take its diagonal, the rest is one `dot` per step and a last transposition. An ellipsis stands for
 * axes that broadcast; it is expanded to letters of its own.
 */
#include "front/onnx/onnx_int.h"

#include <ctype.h>
#include <string.h>

enum { LETTERS = 64 + IR_MAX_RANK, ELLIPSIS = 64 }; /* letters A-Z a-z from 0 on, axes of the ellipsis from 64 on */
typedef struct Term {
    Val *val;
    uint32_t n;
    int label[IR_MAX_RANK];
} Term;
typedef struct Sum {
    OnnxNode *n;
    const Dim *size[LETTERS];
    uint32_t dots; /* axes of the longest ellipsis */
    Term out;
    bool has_out;
} Sum;

/* One term of the equation; dots: how many axes its ellipsis has. */
static bool parse_term(Sum *s, const char **at, uint32_t dots, Term *term)
{
    bool ellipsis = false;
    term->n = 0;
    for (; **at && **at != ',' && **at != '-'; (*at)++) {
        if (**at == ' ')
            continue;
        uint32_t add = 1;
        if (**at == '.') {
            if (strncmp(*at, "...", 3) != 0 || ellipsis)
                return node_bad(s->n, "Einsum: a term has dots that are no single ellipsis");
            *at += 2;
            ellipsis = true;
            add = dots;
        } else if (!isalpha((unsigned char)**at)) {
            return node_bad(s->n, "Einsum: '%c' in the equation is no letter", **at);
        }
        if (term->n + add > IR_MAX_RANK)
            return node_bad(s->n, "Einsum: a term has more than %d axes", IR_MAX_RANK);
        for (uint32_t i = 0; i < add; i++)
            term->label[term->n++] = ellipsis && **at == '.' ? ELLIPSIS + (int)(s->dots - add + i) : **at - 'A';
    }
    return true;
}

/* Letters of a term before its ellipsis is counted. */
static uint32_t letters_of(const char *at, bool *ellipsis)
{
    uint32_t count = 0;
    *ellipsis = false;
    for (; *at && *at != ',' && *at != '-'; at++) {
        count += isalpha((unsigned char)*at) != 0;
        *ellipsis |= *at == '.';
    }
    return count;
}

static bool is_one(const Dim *dim)
{
    int64_t size;
    return dim_is_const(dim, &size) && size == 1;
}

/* The sizes that a term's operand gives to its letters; those of an ellipsis broadcast. */
static bool take_sizes(Sum *s, const Term *term)
{
    if (term->n != val_rank(term->val))
        return node_bad(s->n, "Einsum: a term has %u axes, its operand has rank %u", term->n, val_rank(term->val));
    for (uint32_t a = 0; a < term->n; a++) {
        const Dim *dim = term->val->type->dim[a], **size = &s->size[term->label[a]];
        if (!*size || (is_one(*size) && term->label[a] >= ELLIPSIS))
            *size = dim;
        else if (dim_eq(*size, dim) != TRI_YES && !(is_one(dim) && term->label[a] >= ELLIPSIS))
            return node_bad(s->n, "Einsum: a letter has two sizes");
    }
    return true;
}

static int find_label(const Term *term, int label)
{
    for (uint32_t a = 0; a < term->n; a++)
        if (term->label[a] == label)
            return (int)a;
    return -1;
}

static bool parse(Sum *s, const char *equation, Term *terms)
{
    OnnxNode *n = s->n;
    const char *at = equation;
    uint32_t dots[64] = {0}, count = 0;
    for (const char *p = equation;; p++) { /* first the ellipses' lengths */
        bool ellipsis;
        uint32_t letters = letters_of(p, &ellipsis);
        if (count >= n->n_in || count >= IG_COUNT(dots) || !n->in[count])
            return node_bad(n, "Einsum: the equation has more terms than there are operands");
        if (ellipsis && letters > val_rank(n->in[count]))
            return node_bad(n, "Einsum: term %u has more letters than its operand axes", count);
        dots[count] = ellipsis ? val_rank(n->in[count]) - letters : 0;
        s->dots = dots[count] > s->dots ? dots[count] : s->dots;
        count++;
        p += strcspn(p, ",-");
        if (*p != ',')
            break;
    }
    if (count != n->n_in)
        return node_bad(n, "Einsum: the equation has %u terms, there are %u operands", count, n->n_in);
    for (uint32_t i = 0; i < count; i++) {
        terms[i].val = n->in[i];
        if (!parse_term(s, &at, dots[i], &terms[i]) || !take_sizes(s, &terms[i]))
            return false;
        at += *at == ',';
    }
    if (!*at)
        return true;
    if (strncmp(at, "->", 2) != 0)
        return node_bad(n, "Einsum: the equation '%s' is malformed", equation);
    at += 2;
    s->has_out = true;
    if (!parse_term(s, &at, s->dots, &s->out) || *at)
        return node_bad(n, "Einsum: the equation '%s' is malformed", equation);
    for (uint32_t a = 0; a < s->out.n; a++) {
        if (!s->size[s->out.label[a]])
            return node_bad(n, "Einsum: an output letter occurs in no term");
        if (find_label(&s->out, s->out.label[a]) != (int)a)
            return node_bad(n, "Einsum: an output letter is repeated");
    }
    return true;
}

/* Without "->": the ellipsis, then the letters that occur once, in alphabetical order. */
static void implicit_output(Sum *s, const Term *terms, uint32_t count)
{
    uint32_t seen[LETTERS] = {0};
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t a = 0; a < terms[i].n; a++)
            seen[terms[i].label[a]]++;
    for (uint32_t i = 0; i < s->dots; i++)
        s->out.label[s->out.n++] = ELLIPSIS + (int)i;
    for (int label = 0; label < ELLIPSIS; label++)
        if (seen[label] == 1 && s->out.n < IR_MAX_RANK)
            s->out.label[s->out.n++] = label;
}

/* Repeated letters: x[i,i] keeps where both indices agree, the second axis is then summed: exact, as one term is not 0. For
 * floats a select, so that no NaN of another place enters. */
static bool take_diagonals(Sum *s, Term *term)
{
    Builder *b = s->n->b;
    Context *c = s->n->ctx;
    for (uint32_t a = 1; a < term->n; a++) {
        int first = find_label(term, term->label[a]);
        if (first == (int)a)
            continue;
        const Dim *one = dim_const(c, 1), *rows[IR_MAX_RANK], *columns[IR_MAX_RANK];
        for (uint32_t i = 0; i < term->n; i++)
            rows[i] = columns[i] = one;
        rows[first] = term->val->type->dim[first];
        columns[a] = term->val->type->dim[a];
        AttrVal row[3] = {attr_dtype(DT_S64), attr_dims(rows, term->n), attr_int(first)};
        AttrVal column[3] = {attr_dtype(DT_S64), attr_dims(columns, term->n), attr_int(a)};
        Val *same = op_emit(b, OP_iota, NULL, 0, row, 3);
        same = op_binary(b, OP_eq, same, op_emit(b, OP_iota, NULL, 0, column, 3));
        DType dtype = term->val->type->dtype;
        Val *zero = dtype_is_float(dtype) ? op_const_f64(b, dtype, -0.0) : op_const_s64(b, dtype, 0);
        int64_t axis = a;
        term->val = op_squeeze_axes(b, op_reduce(b, op_select(b, same, term->val, zero), "sum", &axis, 1), &axis, 1);
        if (!term->val)
            return false;
        memmove(&term->label[a], &term->label[a + 1], (term->n - a - 1) * sizeof(int));
        term->n--;
        a--;
    }
    return true;
}

static bool needed(const Sum *s, const Term *rest, uint32_t n_rest, int label)
{
    bool found = find_label(&s->out, label) >= 0;
    for (uint32_t i = 0; i < n_rest && !found; i++)
        found = find_label(&rest[i], label) >= 0;
    return found;
}

/* Sums away what neither the output nor the other operands have. */
static bool sum_alone(const Sum *s, Term *term, const Term *rest, uint32_t n_rest)
{
    int64_t axes[IR_MAX_RANK];
    uint32_t count = 0, kept = 0;
    for (uint32_t a = 0; a < term->n; a++) {
        if (!needed(s, rest, n_rest, term->label[a]))
            axes[count++] = a;
        else
            term->label[kept++] = term->label[a];
    }
    term->n = kept;
    if (count)
        term->val = op_squeeze_axes(s->n->b, op_reduce(s->n->b, term->val, "sum", axes, count), axes, count);
    return term->val != NULL;
}

/* An ellipsis axis of size 1 that must be as wide as the others is stretched. */
static bool stretch(const Sum *s, Term *term)
{
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < term->n; a++)
        dims[a] = s->size[term->label[a]];
    term->val = op_broadcast(s->n->b, term->val, term->n, dims);
    return term->val != NULL;
}

static bool contract(const Sum *s, Term *x, const Term *y, const Term *rest, uint32_t n_rest)
{
    int64_t lb[IR_MAX_RANK], rb[IR_MAX_RANK], lc[IR_MAX_RANK], rc[IR_MAX_RANK];
    uint32_t nb = 0, nc = 0;
    Term out = {0};
    for (uint32_t a = 0; a < x->n; a++) {
        int other = find_label(y, x->label[a]);
        if (other < 0)
            continue;
        if (needed(s, rest, n_rest, x->label[a])) {
            lb[nb] = a;
            rb[nb++] = other;
            out.label[out.n++] = x->label[a];
        } else {
            lc[nc] = a;
            rc[nc++] = other;
        }
    }
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t a = 0; a < (side ? y->n : x->n); a++) {
            int label = side ? y->label[a] : x->label[a];
            if (find_label(side ? x : y, label) >= 0)
                continue;
            if (out.n == IR_MAX_RANK)
                return node_bad(s->n, "Einsum: an intermediate result has more than %d axes", IR_MAX_RANK);
            out.label[out.n++] = label;
        }
    out.val = op_dot(s->n->b, x->val, y->val, lb, rb, nb, lc, rc, nc);
    *x = out;
    return out.val != NULL;
}

bool import_einsum(OnnxNode *n)
{
    Sum s = {.n = n};
    Term *terms = arena_array(n->im->arena, n->n_in + 1, sizeof *terms);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->type->kind != TY_TENSOR)
            return node_bad(n, "Einsum: operand %u is absent", i);
    if (!parse(&s, na_str(n, "equation", ""), terms))
        return false;
    if (!s.has_out)
        implicit_output(&s, terms, n->n_in);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!stretch(&s, &terms[i]) || !take_diagonals(&s, &terms[i]))
            return false;
    for (uint32_t i = 0; i < n->n_in; i++) { /* alone: in no other operand, before or after */
        Term *others = arena_array(n->im->arena, n->n_in + 1, sizeof *others);
        uint32_t count = 0;
        for (uint32_t k = 0; k < n->n_in; k++)
            if (k != i)
                others[count++] = terms[k];
        if (!sum_alone(&s, &terms[i], others, count))
            return false;
    }
    Term *x = &terms[0];
    for (uint32_t i = 1; i < n->n_in; i++)
        if (!contract(&s, x, &terms[i], terms + i + 1, n->n_in - i - 1))
            return false;
    if (n->n_in == 1 && !sum_alone(&s, x, NULL, 0))
        return false;
    int64_t perm[IR_MAX_RANK];
    if (x->n != s.out.n)
        return node_bad(n, "Einsum: the output's letters are not those left");
    for (uint32_t a = 0; a < s.out.n; a++)
        perm[a] = find_label(x, s.out.label[a]);
    return node_done(n, op_transpose(n->b, x->val, perm));
}
