/* SPDX-License-Identifier: Apache-2.0
 *
 * Random well-typed functions: the input's bytes decide what test/support/graph_draw.c draws from the op table, and everything in
 * graph_check must hold: verifiers, text, passes, gradients, and equal bits of evaluator, interpreter and artifact.
 */
#include "support/graph_check.h"
#include "support/graph_draw.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
    Context *ctx;
    Draw draw;
    GraphCheck check;
    Module *module;
} Input;

static void run(void *arg)
{
    Input *in = arg;
    uint64_t seed = hash_bytes(in->draw.data, in->draw.size, 7);
    in->module = module_create(in->ctx);
    if (!draw_function(in->module, &in->draw, 10, OP_COUNT))
        return;
    in->check = (GraphCheck){.ctx = in->ctx, .seed = seed, .folder = ".", .run_code = true, .gradients = seed % 3 == 1};
    graph_check(&in->check, in->module);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Context *ctx = ctx_create(NULL);
    Input in = {.ctx = ctx, .draw = draw_begin(data, size)};
    CtxStatus status = ctx_protect(ctx, run, &in);
    if (status != CTX_OK || in.check.wrong) {
        Text text;
        text_init(&text, ctx_arena(ctx));
        if (in.module)
            ir_print(&text, in.module);
        fprintf(stderr, "%s\n%s\n", status != CTX_OK ? diag_get(ctx, diag_count(ctx) - 1)->message : in.check.wrong,
                text.data ? text.data : "");
        abort();
    }
    ctx_destroy(ctx);
    return 0;
}
