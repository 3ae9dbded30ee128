/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of Conv, ConvTranspose and the pools: kernel_shape, strides, dilations, pads, auto_pad, ceil_mode.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

static bool read_list(OnnxNode *n, const char *name, uint32_t count, int64_t least, int64_t missing, int64_t *out)
{
    uint32_t have;
    const int64_t *values = na_ints(n, name, &have);
    if (values && have != count)
        return na_bad(n, name, "it has %u entries, expected %u", have, count);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = values ? values[i] : missing;
        if (out[i] < least || out[i] > INT32_MAX)
            return na_bad(n, name, "entry %u is %lld, supported are %lld to 2^31-1", i, (long long)out[i], (long long)least);
    }
    return true;
}

int64_t window_reach(const Window *w, uint32_t a) { return (w->size[a] - 1) * w->dilation[a] + 1; }

/* SAME: as many results as ceil(size / stride); what is odd goes to the end (UPPER) or the start (LOWER). */
static bool same_pads(OnnxNode *n, const Dim *spatial, Window *w, uint32_t a, bool upper)
{
    int64_t size, total = window_reach(w, a) - 1;
    if (w->stride[a] != 1) {
        if (!dim_is_const(spatial, &size))
            return na_bad(n, "auto_pad", "spatial axis %u has a symbolic size and a stride, which is not supported", a);
        int64_t outs = (size + w->stride[a] - 1) / w->stride[a];
        total = (outs - 1) * w->stride[a] + window_reach(w, a) - size;
        total = total < 0 ? 0 : total;
    }
    w->lo[a] = upper ? total / 2 : total - total / 2;
    w->hi[a] = total - w->lo[a];
    return true;
}

/* ceil_mode: one more result where the last window begins inside the input or its leading padding; the padding at the end
 * grows to hold it. */
static bool ceil_pads(OnnxNode *n, const Dim *spatial, Window *w, uint32_t a)
{
    int64_t size;
    if (!dim_is_const(spatial, &size))
        return na_bad(n, "ceil_mode", "spatial axis %u has a symbolic size, which is not supported", a);
    int64_t room = size + w->lo[a] + w->hi[a] - window_reach(w, a);
    if (room < 0)
        return true; /* the op reports the window that does not fit */
    int64_t outs = (room + w->stride[a] - 1) / w->stride[a] + 1;
    if ((outs - 1) * w->stride[a] >= size + w->lo[a])
        outs--;
    int64_t due = (outs - 1) * w->stride[a] + window_reach(w, a) - size - w->lo[a];
    if (due > w->hi[a])
        w->hi[a] = due;
    return true;
}

bool window_read(OnnxNode *n, const Dim *const *spatial, uint32_t n_spatial, const int64_t *kernel, Window *w)
{
    int64_t pads[2 * IR_MAX_RANK];
    const char *mode;
    *w = (Window){.n = n_spatial};
    if (!read_list(n, "kernel_shape", n_spatial, 1, 1, w->size) || !read_list(n, "strides", n_spatial, 1, 1, w->stride) ||
        !read_list(n, "dilations", n_spatial, 1, 1, w->dilation) || !read_list(n, "pads", 2 * n_spatial, INT32_MIN, 0, pads) ||
        !na_choice(n, "auto_pad", "NOTSET|SAME_UPPER|SAME_LOWER|VALID", "NOTSET", &mode))
        return false;
    for (uint32_t a = 0; a < n_spatial; a++) {
        if (kernel && na_find(n, "kernel_shape") && w->size[a] != kernel[a])
            return na_bad(n, "kernel_shape", "entry %u is %lld, the weight has %lld", a, (long long)w->size[a],
                          (long long)kernel[a]);
        w->size[a] = kernel ? kernel[a] : w->size[a];
        if (w->size[a] > INT32_MAX || window_reach(w, a) > INT32_MAX)
            return node_bad(n, "the window of spatial axis %u reaches over more than 2^31 elements", a);
        bool explicit_pads = !strcmp(mode, "NOTSET");
        w->lo[a] = explicit_pads ? pads[a] : 0;
        w->hi[a] = explicit_pads ? pads[a + n_spatial] : 0;
        if (!strncmp(mode, "SAME", 4) && !same_pads(n, spatial[a], w, a, !strcmp(mode, "SAME_UPPER")))
            return false;
        if (na_int(n, "ceil_mode", 0) && !ceil_pads(n, spatial[a], w, a))
            return false;
    }
    return true;
}
