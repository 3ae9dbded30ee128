/* SPDX-License-Identifier: Apache-2.0
 * Shared by the files of sched/ only. */
#ifndef IGATA_SCHED_INT_H
#define IGATA_SCHED_INT_H

#include "op/op.h"
#include "sched/sched.h"

/* sched.c */
Group *sched_group_of(const Schedule *s, const Node *node); /* NULL: inlined where it is used */
Storage *sched_storage_of(const Schedule *s, const Val *val); /* NULL: not materialised */
Storage *sched_storage_add(Schedule *s, const Val *val);      /* row-major; the existing one if there is */
void storage_set_order(Storage *st, const uint32_t *order);   /* dims from outermost to innermost; recomputes strides */
bool sched_is_inlined(const Node *node);                      /* MAP, INDEX or SOURCE: computable at any index */
bool sched_is_concat(const Node *node); /* a kernel of its own, which copies operands that are not computed in place */

/* fuse.c */
/* Fills s->groups in execution order. fused: groups grow; else one node a kernel. */
void sched_make_groups(Schedule *s, const PassOptions *options, bool fused);
/* Which axes of a group's results are rows (one trip of the row loops computes all content of a row) */
uint32_t group_row_axes(const Node *anchor); /* bit i: axis i is a row axis */

/* regions.c: values across the borders of regions */
/* Every value that enters or leaves a region in memory gets a node of its own that copies it there. */
void control_add_copies(Schedule *s, Region *body);
/* Gives results of if and loop, carried values and counters their storages. */
void control_bind(Schedule *s, const Region *region);
/* What a region's parameter stands for: itself (inputs, carried values, counters), or a value outside of the region. An element of
 * a scanned value also has the counter that picks it; else that is NULL. */
const Val *control_origin(const Val *val, const Val **counter);
/* The counter of the loop in whose stacked results this copy lies, or NULL. */
const Val *control_stack(const Node *copy);
/* Copies that come last in a trip: values for the next one, and elements of stacks. */
bool control_is_last(const Node *node);
bool control_is_found(const Node *node); /* gives a size to a symbol: a step without a kernel */
/* Reports loops that cannot be compiled. */
bool control_is_ready(Schedule *s, const Node *node);
bool control_is_true(const Val *val); /* known to be; absent: true */
Storage *control_word(Schedule *s, const Val *val); /* a condition or a trip count; NULL: known or absent */
/* The most trips; fixed: exactly so many; cut: the loop may need more, which is an error. */
int64_t control_trips(const Node *loop, bool *fixed, bool *cut);

/* views.c */
bool storage_is_view_at(const Storage *st, const Storage *base, int64_t at); /* st may be NULL */

/* plan.c */
void sched_find_lifetimes(Schedule *s); /* phases that touch each value, and what lives over a whole loop */

/* copies.c */
void sched_drop_copies(Schedule *s); /* removes kernels that would copy a value onto itself, or copy nothing */

/* window.c */
bool window_takes(Kernel *k, Stmt *list); /* a nest with 16 lanes on its innermost loop is one that becomes tiles of pixels */

/* nest.c: views of a kernel body that scheduling steps share */
enum { NEST_MAX_LOOPS = 16 };
typedef struct Nest { /* a perfect nest: loops from outermost, then a list of other statements */
    uint32_t n;
    Stmt *loop[NEST_MAX_LOOPS];
    Stmt *body;
} Nest;
Nest nest_of(Stmt *list); /* n = 0: the list is not a single loop */
bool loop_extent(const Stmt *loop, int64_t *extent); /* constant trip count of a loop from 0 with step 1 */
const Expr *loop_size(const Stmt *loop); /* the same as a number or a size of the run; NULL: neither */
const Expr *axis_end(Kernel *k, const FoldAxis *axis); /* its size, or its extent */
/* Calls visit on every expression of the list, nested statements included; stops when it returns false. */
bool stmts_each_expr(const Stmt *list, bool (*visit)(void *user, const Expr *e), void *user);
bool stmts_use_iter(const Stmt *list, const Iter *iter);
/* Calls visit on every memory access (loads, stores, puts) with its buffer and index list. */
typedef bool AccessFn(void *user, const Buf *buf, const Expr *const *index, bool is_store);
bool stmts_each_access(Arena *tmp, const Stmt *list, AccessFn *visit, void *user);
/* Whether one iteration of a loop over iter may touch what another one stores: true unless every buffer that `list` stores to and
 * reads, or stores to at computed indices, has an axis that all its accesses index alike, moving with iter. Local buffers are
 * left out if `own_locals`: each iteration has its own. */
bool loop_carries(Kernel *k, const Stmt *list, const Iter *iter, bool own_locals);
/* Merges neighbouring loops of a perfect nest where every access and guard allows it. True if anything changed. */
bool nest_merge(Kernel *k, Nest *nest);
/* Loop `at` of a perfect nest becomes two over all of outer and inner, from 0; value: of its iterator by theirs. There is room. */
void nest_split_at(Kernel *k, Nest *nest, uint32_t at, const Iter *outer, const Iter *inner, const Expr *value);
/* Of a perfect nest, a loop whose iterator the load's indices take apart by a divisor of its extent (quotient and remainder) becomes
 * two, in which they are linear. True if there was one. */
bool nest_split(Kernel *k, Nest *nest, const Expr *load);
Stmt *nest_rebuild(Kernel *k, const Nest *nest); /* loops back around the body */

#endif
