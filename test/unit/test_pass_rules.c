/* SPDX-License-Identifier: Apache-2.0
 * Each tensor pass on what it must change and on what it must leave alone: the ops that remain, and the ref32 bits of every
 * output before and after, on data with NaN, infinities, both zeros, denormals and extreme integers. */
#include "support/tensors.h"
#include "support/unit.h"

#include "pass/pass.h"

#include <stdio.h>
#include <string.h>

typedef struct Rule {
    const char *pass, *what;
    const char *text; /* of a module: the body of main goes between the braces, weights before "|" */
    const char *left; /* ops of main after the pass and dce, without const and yield */
} Rule;

#define X "%x : f32[4,6] \"x\""
#define GELU                                                                                                           \
    "weight @h : f32[1,1] = [0.5]\nweight @r : f32[1,1] = [0.70710678]\nweight @o : f32[1,1] = [1]\n"                    \
    "entry func @main(" X ") -> (\"y\") {\n %r = const {weight=@r} : f32[1,1]\n %h = const {weight=@h} : f32[1,1]\n"     \
    " %o = const {weight=@o} : f32[1,1]\n"
#define SOFTMAX                                                                                                        \
    "entry func @main(" X ") -> (\"y\") {\n %m = reduce %x {axes=[1], kind=max} : f32[4,1]\n"                            \
    " %d = sub %x, %m : f32[4,6]\n %e = exp %d : f32[4,6]\n %s = reduce %e {axes=[1], kind=sum} : f32[4,1]\n"
#define ONE(constant, type, op, operands, left_ops)                                                                    \
    "weight @c : " type " = [" constant "]\nentry func @main(%x : " type " \"x\") -> (\"y\") {\n"                        \
    " %c = const {weight=@c} : " type "\n %y = " op " " operands " : " type "\n yield %y\n}", left_ops

#define COMPOSITE(op, attrs) "entry func @main(" X ") -> (\"y\") {\n %y = " op " %x " attrs " : f32[4,6]\n yield %y\n}"

/* Twice: how many elements of x are negative, and so many numbers; the second as `in` says. */
#define COUNTED(in)                                                                                                      \
    "sym u0 in [0, 24] unbacked\nsym u1 in " in " unbacked\nweight @z : f32[1,1] = [0]\n"                               \
    "entry func @main(" X ") -> (\"a\", \"b\") {\n %z = const {weight=@z} : f32[1,1]\n"                                 \
    " %l = lt %x, %z : bool[4,6]\n %c = cast %l {dtype=s64} : s64[4,6]\n %r = reduce %c {axes=[0,1], kind=sum} : s64[1,1]\n" \
    " %n = reshape %r {shape=[]} : s64[]\n %m = reshape %r {shape=[]} : s64[]\n"                                       \
    " found %n {size=u0}\n %a = iota {dtype=f32, shape=[u0], axis=0} : f32[u0]\n %e = neg %a : f32[u0]\n"              \
    " found %m {size=u1}\n %b = iota {dtype=f32, shape=[u1], axis=0} : f32[u1]\n %f = neg %b : f32[u1]\n yield %e, %f\n}"

/* A loop of x whose trips have the symbol `size`: what it carries becomes `next`, where %p is what it carried. */
#define LOOP(carried, stacked, size, next)                                                                               \
    " %" carried ", %" stacked " = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[4,6], f32[" size ",4,6] {"               \
    " (%i : s64[], %p : f32[4,6]) %t = const {weight=@t} : bool[]\n " next "  yield %t, %q, %p }\n"
#define LOOPS "weight @t : bool[] = [true]\nweight @n : s64[] = [3]\nsym u0 in [0, 9] unbacked\nsym u1 in [0, 9] unbacked\n"  \
              "entry func @main(" X ") -> (\"y\") {\n %n = const {weight=@n} : s64[]\n"
#define OF_BOTH " %a = reduce %s {axes=[0], kind=sum} : f32[1,4,6]\n %b = reduce %r {axes=[0], kind=sum} : f32[1,4,6]\n"          \
                " %y = mul %a, %b : f32[1,4,6]\n yield %y\n}"

#define SLICES(size0, start1, size1)                                                                                   \
    "weight @w : f32[6,4] = [1,2,3,4,5,6,7,8,9,-1,-2,-3,-4,-5,-6,-7,-8,-9,1,3,5,7,9,11]\nentry func @main(" X ") -> (\"y\") {\n" \
    " %w = const {weight=@w} : f32[6,4]\n"                                                                             \
    " %d = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4]\n"                     \
    " %a = slice %d {start=[0,0], size=[4," size0 "], step=[1,1]} : f32[4," size0 "]\n"                                 \
    " %b = slice %d {start=[0," start1 "], size=[4," size1 "], step=[1,1]} : f32[4," size1 "]\n"

#define SPLIT(mask, after)                                                                                             \
    "entry func @main(" X ", %m : f32[" mask "] \"m\") -> (\"y\") {\n %s = exp %x : f32[4,6]\n"                         \
    " %a = reshape %s {shape=[2,2,6]} : f32[2,2,6]\n %b = add %a, %m : f32[2,2,6]\n %c = neg %b : f32[2,2,6]\n"       \
    " %y = reshape %c {shape=[" after "]} : f32[" after "]\n"

static const Rule rules[] = {
    /* -- narrow: slices that meet elementwise have products of their own */
    {"narrow", "gated unit", SLICES("2", "2", "2") " %s = sigmoid %a : f32[4,2]\n %y = mul %s, %b : f32[4,2]\n yield %y\n}",
     "slice dot slice dot sigmoid mul"},
    {"narrow", "slices that overlap stay", SLICES("3", "1", "3") " %y = mul %a, %b : f32[4,3]\n yield %y\n}",
     "dot slice slice mul"},
    {"narrow", "slices that do not meet stay",
     SLICES("2", "2", "2") " %s = reduce %a {axes=[0], kind=sum} : f32[1,2]\n %y = mul %s, %b : f32[4,2]\n yield %y\n}",
     "dot slice slice reduce mul"},
    {"narrow", "a product that others need stays",
     SLICES("2", "2", "2") " %p = mul %a, %b : f32[4,2]\n %y = concat %p, %d {axis=1} : f32[4,6]\n yield %y\n}",
     "dot slice slice mul concat"},
    /* -- simplify: identities of floats hold for every value, or are not applied */
    {"simplify", "x * 1", ONE("1", "f32[1]", "mul", "%x, %c", "")},
    {"simplify", "1 * x", ONE("1", "f32[1]", "mul", "%c, %x", "")},
    {"simplify", "x * -1 stays", ONE("-1", "f32[1]", "mul", "%x, %c", "mul")},
    {"simplify", "x * 0 stays: NaN and -0", ONE("0", "f32[1]", "mul", "%x, %c", "mul")},
    {"simplify", "x / 1", ONE("1", "f32[1]", "div", "%x, %c", "")},
    {"simplify", "1 / x stays", ONE("1", "f32[1]", "div", "%c, %x", "div")},
    {"simplify", "x + -0", ONE("-0", "f32[1]", "add", "%x, %c", "")},
    {"simplify", "x + +0 stays: -0 + 0 is 0", ONE("0", "f32[1]", "add", "%x, %c", "add")},
    {"simplify", "integers: x + 0", ONE("0", "s32[1]", "add", "%x, %c", "")},
    {"simplify", "x - +0", ONE("0", "f32[1]", "sub", "%x, %c", "")},
    {"simplify", "x - -0 stays: -0 - -0 is 0", ONE("-0", "f32[1]", "sub", "%x, %c", "sub")},
    {"simplify", "0 - x stays: it is not neg for zeros", ONE("0", "f32[1]", "sub", "%c, %x", "sub")},
    {"simplify", "a constant that would stretch x stays",
     "weight @c : f32[3] = [1, 1, 1]\nentry func @main(%x : f32[1] \"x\") -> (\"y\") {\n %c = const {weight=@c} : f32[3]\n"
     " %y = mul %x, %c : f32[3]\n yield %y\n}",
     "mul"},
    {"simplify", "neg of neg", "entry func @main(" X ") -> (\"y\") {\n %a = neg %x : f32[4,6]\n %b = neg %a : f32[4,6]\n yield %b\n}", ""},
    {"simplify", "abs of abs, not abs of neg",
     "entry func @main(" X ") -> (\"y\", \"z\") {\n %a = abs %x : f32[4,6]\n %b = abs %a : f32[4,6]\n %n = neg %x : f32[4,6]\n"
     " %c = abs %n : f32[4,6]\n yield %b, %c\n}",
     "abs neg abs"},
    {"simplify", "floor of ceil stays",
     "entry func @main(" X ") -> (\"y\") {\n %a = ceil %x : f32[4,6]\n %b = floor %a : f32[4,6]\n yield %b\n}", "ceil floor"},
    {"simplify", "cast to the same type, not there and back",
     "entry func @main(" X ") -> (\"y\", \"z\") {\n %a = cast %x {dtype=f32} : f32[4,6]\n %b = cast %x {dtype=f16} : f16[4,6]\n"
     " %c = cast %b {dtype=f32} : f32[4,6]\n yield %a, %c\n}",
     "cast cast"},
    {"simplify", "select of equals",
     "entry func @main(" X ", %c : bool[4,6] \"c\") -> (\"y\") {\n %y = select %c, %x, %x : f32[4,6]\n yield %y\n}", ""},
    {"simplify", "select of a known condition",
     "weight @t : bool[1,1] = [true]\nentry func @main(" X ", %z : f32[4,6] \"z\") -> (\"y\") {\n %t = const {weight=@t} : bool[1,1]\n"
     " %y = select %t, %z, %x : f32[4,6]\n yield %y\n}",
     ""},
    /* -- fold */
    {"fold", "constants only",
     "weight @a : f32[2] = [3, nan]\nweight @b : f32[2] = [-0, 2]\nentry func @main(%x : f32[2] \"x\") -> (\"y\") {\n"
     " %a = const {weight=@a} : f32[2]\n %b = const {weight=@b} : f32[2]\n %c = mul %a, %b : f32[2]\n %d = exp %c : f32[2]\n"
     " %y = add %x, %d : f32[2]\n yield %y\n}",
     "add"},
    {"fold", "a sum by its order",
     "weight @a : f32[5] = [1e8, 1, -1e8, 3, 1e-8]\nentry func @main(%x : f32[1] \"x\") -> (\"y\") {\n %a = const {weight=@a} : f32[5]\n"
     " %s = reduce %a {axes=[0], kind=sum} : f32[1]\n %y = add %x, %s : f32[1]\n yield %y\n}",
     "add"},
    {"fold", "a parameter as the second operand stays",
     "weight @a : f32[2] = [3, 1]\nentry func @main(%x : f32[2] \"x\") -> (\"y\") {\n %a = const {weight=@a} : f32[2]\n"
     " %y = sub %a, %x : f32[2]\n yield %y\n}",
     "sub"},
    {"fold", "a large broadcast stays",
     "weight @a : f32[1] = [2]\nentry func @main(%x : f32[1] \"x\") -> (\"y\", \"z\") {\n %a = const {weight=@a} : f32[1]\n"
     " %y = broadcast %a {shape=[100000]} : f32[100000]\n yield %y, %x\n}",
     "broadcast"},
    {"fold", "but is a constant to a scatter that reads rows of it",
     "weight @c : f32[1,1] = [2]\nweight @i : s64[1,1] = [3]\nweight @u : f32[1,4] = [7, -0, 1, 9]\nentry func @main(" X ") -> (\"y\") {\n"
     " %c = const {weight=@c} : f32[1,1]\n %b = broadcast %c {shape=[6000,4]} : f32[6000,4]\n"
     " %s = slice %b {start=[1,0], size=[3000,4], step=[2,1]} : f32[3000,4]\n %i = const {weight=@i} : s64[1,1]\n"
     " %v = const {weight=@u} : f32[1,4]\n"
     " %y = scatter_nd %s, %i, %v {combine=none} : f32[3000,4]\n yield %y\n}",
     ""},
    /* -- cse */
    {"cse", "equal nodes, also with exchanged operands",
     "entry func @main(" X ", %z : f32[4,6] \"z\") -> (\"y\") {\n %a = add %x, %z : f32[4,6]\n %b = add %z, %x : f32[4,6]\n"
     " %c = add %x, %z : f32[4,6]\n %d = mul %a, %b : f32[4,6]\n %e = mul %d, %c : f32[4,6]\n yield %e\n}",
     "add mul mul"},
    {"cse", "operands of sub and max are not exchanged",
     "entry func @main(" X ", %z : f32[4,6] \"z\") -> (\"a\", \"b\", \"c\", \"d\") {\n %a = sub %x, %z : f32[4,6]\n %b = sub %z, %x : f32[4,6]\n"
     " %c = max %x, %z : f32[4,6]\n %d = max %z, %x : f32[4,6]\n yield %a, %b, %c, %d\n}",
     "sub sub max max"},
    {"cse", "attributes matter",
     "entry func @main(" X ") -> (\"a\", \"b\", \"c\") {\n %a = reduce %x {axes=[1], kind=sum} : f32[4,1]\n"
     " %b = reduce %x {axes=[1], kind=max} : f32[4,1]\n %c = reduce %x {axes=[1], kind=min} : f32[4,1]\n yield %a, %b, %c\n}",
     "reduce reduce reduce"},
    {"cse", "constants of equal bytes",
     "weight @a : f32[1,1] = [3]\nweight @b : f32[1,1] = [3]\nentry func @main(" X ") -> (\"y\") {\n %a = const {weight=@a} : f32[1,1]\n"
     " %b = const {weight=@b} : f32[1,1]\n %c = add %x, %a : f32[4,6]\n %d = add %x, %b : f32[4,6]\n %y = mul %c, %d : f32[4,6]\n yield %y\n}",
     "add mul"},
    {"cse", "constants of equal value, but not bytes",
     "weight @a : f32[1,1] = [0]\nweight @b : f32[1,1] = [-0]\nentry func @main(" X ") -> (\"c\", \"d\") {\n %a = const {weight=@a} : f32[1,1]\n"
     " %b = const {weight=@b} : f32[1,1]\n %c = add %x, %a : f32[4,6]\n %d = add %x, %b : f32[4,6]\n yield %c, %d\n}",
     "add add"},
    {"cse", "one number is one size, in all that has it", COUNTED("[0, 24]"), "lt cast reduce reshape found iota neg"},
    {"cse", "sizes of other ranges stay", COUNTED("[0, 25]"), "lt cast reduce reshape found iota neg found iota neg"},
    {"cse", "loops of equal bodies, whose trips are one size then",
     LOOPS LOOP("c", "s", "u0", "%q = neg %p : f32[4,6]\n") LOOP("d", "r", "u1", "%q = neg %p : f32[4,6]\n") OF_BOTH, "loop reduce mul"},
    {"cse", "loops of other bodies stay",
     LOOPS LOOP("c", "s", "u0", "%q = neg %p : f32[4,6]\n") LOOP("d", "r", "u1", "%q = abs %p : f32[4,6]\n") OF_BOTH,
     "loop loop reduce reduce mul"},
    {"cse", "loops that check something stay",
     LOOPS LOOP("c", "s", "u0", "check %t {code=3}\n %q = neg %p : f32[4,6]\n")
         LOOP("d", "r", "u1", "check %t {code=3}\n %q = neg %p : f32[4,6]\n") OF_BOTH,
     "loop loop reduce reduce mul"},
    {"cse", "a size that was named before it is found again stays",
     LOOPS " found %n {size=u1}\n %i = iota {dtype=f32, shape=[u1], axis=0} : f32[u1]\n"
     " %j = reduce %i {axes=[0], kind=sum} : f32[1]\n %k = reshape %j {shape=[1,1,1]} : f32[1,1,1]\n"
     LOOP("c", "s", "u0", "%q = neg %p : f32[4,6]\n") LOOP("d", "r", "u1", "%q = neg %p : f32[4,6]\n")
     " %a = reduce %s {axes=[0], kind=sum} : f32[1,4,6]\n %b = reduce %r {axes=[0], kind=sum} : f32[1,4,6]\n"
     " %e = mul %a, %b : f32[1,4,6]\n %y = mul %e, %k : f32[1,4,6]\n yield %y\n}",
     "found iota reduce reshape loop loop reduce reduce mul mul"},
    {"cse", "branches of equal bodies, with what they find inside",
     "weight @t : bool[] = [true]\nweight @n : s64[] = [3]\nsym u0 in [0, 9] unbacked\nsym u1 in [0, 9] unbacked\n"
     "entry func @main(" X ") -> (\"y\") {\n %t = const {weight=@t} : bool[]\n"
     " %a = if %t, %x : f32[] { (%p : f32[4,6]) %n = const {weight=@n} : s64[]\n found %n {size=u0}\n"
     "  %i = iota {dtype=f32, shape=[u0], axis=0} : f32[u0]\n %r = reduce %i {axes=[0], kind=sum} : f32[1]\n %s = reshape %r {shape=[]} : f32[]\n"
     "  yield %s } { (%p : f32[4,6]) %d = dimval {dim=4} : s64[]\n %e = cast %d {dtype=f32} : f32[]\n yield %e }\n"
     " %b = if %t, %x : f32[] { (%p : f32[4,6]) %n = const {weight=@n} : s64[]\n found %n {size=u1}\n"
     "  %i = iota {dtype=f32, shape=[u1], axis=0} : f32[u1]\n %r = reduce %i {axes=[0], kind=sum} : f32[1]\n %s = reshape %r {shape=[]} : f32[]\n"
     "  yield %s } { (%p : f32[4,6]) %d = dimval {dim=4} : s64[]\n %e = cast %d {dtype=f32} : f32[]\n yield %e }\n"
     " %y = mul %a, %b : f32[]\n yield %y\n}",
     "if mul"},
    /* -- dce */
    {"dce", "unused chains go, checks stay",
     "weight @t : bool[] = [true]\nentry func @main(" X ") -> (\"y\") {\n %a = exp %x : f32[4,6]\n %b = neg %a : f32[4,6]\n"
     " %t = const {weight=@t} : bool[]\n check %t {code=3}\n %y = abs %x : f32[4,6]\n yield %y\n}",
     "check abs"},
    {"dce", "what finds a size that a node names stays, and what another loop finds again goes",
     "weight @t : bool[] = [true]\nweight @n : s64[] = [3]\nsym u0 in [0, 9] unbacked\nsym u1 in [0, 9] unbacked\n"
     "entry func @main(" X ") -> (\"y\") {\n %n = const {weight=@n} : s64[]\n"
     " %a, %s = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[4,6], f32[u0,4,6] { (%i : s64[], %p : f32[4,6]) %t = const {weight=@t} : bool[]\n"
     "  yield %t, %p, %p }\n"
     " %b, %r = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[4,6], f32[u0,4,6] { (%i : s64[], %p : f32[4,6]) %t = const {weight=@t} : bool[]\n"
     "  yield %t, %p, %p }\n"
     " %c, %q = loop %n, _, %x {n_carried=1, n_scanned=0} : f32[4,6], f32[u1,4,6] { (%i : s64[], %p : f32[4,6]) %t = const {weight=@t} : bool[]\n"
     "  yield %t, %p, %p }\n"
     " %d = dimval {dim=u0} : s64[]\n %e = cast %d {dtype=f32} : f32[]\n %f = reshape %e {shape=[1,1]} : f32[1,1]\n"
     " %y = mul %x, %f : f32[4,6]\n yield %y\n}",
     "loop dimval cast reshape mul"},
    {"dce", "a check inside of regions in regions stays",
     "weight @t : bool[] = [true]\nentry func @main(" X ", %c : bool[] \"c\") -> (\"y\") {\n"
     " %a = if %c, %c : bool[] { (%d : bool[]) %b = if %d, %d : bool[] { (%e : bool[]) check %e {code=3}\n yield %e } { (%e : bool[]) yield %e }\n"
     "  yield %d } { (%d : bool[]) yield %d }\n %y = abs %x : f32[4,6]\n yield %y\n}",
     "if abs"},
    /* -- rejoin: between a reshape and the one that undoes it */
    {"rejoin+simplify", "a mask for each second row", SPLIT("1,2,6", "4,6") " yield %y\n}", "exp broadcast reshape add neg"},
    {"rejoin+simplify", "a column for each first row", SPLIT("2,1,1", "4,6") " yield %y\n}", "exp broadcast reshape add neg"},
    {"rejoin+simplify", "a row for all", SPLIT("1,1,6", "4,6") " yield %y\n}", "exp reshape add neg"},
    {"rejoin", "another shape than before", SPLIT("1,2,6", "6,4") " yield %y\n}", "exp reshape add neg reshape"},
    {"rejoin", "another value of its size meets it", SPLIT("2,2,6", "4,6") " yield %y\n}", "exp reshape add neg reshape"},
    {"rejoin", "somebody else reads it between",
     SPLIT("1,2,6", "4,6") " %t = abs %b : f32[2,2,6]\n %u = reshape %t {shape=[4,6]} : f32[4,6]\n %v = add %y, %u : f32[4,6]\n yield %v\n}",
     "exp reshape add neg reshape abs reshape add"},
    /* -- raise: bodies are found, near misses are not */
    {"raise", "log-softmax", SOFTMAX " %l = log %s : f32[4,1]\n %o = sub %d, %l : f32[4,6]\n yield %o\n}", "log_softmax"},
    {"raise", "softmax that keeps subnormal weights", SOFTMAX " %o = div %e, %s : f32[4,6]\n yield %o\n}", "reduce sub exp reduce div"},
    {"raise", "log-softmax whose maximum is over another axis",
     "entry func @main(%x : f32[4,4] \"x\") -> (\"y\") {\n %m = reduce %x {axes=[0], kind=max} : f32[1,4]\n %d = sub %x, %m : f32[4,4]\n"
     " %e = exp %d : f32[4,4]\n %s = reduce %e {axes=[1], kind=sum} : f32[4,1]\n %l = log %s : f32[4,1]\n %o = sub %d, %l : f32[4,4]\n yield %o\n}",
     "reduce sub exp reduce log sub"},
    {"raise", "log-softmax by the maximum of another value",
     "entry func @main(" X ", %z : f32[4,6] \"z\") -> (\"y\") {\n %m = reduce %z {axes=[1], kind=max} : f32[4,1]\n %d = sub %x, %m : f32[4,6]\n"
     " %e = exp %d : f32[4,6]\n %s = reduce %e {axes=[1], kind=sum} : f32[4,1]\n %l = log %s : f32[4,1]\n %o = sub %d, %l : f32[4,6]\n yield %o\n}",
     "reduce sub exp reduce log sub"},
    {"raise", "log-softmax whose exponentials are an output",
     SOFTMAX " %l = log %s : f32[4,1]\n %o = sub %d, %l : f32[4,6]\n %q = add %o, %e : f32[4,6]\n yield %q\n}",
     "reduce sub exp reduce log sub add"},
    {"raise", "log-softmax upside down", SOFTMAX " %l = log %s : f32[4,1]\n %o = sub %l, %d : f32[4,6]\n yield %o\n}",
     "reduce sub exp reduce log sub"},
    {"raise", "gelu with another factor",
     GELU " %a = mul %x, %r : f32[4,6]\n %b = erf %a : f32[4,6]\n %c = add %b, %o : f32[4,6]\n %d = mul %x, %r : f32[4,6]\n"
          " %y = mul %d, %c : f32[4,6]\n yield %y\n}",
     "mul erf add mul mul"},
    /* -- expand */
    {"expand", "a composite and the composites in its body",
     "entry func @main(" X ") -> (\"y\") {\n %y = hard_swish %x : f32[4,6]\n yield %y\n}",
     "reshape mul reshape add reshape min reshape max mul"},
    /* -- raise finds every body that expand makes */
    {"expand+raise", "gelu {approx=none}", COMPOSITE("gelu", "{approx=none}"), "gelu"},
    {"expand+raise", "gelu {approx=tanh}", COMPOSITE("gelu", "{approx=tanh}"), "gelu"},
    {"expand+raise", "softmax {axes=[1], norm=mul}", COMPOSITE("softmax", "{axes=[1], norm=mul}"), "softmax"},
    {"expand+raise", "softmax {axes=[1], norm=div}", COMPOSITE("softmax", "{axes=[1], norm=div}"), "softmax"},
    {"expand+raise", "log_softmax {axes=[1]}", COMPOSITE("log_softmax", "{axes=[1]}"), "log_softmax"},
    {"expand+raise", "hard_swish ", COMPOSITE("hard_swish", ""), "hard_swish"},
    {"raise", "mish",
     "entry func @main(" X ") -> (\"y\") {\n %s = softplus %x : f32[4,6]\n %t = tanh %s : f32[4,6]\n"
     " %y = mul %x, %t : f32[4,6]\n yield %y\n}",
     "mish"},
    {"raise", "softplus",
     "entry func @main(" X ") -> (\"y\") {\n %a = abs %x : f32[4,6]\n %n = neg %a : f32[4,6]\n %e = exp %n : f32[4,6]\n"
     " %l = log1p %e : f32[4,6]\n %r = relu %x : f32[4,6]\n %y = add %r, %l : f32[4,6]\n yield %y\n}",
     "softplus"},
    {"expand+raise", "relu ", COMPOSITE("relu", ""), "relu"},
    {"expand+raise", "layer_norm",
     "weight @g : f32[1,6] = [1, 2, 3, -1, 0.5, 1]\nentry func @main(" X ") -> (\"y\") {\n %g = const {weight=@g} : f32[1,6]\n"
     " %y = layer_norm %x, %g, %g {axes=[1], epsilon=1e-05} : f32[4,6]\n yield %y\n}",
     "layer_norm"},
    /* -- inline */
    {"inline", "calls become bodies",
     "func @twice(%a : f32[4,6] \"a\") -> (\"r\") {\n %r = add %a, %a : f32[4,6]\n yield %r\n}\n"
     "entry func @main(" X ") -> (\"y\") {\n %b = call %x {func=@twice} : f32[4,6]\n %c = call %b {func=@twice} : f32[4,6]\n yield %c\n}",
     "add add"},
};

static const char *ops_of(Arena *arena, const Func *func)
{
    Text text;
    text_init(&text, arena);
    REGION_FOREACH(node, func->body)
        if (node->op != OP_const && node->op != OP_yield)
            text_addf(&text, "%s%s", text.len ? " " : "", op_info[node->op].name);
    return text.data;
}

static void test_rule(void **state)
{
    const Rule *rule = *state;
    Context *ctx = ctx_create(NULL);
    Arena *arena = arena_create(ctx);
    Module *module = ir_parse(ctx, str_intern(ctx, "rule.ig"), rule->text, strlen(rule->text));
    if (!module || !ir_verify(module) || !op_verify(module))
        fail_msg("%s: %s", rule->what, diags_text(ctx));
    const Func *func = module_find_func(module, str_intern(ctx, "main"));
    Tensor *in[4], *before[4], *after[4];
    uint64_t error = 0, at;
    for (uint32_t i = 0; i < func->body->params.len; i++)
        in[i] = tensor_random(arena, func->body->params.data[i]->type, 5 + i, TASTE_SPECIAL);
    static const double hard[] = {-0.0, 0.0, __builtin_nan(""), __builtin_inf(), -1e-42};
    uint32_t rounds = in[0]->count == 1 && dtype_is_float(in[0]->dtype) ? IG_COUNT(hard) : 1;
    Module *original = module_clone(module);
    PassOptions options = {.limit = -1, .verify_each = true};
    PassCtx pc = {.ctx = ctx, .tmp = arena_create(ctx), .options = &options};
    Unit unit = {.module = module};
    const char *second = strchr(rule->pass, '+');
    const PassDef *passes[] = {pass_find(pass_defs, str_intern_n(ctx, rule->pass, strcspn(rule->pass, "+"))),
                               pass_find(pass_defs, second ? second + 1 : "dce"), pass_find(pass_defs, "dce")};
    if (!pass_run(&pc, &unit, passes, 3))
        fail_msg("%s: %s", rule->what, diags_text(ctx));
    assert_string_equal(ops_of(arena, func), rule->left);
    for (uint32_t round = 0; round < rounds; round++) {
        if (rounds > 1)
            elem_set_f64(in[0]->dtype, in[0]->data, 0, hard[round]);
        const Func *old = module_find_func(original, func->name);
        assert_true(eval_func(ctx, arena, EVAL_REF32, old, in, before, &error));
        assert_true(eval_func(ctx, arena, EVAL_REF32, func, in, after, &error));
        for (uint32_t i = 0; i < func_n_out(func); i++)
            if (!tensor_same_bits(before[i]->dtype, before[i]->data, after[i]->data, before[i]->count, &at))
                fail_msg("%s: output %u differs at %llu", rule->what, i, (unsigned long long)at);
    }
    arena_destroy(pc.tmp);
    ctx_destroy(ctx);
}

int main(void)
{
    static char name[IG_COUNT(rules)][100];
    struct CMUnitTest tests[IG_COUNT(rules)];
    for (size_t i = 0; i < IG_COUNT(rules); i++) {
        snprintf(name[i], sizeof name[i], "%s: %s", rules[i].pass, rules[i].what);
        tests[i] = (struct CMUnitTest){name[i], test_rule, NULL, NULL, (void *)(uintptr_t)&rules[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
