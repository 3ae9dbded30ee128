/* SPDX-License-Identifier: Apache-2.0
 *
 * ad: reverse-mode differentiation on the tensor IR. The rules are the adjoint column of the op table; the driver makes
 * a new function from primal and adjoint code, in ops of the table only, so that it can be differentiated again.
 */
#ifndef IGATA_AD_H
#define IGATA_AD_H

#include "eval/eval.h"

/* One output to differentiate. seed NULL: it must have one element, and starts with 1; else the name of a new input of
 * the output's type, the gradient it starts with. */
typedef struct AdOutput {
    Str name, seed;
} AdOutput;

typedef struct AdRequest {
    const Func *func;
    Str name;                /* of the new function */
    const AdOutput *outputs; /* their weighted sum is differentiated; none: the first output, without seed */
    uint32_t n_outputs;
    const Str *wrt; /* inputs, or initializers by weight name; none: every float input */
    uint32_t n_wrt;
    const Str *keep; /* outputs of func that the new function yields as well */
    uint32_t n_keep;
} AdRequest;

/* Adds an entry to the module: inputs of func, then seeds; results: kept outputs, then grad_NAME for each of wrt. The
 * primal part of the new function has the bits of func. A value that does not matter has a gradient of zeros. NULL
 * after reporting every node on the way that has no gradient. */
Func *ad_gradient(Module *module, const AdRequest *request);

#endif
