/* SPDX-License-Identifier: Apache-2.0
 *
 * Which reader a file gets.
 */
#include "front/front.h"

#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

Module *front_load(Context *ctx, const char *path, const ImportOptions *options)
{
    Blob blob;
    if (ends_with(path, ".ig"))
        return ir_load(ctx, path);
    if (!ends_with(path, ".onnx") && strcmp(path, "-") != 0)
        return diag_report(ctx, 0, DIAG_front_format, path), NULL;
    return file_map(ctx, path, &blob) ? front_onnx_import(ctx, path, blob, options) : NULL;
}
