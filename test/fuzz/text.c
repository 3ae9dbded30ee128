/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form: any input is parsed or refused with a diagnostic; what is parsed prints to a text that parses again
 * and prints the same, before and after cloning; the verifier accepts or reports.
 */
#include "ir/ir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
    Context *ctx;
    const uint8_t *data;
    size_t size;
} Input;

static void fail(const char *what, const char *first, const char *second)
{
    fprintf(stderr, "%s\n--- first\n%s\n--- second\n%s\n", what, first, second);
    abort();
}

static void check(void *arg)
{
    const Input *input = arg;
    Context *ctx = input->ctx;
    Module *module = ir_parse(ctx, str_intern(ctx, "input.ig"), (const char *)input->data, input->size);
    if (!module) {
        if (diag_errors(ctx) == 0)
            fail("refused without a diagnostic", "", "");
        return;
    }
    if (diag_errors(ctx) != 0)
        fail("parsed in spite of a diagnostic", "", "");
    Text first, second, third;
    text_init(&first, ctx_arena(ctx));
    text_init(&second, ctx_arena(ctx));
    text_init(&third, ctx_arena(ctx));
    ir_print(&first, module);
    Module *again = ir_parse(ctx, str_intern(ctx, "input.ig"), first.data, first.len);
    if (!again) {
        diag_print(ctx, &second, diag_get(ctx, 0));
        fail("the printed text does not parse", first.data, second.data);
    }
    ir_print(&second, again);
    if (strcmp(first.data, second.data) != 0)
        fail("the printed text is no fixed point", first.data, second.data);
    bool sound = ir_verify(module);
    if (sound != ir_verify(again))
        fail("the verifier judges the same text twice", first.data, second.data);
    Module *clone = module_clone(module);
    ir_print(&third, clone);
    if (strcmp(first.data, third.data) != 0 || sound != ir_verify(clone))
        fail("the clone differs", first.data, third.data);
    module_destroy(again);
    module_destroy(module);
    module_destroy(clone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Context *ctx = ctx_create(NULL);
    Input input = {ctx, data, size};
    if (ctx_protect(ctx, check, &input) != CTX_OK)
        fail("internal error", diag_count(ctx) ? diag_get(ctx, diag_count(ctx) - 1)->message : "out of memory", "");
    ctx_destroy(ctx);
    return 0;
}
