/* SPDX-License-Identifier: Apache-2.0
 *
 * Which reader a file gets; ONNX TensorProto files.
 */
#include "front/front.h"
#include "front/onnx/onnx_int.h"

#include <string.h>

Module *front_load(Context *ctx, const char *path, const ImportOptions *options)
{
    Blob blob;
    if (str_ends_with(path, ".ig"))
        return ir_load(ctx, path);
    if (!str_ends_with(path, ".onnx") && strcmp(path, "-") != 0)
        return diag_report(ctx, 0, DIAG_front_format, path), NULL;
    return file_map(ctx, path, &blob) ? front_onnx_import(ctx, path, blob, options) : NULL;
}

bool front_read_tensor_pb(Context *ctx, Arena *arena, const char *path, Str *name, Tensor *tensor)
{
    Blob blob;
    TensorData data;
    if (!file_map(ctx, path, &blob))
        return false;
    Str file = str_intern(ctx, path);
    const TensorProto *proto = wire_read_tensor(ctx, arena, file, blob);
    if (!proto)
        return false;
    TensorSource source = {.ctx = ctx,
                           .arena = arena,
                           .file = file,
                           .files = map_create(arena),
                           .blob = blob,
                           .loc = loc_onnx(ctx, file, NULL, 0, NULL, NULL),
                           .max_bytes = INT64_C(1) << 40};
    if (!onnx_read_tensor(&source, "tensor", proto, &data))
        return false;
    *name = str_intern(ctx, or_blank(proto->name));
    *tensor = (Tensor){.dtype = data.dtype, .store = data.dtype, .rank = data.rank, .count = data.count};
    memcpy(tensor->dim, data.dim, sizeof tensor->dim);
    uint64_t bytes;
    bool fits = dtype_bytes(data.dtype, data.count, &bytes);
    bool aligned = ((uintptr_t)data.data & 15) == 0; /* evaluation reads whole elements */
    tensor->data = aligned || !fits ? (void *)(uintptr_t)data.data : arena_copy(arena, data.data, bytes);
    return true;
}
