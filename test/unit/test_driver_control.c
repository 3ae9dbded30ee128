/* SPDX-License-Identifier: Apache-2.0
 * Branches and loops through the whole driver: the bits of the reference evaluator at every level and without any one pass, on one
 * and several threads, for several conditions and trip counts; steps of control that do not nest are refused; loops end. */
#include "support/artifact_run.h"
#include "support/tensors.h"
#include "art/format.h"
#include "igata_rt.h"
#include "support/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_IO = 16, ROUNDS = 4 };

typedef struct Case {
    const char *name, *text;
} Case;

/* clang-format off */
static const Case cases[] = {
    /* a loop in a branch in a loop in a branch; a captured constant; a value for the next trip that is another carried one */
    {"nested",
     "weight @yes : bool[] = [true]\n"
     "weight @two : f32[1] = [2]\nweight @three : s64[] = [3]\nweight @four : s64[] = [4]\nweight @one : s64[] = [1]\n"
     "entry func @main(%c : bool[] \"c\", %d : bool[] \"d\", %x : f32[4] \"x\", %z : f32[4] \"z\") -> (\"y\", \"w\") {\n"
     "  %two = const {weight=@two} : f32[1] %three = const {weight=@three} : s64[] %four = const {weight=@four} : s64[]\n"
     "  %x2 = add %x, %z : f32[4]\n"
     "  %y, %w = if %c, %d, %x2, %z, %two, %three, %four : f32[4], f32[4] {\n"
     "    (%d1 : bool[], %x1 : f32[4], %z1 : f32[4], %two1 : f32[1], %three1 : s64[], %four1 : s64[])\n"
     "    %p, %q = loop %three1, _, %x1, %z1, %d1, %two1, %four1 {n_carried=2, n_scanned=0} : f32[4], f32[4] {\n"
     "      (%i : s64[], %a : f32[4], %b : f32[4], %d2 : bool[], %two2 : f32[1], %four2 : s64[])\n"
     "      %oddi = cast %i {dtype=f32} : f32[] %odd = reshape %oddi {shape=[1]} : f32[1]\n"
     "      %isod1 = lt %odd, %two2 : bool[1] %isodd = reshape %isod1 {shape=[]} : bool[]\n"
     "      %both = and %isodd, %d2 : bool[]\n"
     "      %e = if %both, %a, %four2, %odd : f32[4] {\n"
     "        (%a3 : f32[4], %four3 : s64[], %o3 : f32[1])\n"
     "        %r = loop %four3, _, %a3, %o3 {n_carried=1, n_scanned=0} : f32[4] {\n"
     "          (%j : s64[], %a4 : f32[4], %o4 : f32[1]) %t0 = cast %j {dtype=f32} : f32[] %t = reshape %t0 {shape=[1]} : f32[1] %u = add %t, %o4 : f32[1] %s = mul %a4, %u : f32[4]\n"
     "          %v = add %s, %a4 : f32[4] %t91 = const {weight=@yes} : bool[] yield %t91, %v }\n"
     "        yield %r\n"
     "      } { (%a5 : f32[4], %four5 : s64[], %o5 : f32[1]) %n = neg %a5 : f32[4] yield %n }\n"
     "      %m = mul %e, %two2 : f32[4]\n"
     "      %t92 = const {weight=@yes} : bool[] yield %t92, %b, %m\n"
     "    }\n"
     "    yield %p, %q\n"
     "  } { (%d6 : bool[], %x6 : f32[4], %z6 : f32[4], %two6 : f32[1], %three6 : s64[], %four6 : s64[])\n"
     "    %sum = mul %x6, %two6 : f32[4] yield %sum, %sum }\n"
     "  %y2 = add %y, %x2 : f32[4]\n"
     "  yield %y2, %w\n}\n"},
    /* trips by an input, an entry condition, a condition that is carried, and one that is computed */
    {"while",
     "weight @hundred : f32[] = [100]\n"
     "entry func @main(%n : s64[] \"n\", %go : bool[] \"go\", %x : f32[] \"x\", %v : f32[3] \"v\") -> (\"y\", \"c\", \"w\", \"t\") {\n"
     "  %hundred = const {weight=@hundred} : f32[]\n"
     "  %y, %c = loop %n, %go, %x, %go, %hundred {n_carried=2, n_scanned=0} : f32[], bool[] {\n"
     "    (%i : s64[], %a : f32[], %on : bool[], %top : f32[])\n"
     "    %b = add %a, %a : f32[] %less = lt %b, %top : bool[] yield %on, %b, %less }\n"
     "  %w, %t = loop %n, _, %v, %n, %hundred {n_carried=2, n_scanned=0} : f32[3], s64[] {\n"
     "    (%i : s64[], %a : f32[3], %k : s64[], %top : f32[])\n"
     "    %f0 = cast %i {dtype=f32} : f32[] %f = reshape %f0 {shape=[1]} : f32[1] %b = add %a, %f : f32[3] %s = reduce %b {axes=[0], kind=\"sum\"} : f32[1] %s0 = reshape %s {shape=[]} : f32[]\n"
     "    %less = lt %s0, %top : bool[] yield %less, %b, %i }\n"
     "  yield %y, %c, %w, %t\n}\n"},
    /* a recurrent cell: scanned input and weight, a stack of what is computed, of what is carried and of a constant; a stack that a
     * contraction reads; trips of an inner loop over what an outer one scans */
    {"scan",
     "weight @yes : bool[] = [true]\n"
     "weight @u : f32[8,8] = [0.1, -0.2, 0.3, 0.1, 0.5, -0.1, 0.2, 0.1, -0.1, 0.2, 0.3, 0.4, 0.1, 0.2, -0.3, 0.1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, "
     "0.7, 0.8, 0.1, -0.2, 0.3, 0.1, 0.5, -0.1, 0.2, 0.1, -0.1, 0.2, 0.3, 0.4, 0.1, 0.2, -0.3, 0.1, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, "
     "0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.1, -0.2, 0.3, 0.1, 0.5, -0.1, 0.2, 0.1]\n"
     "weight @b : f32[6,8] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, "
     "3, 4, 5, 6, 7, 8, 9, 1, 2]\n"
     "weight @k : f32[3] = [5, 6, 7]\n"
     "entry func @main(%x : f32[6,2,8] \"x\", %h : f32[2,8] \"h\") -> (\"last\", \"all\", \"before\", \"same\", \"d\", \"p\") {\n"
     "  %b = const {weight=@b} : f32[6,8]\n"
     "  %u = const {weight=@u} : f32[8,8]\n"
     "  %last, %all, %before, %same, %part = loop _, _, %h, %x, %b, %u {n_carried=1, n_scanned=2} : f32[2,8], f32[6,2,8], f32[6,2,8], "
     "f32[6,3], f32[6,8] {\n"
     "    (%i : s64[], %s : f32[2,8], %xt : f32[2,8], %bt : f32[8], %w : f32[8,8])\n"
     "    %m = dot %s, %w {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[2,8]\n"
     "    %a = add %m, %xt : f32[2,8] %bb = reshape %bt {shape=[1,8]} : f32[1,8] %c = add %a, %bb : f32[2,8] %t = tanh %c : f32[2,8]\n"
     "    %k = const {weight=@k} : f32[3]\n"
     "    %z, %rows = loop _, _, %bt, %xt {n_carried=1, n_scanned=1} : f32[8], f32[2] {\n"
     "      (%j : s64[], %acc : f32[8], %row : f32[8]) %o = add %acc, %row : f32[8] %q = reduce %o {axes=[0], kind=\"sum\"} : f32[1]\n"
     "      %q0 = reshape %q {shape=[]} : f32[] %t93 = const {weight=@yes} : bool[] yield %t93, %o, %q0 }\n"
     "    %t94 = const {weight=@yes} : bool[] yield %t94, %t, %t, %s, %k, %z\n"
     "  }\n"
     "  %all2 = reshape %all {shape=[12,8]} : f32[12,8]\n"
     "  %d = dot %all2, %u {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[12,8]\n"
     "  %p = relu %part : f32[6,8]\n"
     "  yield %last, %all, %before, %same, %d, %p\n}\n"},
    /* nothing to compute, no trip, an output that is a loop's input, one loop after another in each other's places */
    {"edges",
     "weight @yes : bool[] = [true]\n"
     "weight @none : s64[] = [0]\nweight @few : s64[] = [3]\nweight @no : bool[] = [false]\n"
     "entry func @main(%x : f32[2,5] \"x\", %e : f32[0,5] \"e\", %n : s64[] \"n\") -> (\"a\", \"b\", \"c\", \"d\", \"i\", \"s\") {\n"
     "  %none = const {weight=@none} : s64[] %few = const {weight=@few} : s64[] %no = const {weight=@no} : bool[]\n"
     "  %a = loop %none, _, %x {n_carried=1, n_scanned=0} : f32[2,5] {\n"
     "    (%i : s64[], %s : f32[2,5]) %t = exp %s : f32[2,5] %t95 = const {weight=@yes} : bool[] yield %t95, %t }\n"
     "  %b = loop %few, _, %a, %x {n_carried=1, n_scanned=0} : f32[2,5] {\n"
     "    (%i : s64[], %s : f32[2,5], %x1 : f32[2,5]) %t = add %s, %x1 : f32[2,5] %t96 = const {weight=@yes} : bool[] yield %t96, %t }\n"
     "  %c = loop %few, _, %b {n_carried=1, n_scanned=0} : f32[2,5] { (%i : s64[], %s : f32[2,5]) %t97 = const {weight=@yes} : bool[] yield %t97, %s }\n"
     "  %d, %s = loop _, _, %x, %e {n_carried=1, n_scanned=1} : f32[2,5], f32[0,5] {\n"
     "    (%i : s64[], %q : f32[2,5], %r : f32[5]) %t = add %q, %q : f32[2,5] %t98 = const {weight=@yes} : bool[] yield %t98, %t, %r }\n"
     "  %i = loop %n, %no, %n {n_carried=1, n_scanned=0} : s64[] { (%j : s64[], %q : s64[]) %t99 = const {weight=@yes} : bool[] yield %t99, %j }\n"
     "  yield %a, %b, %c, %d, %i, %s\n}\n"},
    /* no trip, or one, because a condition is false and not because of the bound for loops without a trip count */
    {"once",
     "weight @no : bool[] = [false]\n"
     "entry func @main(%x : f32[3] \"x\") -> (\"a\", \"b\") {\n"
     "  %no = const {weight=@no} : bool[]\n"
     "  %a = loop _, _, %x {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %s : f32[3]) %t = neg %s : f32[3] %f = const {weight=@no} : bool[] yield %f, %t }\n"
     "  %b = loop _, %no, %x {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %s : f32[3]) %t = neg %s : f32[3] %f = const {weight=@no} : bool[] yield %f, %t }\n"
     "  yield %a, %b\n}\n"},
    /* the run decides how much is stacked: by a trip count, by a condition, or both; all that may read such a value, a second loop among it */
    {"found",
     "sym u0 in [0, 7] unbacked\nsym u1 in [0, 9] unbacked\nsym u2 in [0, 7] unbacked\n"
     "weight @yes : bool[] = [true]\nweight @few : f32[] = [5]\n"
     "weight @w : f32[4,3] = [0.1, -0.2, 0.3, 0.1, 0.5, -0.1, 0.2, 0.1, -0.1, 0.2, 0.3, 0.4]\n"
     "entry func @main(%n : s64[] \"n\", %go : bool[] \"go\", %x : f32[4] \"x\") -> (\"a\", \"b\", \"c\", \"s\", \"t\", \"d\", \"f\", \"m\", \"r\", \"e\", \"z\", \"g\", \"am\", \"al\") {\n"
     "  %few = const {weight=@few} : f32[] %w = const {weight=@w} : f32[4,3]\n"
     "  %l, %a, %i4 = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[4], f32[u0,4], s64[u0] {\n"
     "    (%i : s64[], %p : f32[4]) %q = add %p, %p : f32[4] %t1 = const {weight=@yes} : bool[] yield %t1, %q, %q, %i }\n"
     "  %k, %b = loop _, %go, %x, %few {n_carried=1, n_scanned=0} : f32[4], f32[u1,4] {\n"
     "    (%i : s64[], %p : f32[4], %top : f32[]) %f0 = cast %i {dtype=f32} : f32[] %f1 = reshape %f0 {shape=[1]} : f32[1] %q = add %p, %f1 : f32[4]\n"
     "    %on = lt %f0, %top : bool[] yield %on, %q, %p }\n"
     "  %c = concat %a, %b {axis=0} : f32[u0 + u1,4]\n"
     "  %s = reduce %a {axes=[0], kind=\"sum\"} : f32[1,4]\n"
     "  %t = transpose %a {perm=[1,0]} : f32[4,u0]\n"
     "  %d = dot %a, %w {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[u0,3]\n"
     "  %g = dot %a, %a {lhs_batch=[], lhs_contract=[0], rhs_batch=[], rhs_contract=[0]} : f32[4,4]\n"
     "  %am = argreduce %a {axis=0, kind=\"max\", last=false} : s64[1,4] %al = argreduce %a {axis=0, kind=\"min\", last=true} : s64[1,4]\n"
     "  %f = reshape %a {shape=[4*u0]} : f32[4*u0]\n"
     "  %m = dimval {dim=u0 + 2*u1} : s64[]\n"
     "  %r, %e = loop _, _, %x, %a, %i4 {n_carried=1, n_scanned=2} : f32[4], f32[u0] {\n"
     "    (%i : s64[], %p : f32[4], %row : f32[4], %j : s64[]) %q = mul %p, %row : f32[4]\n"
     "    %z, %in = loop %j, _, %q {n_carried=1, n_scanned=0} : f32[4], f32[u2,4] {\n"
     "      (%h : s64[], %g : f32[4]) %o = add %g, %g : f32[4] %t2 = const {weight=@yes} : bool[] yield %t2, %o, %o }\n"
     "    %v = reduce %in {axes=[0,1], kind=\"sum\"} : f32[1,1] %v0 = reshape %v {shape=[]} : f32[]\n"
     "    %t3 = const {weight=@yes} : bool[] yield %t3, %z, %v0 }\n"
     "  %z = if %go, %a : f32[u0,4] { (%p : f32[u0,4]) %y = relu %p : f32[u0,4] yield %y } { (%p : f32[u0,4]) %y = neg %p : f32[u0,4] yield %y }\n"
     "  yield %a, %b, %c, %s, %t, %d, %f, %m, %r, %e, %z, %g, %am, %al\n}\n"},
    /* one size found by several loops of one trip count, at the top and in a region, read before, between and behind them; a trip count
     * that is such a size; a loop that runs for its size alone, around one that finds another */
    {"shared",
     "sym u0 in [0, 8] unbacked\nsym u1 in [0, 8] unbacked\nsym u2 in [0, 8] unbacked\nsym u3 in [0, 7] unbacked\n"
     "weight @yes : bool[] = [true]\n"
     "entry func @main(%n : s64[] \"n\", %go : bool[] \"go\", %x : f32[3] \"x\") -> (\"a\", \"b\", \"c\", \"d\", \"e\", \"g\", \"m\") {\n"
     "  %i1, %s1 = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[3], f32[u0,3] { (%i : s64[], %p : f32[3]) %q = add %p, %p : f32[3] %t1 = const {weight=@yes} : bool[] yield %t1, %q, %q }\n"
     "  %a = dimval {dim=u0+1} : s64[]\n"
     "  %i2, %s2 = loop %n, _, %x, %s1 {n_carried=1, n_scanned=0} : f32[3], f32[u0,3] { (%i : s64[], %p : f32[3], %z : f32[u0,3]) %q = mul %p, %p : f32[3] %t1 = const {weight=@yes} : bool[] yield %t1, %q, %p }\n"
     "  %b = add %s1, %s2 : f32[u0,3]\n"
     "  %k = dimval {dim=u0} : s64[]\n"
     "  %i3, %s3 = loop %k, _, %x, %s2 {n_carried=1, n_scanned=0} : f32[3], f32[u0,3] { (%i : s64[], %p : f32[3], %z : f32[u0,3]) %r = reduce %z {axes=[0], kind=\"sum\"} : f32[1,3]\n"
     "    %r1 = reshape %r {shape=[3]} : f32[3] %q = sub %p, %r1 : f32[3] %t1 = const {weight=@yes} : bool[] yield %t1, %q, %q }\n"
     "  %c = sub %s3, %b : f32[u0,3]\n"
     "  %d, %e = loop %n, %go, %x, %n {n_carried=1, n_scanned=0} : f32[3], f32[u1,3] { (%i : s64[], %p : f32[3], %h : s64[])\n"
     "    %j1, %w1 = loop %h, _, %p {n_carried=1, n_scanned=0} : f32[3], f32[u2,3] { (%j : s64[], %o : f32[3]) %q = add %o, %o : f32[3] %t1 = const {weight=@yes} : bool[] yield %t1, %q, %q }\n"
     "    %j2, %w2 = loop %h, _, %p {n_carried=1, n_scanned=0} : f32[3], f32[u2,3] { (%j : s64[], %o : f32[3]) %q = neg %o : f32[3] %t1 = const {weight=@yes} : bool[] yield %t1, %q, %q }\n"
     "    %f = mul %w1, %w2 : f32[u2,3] %s = reduce %f {axes=[0], kind=\"max\"} : f32[1,3] %v = reshape %s {shape=[3]} : f32[3]\n"
     "    %t2 = const {weight=@yes} : bool[] yield %t2, %v, %v }\n"
     "  %k4, %s4 = loop %n, %go, %x, %n {n_carried=1, n_scanned=0} : f32[3], f32[u3,3] { (%i : s64[], %p : f32[3], %h : s64[]) %t1 = const {weight=@yes} : bool[] yield %t1, %p, %p }\n"
     "  %m = dimval {dim=2*u3} : s64[]\n"
     "  %g = if %go, %s1, %n : f32[u0,3] { (%p0 : f32[u0,3], %h : s64[])\n"
     "    %j1, %w1 = loop %h, _, %h {n_carried=1, n_scanned=0} : s64[], s64[u0] { (%j : s64[], %o : s64[]) %t1 = const {weight=@yes} : bool[] yield %t1, %o, %j }\n"
     "    %w2 = cast %w1 {dtype=f32} : f32[u0] %w3 = reshape %w2 {shape=[u0,1]} : f32[u0,1] %p = add %p0, %w3 : f32[u0,3] %l = dimval {dim=u0} : s64[] %f0 = cast %l {dtype=f32} : f32[] %f1 = reshape %f0 {shape=[1,1]} : f32[1,1] %y = mul %p, %f1 : f32[u0,3] yield %y } { (%p : f32[u0,3], %h : s64[]) yield %p }\n"
     "  yield %a, %b, %c, %d, %e, %g, %m\n}\n"},
    /* indices into what a loop stacks, which may be nothing: by value, from the end, through other moves, written to, sorted */
    {"picked",
     "sym u0 in [0, 8] unbacked\n"
     "weight @yes : bool[] = [true]\nweight @i : s64[2] = [-1, 1]\nweight @p : s64[2,2] = [0, 3, -2, -1]\nweight @r : s64[2,1] = [-1, 0]\n"
     "weight @e : s64[2,4] = [0, 1, -1, 1, 0, 0, 1, 1]\nweight @u : f32[2,4] = [1, 2, 3, 4, 5, 6, 7, 8]\nweight @z : f32[1,4] = [9, 8, 7, 6]\n"
     "entry func @main(%n : s64[] \"n\", %x : f32[4] \"x\") -> (\"g\", \"h\", \"k\", \"d\", \"l\", \"s\", \"t\", \"m\", \"tv\", \"ti\", \"a\", \"q\") {\n"
     "  %i = const {weight=@i} : s64[2] %p = const {weight=@p} : s64[2,2] %r = const {weight=@r} : s64[2,1] %e = const {weight=@e} : s64[2,4]\n"
     "  %u = const {weight=@u} : f32[2,4] %z = const {weight=@z} : f32[1,4]\n"
     "  %y, %a = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[4], f32[u0,4] {\n"
     "    (%j : s64[], %b : f32[4]) %c = neg %b : f32[4] %v = add %c, %c : f32[4] %t1 = const {weight=@yes} : bool[] yield %t1, %v, %c }\n"
     "  %g = gather %a, %i {axis=0, batch=0} : f32[2,4]\n"
     "  %w = reverse %a {axes=[0]} : f32[u0,4] %w1 = exp %w : f32[u0,4] %h = gather %w1, %i {axis=0, batch=0} : f32[2,4]\n"
     "  %w2 = transpose %w {perm=[1,0]} : f32[4,u0] %w3 = concat %w2, %w2 {axis=1} : f32[4,2*u0] %k = gather %w3, %i {axis=1, batch=0} : f32[4,2]\n"
     "  %d = gather_nd %a, %p {batch=0} : f32[2]\n"
     "  %l = gather_elements %w1, %e {axis=0} : f32[2,4]\n"
     "  %s = scatter_nd %a, %r, %u {combine=add} : f32[u0,4]\n"
     "  %t = scatter_elements %a, %e, %u {axis=0, combine=none} : f32[u0,4]\n"
     "  %m = scatter_nd %w, %r, %u {combine=max} : f32[u0,4]\n"
     "  %tv, %ti = topk %a {axis=0, size=2, kind=max} : f32[2,4], s64[2,4]\n"
     "  %q, %qi = topk %a {axis=0, size=u0, kind=min} : f32[u0,4], s64[u0,4]\n"
     "  yield %g, %h, %k, %d, %l, %s, %t, %m, %tv, %ti, %a, %q\n}\n"},
    /* more steps than fit where they are kept at first, after a branch so that the end of a loop is the one too many */
    {"many",
     "weight @yes : bool[] = [true]\n"
     "entry func @main(%n : s64[] \"n\", %go : bool[] \"go\", %x : f32[3] \"x\") -> (\"y\") {\n"
     "  %l0 = if %go, %x : f32[3] { (%p : f32[3]) %q = neg %p : f32[3] yield %q } { (%p : f32[3]) yield %p }\n"
     "  %l1 = loop %n, _, %l0 {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %p : f32[3]) %q = tanh %p : f32[3] %t1 = const {weight=@yes} : bool[] yield %t1, %q }\n"
     "  %l2 = loop %n, _, %l1 {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %p : f32[3]) %q = tanh %p : f32[3] %t2 = const {weight=@yes} : bool[] yield %t2, %q }\n"
     "  %l3 = loop %n, _, %l2 {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %p : f32[3]) %q = tanh %p : f32[3] %t3 = const {weight=@yes} : bool[] yield %t3, %q }\n"
     "  %l4 = loop %n, _, %l3 {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %p : f32[3]) %q = tanh %p : f32[3] %t4 = const {weight=@yes} : bool[] yield %t4, %q }\n"
     "  %l5 = loop %n, _, %l4 {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %p : f32[3]) %q = tanh %p : f32[3] %t5 = const {weight=@yes} : bool[] yield %t5, %q }\n"
     "  %l6 = loop %n, _, %l5 {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %p : f32[3]) %q = tanh %p : f32[3] %t6 = const {weight=@yes} : bool[] yield %t6, %q }\n"
     "  %l7 = loop %n, _, %l6 {n_carried=1, n_scanned=0} : f32[3] { (%i : s64[], %p : f32[3]) %q = tanh %p : f32[3] %t7 = const {weight=@yes} : bool[] yield %t7, %q }\n"
     "  yield %l7\n}\n"},
    /* values become sizes: an input, a constant, one that a region computes, one whose kernel would take in a later node that needs the size */
    {"values",
     "sym u0 in [0, 7] unbacked\nsym u1 in [0, 5] unbacked\nsym u2 in [0, 6] unbacked\nsym u3 in [0, 6] unbacked\nsym u4 in [0, 9] unbacked\n"
     "weight @yes : bool[] = [true]\nweight @two : s64[] = [2]\nweight @six : s64[] = [6]\nweight @zero : f32[1,1] = [0]\n"
     "weight @w : f32[3,4] = [0.1, -0.2, 0.3, 0.1, 0.5, -0.1, 0.2, 0.1, -0.1, 0.2, 0.3, 0.4]\n"
     "entry func @main(%n : s64[] \"n\", %go : bool[] \"go\", %x : f32[7,3] \"x\") -> (\"a\", \"b\", \"c\", \"d\", \"m\", \"y\", \"t\", \"z\", \"k\", \"l\", \"i\") {\n"
     "  %w = const {weight=@w} : f32[3,4] %two = const {weight=@two} : s64[] %six = const {weight=@six} : s64[] %zero = const {weight=@zero} : f32[1,1]\n"
     "  found %n {size=u0}\n  found %two {size=u1}\n"
     "  %a = slice %x {start=[0,0], size=[u0,3], step=[1,1]} : f32[u0,3]\n"
     "  %b = slice %x {start=[1,0], size=[u1,3], step=[1,1]} : f32[u1,3]\n"
     "  %c = concat %a, %b {axis=0} : f32[u0 + u1,3]\n"
     "  %d = dot %x, %w {lhs_batch=[], lhs_contract=[1], rhs_batch=[], rhs_contract=[0]} : f32[7,4]\n"
     "  %on = lt %zero, %d : bool[7,4] %ones = cast %on {dtype=s64} : s64[7,4] %sum = reduce %ones {axes=[0,1], kind=\"sum\"} : s64[1,1]\n"
     "  %sum0 = reshape %sum {shape=[]} : s64[] %part = mod %sum0, %six : s64[]\n"
     "  found %part {size=u2}\n"
     "  %v = dimval {dim=u2 + 1} : s64[] %vf = cast %v {dtype=f32} : f32[] %v2 = reshape %vf {shape=[1,1]} : f32[1,1] %m = mul %d, %v2 : f32[7,4]\n"
     "  %y = slice %m {start=[0,0], size=[u2,4], step=[1,1]} : f32[u2,4] %t = tanh %y : f32[u2,4]\n"
     "  %z = reduce %y {axes=[0], kind=\"sum\"} : f32[1,4] %k = iota {dtype=s64, shape=[u2], axis=0} : s64[u2]\n"
     "  %l = loop %n, _, %z, %m {n_carried=1, n_scanned=0} : f32[1,4] { (%i : s64[], %s : f32[1,4], %q : f32[7,4])\n"
     "    found %i {size=u3} %r = slice %q {start=[0,0], size=[u3,4], step=[1,1]} : f32[u3,4] %e = reduce %r {axes=[0], kind=\"sum\"} : f32[1,4]\n"
     "    %o = add %e, %s : f32[1,4] %yes = const {weight=@yes} : bool[] yield %yes, %o }\n"
     "  %i = if %go, %n, %m : f32[1,4] { (%g : s64[], %q : f32[7,4]) found %g {size=u4} %j = iota {dtype=f32, shape=[u4,4], axis=0} : f32[u4,4]\n"
     "    %e = reduce %j {axes=[0], kind=\"sum\"} : f32[1,4] yield %e }\n"
     "  { (%g : s64[], %q : f32[7,4]) %e = reduce %q {axes=[0], kind=\"max\"} : f32[1,4] yield %e }\n"
     "  yield %a, %b, %c, %d, %m, %y, %t, %z, %k, %l, %i\n}\n"},
};
/* clang-format on */

typedef struct Fixture {
    Context *ctx;
    Arena *arena;
    Module *module;
    Func *func;
    Tensor *in[ROUNDS][MAX_IO], *want[ROUNDS][MAX_IO];
    uint64_t error[ROUNDS];
} Fixture;

static Tensor *input(Fixture *f, const Type *type, unsigned round, uint32_t i)
{
    static const int64_t trips[ROUNDS] = {3, 0, 1, 7};
    Tensor *t = tensor_random(f->arena, type, 10 * round + i, round == 3 ? TASTE_SPECIAL : TASTE_TAME);
    if (type->dtype == DT_S64)
        *(int64_t *)t->data = trips[round];
    if (type->dtype == DT_BOOL)
        *(uint8_t *)t->data = round >> i & 1;
    return t;
}

static Fixture begin(const char *text)
{
    Fixture f = {.ctx = ctx_create(NULL)};
    f.arena = arena_create(f.ctx);
    f.module = ir_parse(f.ctx, str_intern(f.ctx, "t.ig"), text, strlen(text));
    if (!f.module || !ir_verify(f.module))
        fail_msg("%s", diags_text(f.ctx));
    f.func = module_find_func(f.module, str_intern(f.ctx, "main"));
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < f.func->body->params.len; i++)
            f.in[round][i] = input(&f, f.func->body->params.data[i]->type, round, i);
        assert_true(eval_func(f.ctx, f.arena, EVAL_REF32, f.func, f.in[round], f.want[round], &f.error[round]));
    }
    return f;
}

enum { EAGER = -1 };

static void check(const Case *def, const TargetInfo *target, int opt_level, const char *without)
{
    Fixture f = begin(def->text);
    EagerPlan *plan = NULL;
    DriverOptions options = {.pass = {.opt_level = opt_level, .eager = opt_level == EAGER, .limit = -1, .verify_each = true, .disabled = &(Str){without},
                                      .n_disabled = without != NULL},
                             .target = {target},
                             .n_targets = 1};
    Program *p = driver_compile(f.ctx, f.module, f.func, &options);
    if (!p || (opt_level == EAGER ? !(plan = driver_write_eager(p, f.arena, "control.so")) : !driver_write(p, "control.so")))
        fail_msg("%s, -O%d, without %s: %s", def->name, opt_level, without ? without : "nothing", diags_text(f.ctx));
    const Schedule *s = p->variant[0].schedule;
    assert_true(s->steps.len > 0);
    assert_true(plan || (double)s->peak_bytes <= 1.10 * (double)s->lower_bound_bytes);
    for (unsigned run = 0; run < 2 * ROUNDS; run++) {
        unsigned round = run % ROUNDS;
        ArtifactCase c = {.arena = f.arena, .path = "control.so", .threads = run < ROUNDS ? 1 : 3, .in = f.in[round],
                          .want = f.want[round], .n_in = f.func->body->params.len, .n_out = func_n_out(f.func),
                          .index_error = f.error[round] != 0};
        const char *wrong = plan ? artifact_eager_wrong(&c, plan) : artifact_wrong(&c);
        if (wrong)
            fail_msg("%s, -O%d, without %s, %s, %u threads, inputs %u: %s", def->name, opt_level, without ? without : "nothing",
                     target->level, c.threads, round, wrong);
    }
    driver_destroy(p);
    ctx_destroy(f.ctx);
}

static void test_bits(void **state)
{
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    for (int level = EAGER; level <= 2; level++)
        check(*state, host, level, NULL);
    for (const PassDef *pass = sched_pass_defs; pass->id; pass++)
        if (pass->optional)
            check(*state, host, 2, pass->id);
    for (const PassDef *pass = pass_defs; pass->id; pass++)
        if (pass->optional)
            check(*state, host, 2, pass->id);
}

/* ---- loops end ---------------------------------------------------------------------------------------------------- */

static void test_cut(void **state)
{
    (void)state;
    static const char text[] = "weight @yes : bool[] = [true]\n"
                               "entry func @main(%x : f32[] \"x\") -> (\"y\") {\n"
                               "  %y = loop _, _, %x {n_carried=1, n_scanned=0} : f32[] {\n"
                               "    (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a }\n"
                               "  yield %y\n}\n";
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    Fixture f = begin(text);
    assert_int_equal(f.error[0] & 0xff, ART_ERROR_STEPS);
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {host}, .n_targets = 1};
    Program *p = driver_compile(f.ctx, f.module, f.func, &options);
    assert_true(p && driver_write(p, "cut.so"));
    igata_model *model;
    igata_open_options open = {.size = sizeof open};
    assert_int_equal(igata_open("cut.so", &open, &model), IGATA_OK);
    _Alignas(64) float x[16] = {1}, y[16] = {0};
    _Alignas(64) uint8_t workspace[4096];
    uint64_t error = 0;
    assert_true(igata_workspace(model, 0, 1) <= sizeof workspace);
    assert_int_equal(igata_run_report(model, 0, (void *[]){x, y}, workspace, NULL, &error), IGATA_E_BOUND);
    assert_int_equal(error, f.error[0]);
    assert_non_null(igata_error_node(model, error));
    igata_close(model);
    driver_destroy(p);
    ctx_destroy(f.ctx);
}

/* ---- sizes that the run finds --------------------------------------------------------------------------------------- */

static const char stack_text[] = "sym u0 in [0, 2147483647] unbacked\nweight @yes : bool[] = [true]\n"
                                 "entry func @main(%n : s64[] \"n\", %x : f32[4] \"x\") -> (\"y\", \"trace\") {\n"
                                 "  %y, %t = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[4], f32[u0,4] {\n"
                                 "    (%i : s64[], %a : f32[4]) %b = add %a, %a : f32[4] %t = const {weight=@yes} : bool[] yield %t, %b, %a }\n"
                                 "  yield %y, %t\n}\n";

/* A value that becomes a size: rows of x, x + 1, .. */
static const char value_text[] = "sym u0 in [0, 2147483647] unbacked\nweight @yes : bool[] = [true]\n"
                                 "entry func @main(%n : s64[] \"n\", %x : f32[4] \"x\") -> (\"y\", \"trace\") {\n"
                                 "  found %n {size=u0}\n"
                                 "  %y = add %x, %x : f32[4] %x2 = reshape %x {shape=[1,4]} : f32[1,4] %i = iota {dtype=f32, shape=[u0,1], axis=0} : f32[u0,1]\n"
                                 "  %t = add %i, %x2 : f32[u0,4] yield %y, %t\n}\n";

static void check_trips(igata_model *model, int64_t trips, int64_t bound, bool loops)
{
    igata_entry entry = {.size = sizeof entry};
    igata_value value = {.size = sizeof value};
    igata_size size = {.size = sizeof size};
    int64_t sizes[1] = {-1}, dims[2];
    assert_int_equal(igata_entry_info(model, 0, &entry), IGATA_OK);
    assert_int_equal(entry.sizes, 0);
    assert_int_equal(entry.found, 1);
    assert_int_equal(igata_size_info(model, 0, 0, &size), IGATA_OK);
    assert_int_equal(size.hi, bound);
    assert_int_equal(igata_io_info(model, 0, 3, &value), IGATA_OK);
    assert_true(value.dims[0] == -1 && value.bounds[0] == bound && value.bytes == (size_t)bound * 16);
    _Alignas(64) int64_t n[8] = {trips};
    _Alignas(64) float x[16] = {1, 2, 3, 4}, y[16];
    _Alignas(64) uint8_t workspace[1024];
    static _Alignas(64) float trace[4 * DRIVER_BOUND + 32];
    memset(trace, 0xA5, sizeof trace);
    uint64_t error = 0;
    assert_true(igata_workspace(model, 0, 1) <= sizeof workspace);
    assert_int_equal(igata_run_report(model, 0, (void *[]){n, x, y, trace, NULL}, workspace, NULL, &error), IGATA_E_NULL);
    igata_status status = igata_run_report(model, 0, (void *[]){n, x, y, trace, sizes}, workspace, NULL, &error);
    assert_int_equal(status, trips > bound ? IGATA_E_BOUND : IGATA_OK);
    if (status != IGATA_OK)
        assert_string_equal(igata_error_node(model, error), "line4");
    int64_t most = loops ? 0 : bound, rows = trips < 0 ? 0 : trips > bound ? most : trips; /* too many trips are refused before the first */
    assert_int_equal(igata_shape(model, 0, 3, sizes, dims), IGATA_OK);
    assert_true(dims[0] == rows && dims[1] == 4);
    for (int64_t i = 0; i < 4 * rows; i++)
        assert_true(trace[i] == (loops ? ldexpf((float)(i % 4 + 1), (int)(i / 4)) : (float)(i % 4 + 1 + i / 4)));
    for (const uint8_t *p = (const uint8_t *)(trace + 4 * rows); p < (const uint8_t *)trace + sizeof trace; p++)
        assert_int_equal(*p, 0xA5);
}

static void test_bound(void **state)
{
    (void)state;
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    for (int i = 0; i < 4; i++) {
        bool loops = i < 2;
        int64_t bound = i % 2 ? DRIVER_BOUND : 5;
        Fixture f = begin(loops ? stack_text : value_text);
        DimBinding given[2] = {{.name = str_intern(f.ctx, "u1"), .hi = 3, .bound = true}, {.name = str_intern(f.ctx, "u0"), .hi = bound, .bound = true}};
        DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {host}, .n_targets = 1};
        assert_true(driver_set_bounds(f.ctx, f.func, given, bound == DRIVER_BOUND ? 1 : 2));
        Program *p = driver_compile(f.ctx, f.module, f.func, &options);
        assert_true(p && driver_write(p, "stack.so"));
        assert_int_equal(diag_count(f.ctx), bound == DRIVER_BOUND); /* the default is said */
        assert_true(bound != DRIVER_BOUND || diag_get(f.ctx, 0)->id == DIAG_driver_bound);
        igata_model *model;
        assert_int_equal(igata_open("stack.so", NULL, &model), IGATA_OK);
        const int64_t trips[] = {-1, 0, 1, bound - 1, bound, bound + 1, INT64_MAX};
        for (size_t t = 0; t < IG_COUNT(trips); t++)
            check_trips(model, trips[t], bound, loops);
        igata_close(model);
        driver_destroy(p);
        ctx_destroy(f.ctx);
    }
}

/* A size of a loop inside of a region is unknown behind it; one that two loops would find, or none, is no size. */
static void test_refused(void **state)
{
    (void)state;
    static const char *const body[] = {
        "%y = if %go, %n, %x : f32[u0] {\n"
        "    (%m : s64[], %v : f32[]) %w, %s = loop %m, _, %v {n_carried=1, n_scanned=0} : f32[], f32[u0] {\n"
        "      (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a, %a } yield %s }\n"
        "  { (%m : s64[], %v : f32[]) %w, %s = loop %m, _, %v {n_carried=1, n_scanned=0} : f32[], f32[u0] {\n"
        "      (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a, %a } yield %s }\n",
        "%k, %s = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[], f32[u0] {\n"
        "    (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a, %a }\n"
        "  %l, %r = loop _, %go, %x {n_carried=1, n_scanned=0} : f32[], f32[u0] {\n"
        "    (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a, %a }\n"
        "  %y = add %s, %r : f32[u0]\n",
        "%m = add %n, %n : s64[]\n" /* another trip count */
        "  %k, %s = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[], f32[u0] {\n"
        "    (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a, %a }\n"
        "  %l, %r = loop %m, _, %x {n_carried=1, n_scanned=0} : f32[], f32[u0] {\n"
        "    (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a, %a }\n"
        "  %y = add %s, %r : f32[u0]\n",
        "%y = dimval {dim=u0} : s64[]\n",
    };
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    for (size_t i = 0; i < IG_COUNT(body); i++) {
        Context *ctx = ctx_create(NULL);
        const char *text = str_format(ctx,
                                      "sym u0 in [0, 9] unbacked\nweight @yes : bool[] = [true]\n"
                                      "entry func @main(%%n : s64[] \"n\", %%go : bool[] \"go\", %%x : f32[] \"x\") -> (\"y\") {\n  %s  yield %%y\n}\n",
                                      body[i]);
        Module *module = ir_parse(ctx, str_intern(ctx, "t.ig"), text, strlen(text));
        if (!module || !ir_verify(module))
            fail_msg("%s", diags_text(ctx));
        DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {host}, .n_targets = 1};
        assert_null(driver_compile(ctx, module, module_find_func(module, str_intern(ctx, "main")), &options));
        assert_true(diag_errors(ctx) > 0);
        for (uint32_t d = 0; d < diag_count(ctx); d++)
            assert_int_equal(diag_get(ctx, d)->id, DIAG_driver_dynamic);
        ctx_destroy(ctx);
    }
}

/* ---- steps that do not nest ----------------------------------------------------------------------------------------- */

typedef struct Steps {
    ArtHeader header;
    ArtRecValue values[1];
    ArtRecStep step[5];
    ArtRecSize size[2];
} Steps;

static bool accepts(const ArtRecStep *step, uint32_t n)
{
    static Steps s;
    memset(&s, 0, sizeof s);
    s.header.values = (ArtRef){offsetof(Steps, values), 1};
    s.header.steps = (ArtRef){offsetof(Steps, step), 5};
    memcpy(s.step, step, n * sizeof *step);
    s.header.sizes = (ArtRef){offsetof(Steps, size), 2};
    s.size[1].hi = 9;
    ArtRecEntry e = {.n_sizes = 2, .n_symbols = 1, .n_found = 1};
    ArtRecBody body = {.n_phases = 4, .n_steps = n, .workspace_bytes = 64};
    return art_check_steps(&s.header, &e, &body);
}

static void test_steps(void **state)
{
    (void)state;
    const ArtRecStep good[5] = {{.kind = ART_STEP_LOOP, .phase = 1, .target = 4, .bound = 9},
                                {.kind = ART_STEP_IF, .phase = 1, .target = 2, .depth = 1, .go = {.offset = 8}},
                                {.kind = ART_STEP_ELSE, .phase = 2, .target = 3, .depth = 1},
                                {.kind = ART_STEP_END, .phase = 4, .target = 3, .depth = 1},
                                {.kind = ART_STEP_NEXT, .phase = 4, .target = 0, .flags = ART_STEP_GO}};
    assert_true(accepts(good, 0));
    assert_true(accepts(good, 5));
    for (uint32_t n = 1; n < 5; n++)
        assert_false(accepts(good, n)); /* left open */
    for (uint32_t i = 0; i < 5; i++) {
        ArtRecStep bad[5];
        for (uint32_t target = 0; target < 7; target++) {
            memcpy(bad, good, sizeof bad);
            bad[i].target = target;
            if (target != good[i].target && good[i].kind != ART_STEP_END) /* which goes on wherever it points */
                assert_false(accepts(bad, 5));
        }
        for (uint32_t kind = 0; kind < 7; kind++) {
            memcpy(bad, good, sizeof bad);
            bad[i].kind = kind;
            if (kind != good[i].kind)
                assert_false(accepts(bad, 5));
        }
        memcpy(bad, good, sizeof bad);
        bad[i].phase = 5;
        assert_false(accepts(bad, 5));
    }
    ArtRecStep bad[5];
    memcpy(bad, good, sizeof bad);
    bad[4].depth = 3; /* would count in another loop's place */
    assert_false(accepts(bad, 5));
    memcpy(bad, good, sizeof bad);
    bad[0].counter.offset = 64; /* outside of the workspace */
    assert_false(accepts(bad, 5));
    bad[0].counter.offset = 4; /* not aligned */
    assert_false(accepts(bad, 5));
    bad[0].counter.offset = 0;
    bad[0].counter.kind = ART_WEIGHTS;
    assert_false(accepts(bad, 5));
    memcpy(bad, good, sizeof bad);
    bad[1].go.offset = 64;
    assert_false(accepts(bad, 5));
    for (uint32_t size = 0; size < 4; size++) { /* only what the run finds is written, and the bound keeps it in its range */
        memcpy(bad, good, sizeof bad);
        bad[0].size = size;
        assert_int_equal(accepts(bad, 5), size == 0 || size == 2);
    }
    bad[0].size = 2;
    bad[0].bound = 10;
    assert_false(accepts(bad, 5));
    const ArtRecStep size = {.kind = ART_STEP_SIZE, .phase = 2, .target = 0, .flags = ART_STEP_TRIP, .size = 2, .bound = 9};
    assert_true(accepts(&size, 1));
    bad[0] = size;
    bad[0].flags = 0; /* of no word */
    assert_false(accepts(bad, 1));
    bad[0] = size;
    bad[0].bound = -1;
    assert_false(accepts(bad, 1));
    bad[0].bound = 10;
    assert_false(accepts(bad, 1));
    bad[0] = size;
    bad[0].trip.offset = 60;
    assert_false(accepts(bad, 1));
    bad[0] = size;
    bad[0].target = 1;
    assert_false(accepts(bad, 1));
}

int main(void)
{
    static struct CMUnitTest tests[IG_COUNT(cases) + 4];
    for (size_t i = 0; i < IG_COUNT(cases); i++)
        tests[i] = (struct CMUnitTest){cases[i].name, test_bits, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    tests[IG_COUNT(cases)] = (struct CMUnitTest){"endless loop", test_cut, NULL, NULL, NULL};
    tests[IG_COUNT(cases) + 1] = (struct CMUnitTest){"steps that do not nest", test_steps, NULL, NULL, NULL};
    tests[IG_COUNT(cases) + 2] = (struct CMUnitTest){"more trips than the bound", test_bound, NULL, NULL, NULL};
    tests[IG_COUNT(cases) + 3] = (struct CMUnitTest){"sizes that nothing finds", test_refused, NULL, NULL, NULL};
    return _cmocka_run_group_tests("driver_control", tests, IG_COUNT(tests), NULL, NULL);
}
