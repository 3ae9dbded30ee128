/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an ONNX model: refused with a diagnostic, or imported into a module that verifies and prints.
 */
#include "front/front.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
    Context *ctx;
    Blob blob;
} Input;

static void import(void *arg)
{
    Input *input = arg;
    ImportOptions options = {.max_bytes = 1 << 20};
    Module *module = front_onnx_import(input->ctx, "fuzz.onnx", input->blob, &options);
    if (!module) {
        if (!diag_errors(input->ctx))
            abort(); /* refused in silence */
        return;
    }
    if (!ir_verify(module) || !op_verify(module))
        abort();
    Text text;
    text_init(&text, ctx_arena(input->ctx));
    ir_print(&text, module);
    module_destroy(module);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Input input = {ctx_create(NULL), {data, size}};
    if (!input.ctx)
        return 0;
    if (ctx_protect(input.ctx, import, &input) == CTX_BUG)
        abort();
    ctx_destroy(input.ctx);
    return 0;
}
