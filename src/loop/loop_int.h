/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of loop/ share: raw (unsimplified) expression nodes and the linear form of index expressions.
 */
#ifndef IGATA_LOOP_INT_H
#define IGATA_LOOP_INT_H

#include "loop/loop.h"

__extension__ typedef __int128 Wide;

enum { LIN_MAX_TERMS = 64 };

/* c + sum of coef * atom. Arithmetic on it is modulo 2^64 like the expressions it stands for; whoever divides asks
 * lin_range first, which fails if the exact sum might leave s64. */
typedef struct Lin {
    int64_t c;
    uint32_t n;
    struct {
        int64_t coef;
        const Expr *atom;
    } term[LIN_MAX_TERMS];
} Lin;

/* kernel_build.c: the one stored node equal to `proto` (its id is ignored; args are copied). */
const Expr *expr_intern(Kernel *k, const Expr *proto, const Expr *const *args);
/* A total order by content, which does not depend on creation order (so that a parsed kernel orders sums alike). */
int expr_compare(const Expr *a, const Expr *b);
/* The name, or the name with a number, so that no two things of the kernel share it. */
Str kernel_unique_name(Kernel *k, const char *name, const char *fallback);
/* index_form.c */
void lin_from(const Expr *e, Lin *lin);
void lin_add_expr(Kernel *k, Lin *lin, const Expr *e, int64_t factor);
bool lin_range(const Lin *lin, int64_t *lo, int64_t *hi);
const Expr *lin_expr(Kernel *k, Lin *lin);
int64_t floor_div(int64_t a, int64_t b); /* b > 0 */
int64_t floor_mod(int64_t a, int64_t b); /* b > 0; in [0, b) */
/* q holds wherever p does; false if unknown. */
bool pred_implies(Kernel *k, const Expr *p, const Expr *q);

/* kernel_text.c */
const char *fold_kind_name(FoldKind kind);
const char *fold_form_name(FoldForm form);
const char *bind_name(Bind bind);
const char *space_name(BufSpace space);
void expr_print(Text *text, const Kernel *k, const Expr *e);

/* kernel_check.c: operand and result types of a MAP node; on failure `why` says what is wrong. */
bool map_types_match(Op op, DType dtype, const Expr *const *args, uint32_t n, const char **why);
bool cast_types_match(DType to, DType from);

/* prove.c: consequences of predicates that hold, for the verifier. */
typedef struct Facts {
    VEC(Lin *) positive; /* each is >= 0 wherever the facts hold */
} Facts;
void facts_add(Kernel *k, Arena *arena, Facts *facts, const Expr *pred, bool holds);
/* True only if e >= 0 at every point where the facts hold. */
bool facts_prove(Kernel *k, const Facts *facts, const Expr *e);

static inline int64_t wrap_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t wrap_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

#endif
