/* SPDX-License-Identifier: Apache-2.0
 *
 * NumPy's .npy files (NEP 1 and numpy.lib.format): magic, version, header length, a Python dictionary of descr, fortran_order
 * and shape, then the elements.
 */
#include "front/front.h"

#include <stdio.h>
#include <string.h>

typedef struct NpyType {
    const char *descr; /* without byte order */
    DType dtype;
} NpyType;
static const NpyType npy_types[] = {
    {"f8", DT_F64}, {"f4", DT_F32}, {"f2", DT_F16}, {"i8", DT_S64}, {"i4", DT_S32}, {"i2", DT_S16},  {"i1", DT_S8},
    {"u8", DT_U64}, {"u4", DT_U32}, {"u2", DT_U16}, {"u1", DT_U8},  {"b1", DT_BOOL}, {"c8", DT_C64}, {"c16", DT_C128}};

typedef struct Npy {
    Context *ctx;
    const char *path, *at; /* at: in the header, which ends with NUL */
    DType dtype;
    bool swapped, fortran;
    Tensor *tensor;
    unsigned seen; /* keys, as bits */
} Npy;

static bool bad(const Npy *npy, const char *what) { return diag_report(npy->ctx, 0, DIAG_data_file, npy->path, what); }

static void skip_space(Npy *npy)
{
    while (*npy->at == ' ' || *npy->at == '\n' || *npy->at == '\t')
        npy->at++;
}

static bool take(Npy *npy, char c)
{
    skip_space(npy);
    if (*npy->at != c)
        return false;
    npy->at++;
    return true;
}

static bool take_word(Npy *npy, const char *word)
{
    size_t n = strlen(word);
    skip_space(npy);
    if (strncmp(npy->at, word, n) != 0)
        return false;
    npy->at += n;
    return true;
}

static bool take_string(Npy *npy, char *out, size_t room)
{
    skip_space(npy);
    char quote = *npy->at;
    if (quote != '\'' && quote != '"')
        return false;
    const char *end = strchr(npy->at + 1, quote);
    if (!end || (size_t)(end - npy->at - 1) >= room)
        return false;
    memcpy(out, npy->at + 1, (size_t)(end - npy->at - 1));
    out[end - npy->at - 1] = '\0';
    npy->at = end + 1;
    return true;
}

static bool take_descr(Npy *npy)
{
    char text[16];
    if (!take_string(npy, text, sizeof text))
        return bad(npy, "its element type is none that igata reads (no structures, no objects)");
    const char *name = text + (strchr("<>=|", text[0]) && text[0] ? 1 : 0);
    npy->swapped = text[0] == '>';
    for (size_t i = 0; i < IG_COUNT(npy_types); i++)
        if (!strcmp(npy_types[i].descr, name))
            npy->dtype = npy_types[i].dtype;
    return npy->dtype != DT_NONE || bad(npy, arena_printf(ctx_arena(npy->ctx), "element type '%s' is not supported", text));
}

static bool take_shape(Npy *npy)
{
    Tensor *t = npy->tensor;
    if (!take(npy, '('))
        return bad(npy, "its header is malformed: shape");
    t->count = 1;
    bool empty = false;
    for (t->rank = 0; !take(npy, ')');) {
        int64_t size = 0;
        skip_space(npy);
        if (*npy->at < '0' || *npy->at > '9')
            return bad(npy, "its header is malformed: shape");
        for (; *npy->at >= '0' && *npy->at <= '9'; npy->at++)
            if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *npy->at - '0', &size))
                return bad(npy, "a size overflows");
        take_word(npy, "L"); /* written by Python 2 */
        if (t->rank == IR_MAX_RANK)
            return bad(npy, "its rank is above 12");
        t->dim[t->rank++] = size;
        empty |= size == 0;
        if (size && __builtin_mul_overflow(t->count, (uint64_t)size, &t->count) && !empty)
            return bad(npy, "its number of elements overflows");
        if (!take(npy, ',') && (skip_space(npy), *npy->at != ')'))
            return bad(npy, "its header is malformed: shape");
    }
    t->count = empty ? 0 : t->count;
    return true;
}

/* {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } */
static bool read_header(Npy *npy)
{
    char key[32];
    if (!take(npy, '{'))
        return bad(npy, "its header is malformed");
    while (!take(npy, '}')) {
        if (!take_string(npy, key, sizeof key) || !take(npy, ':'))
            return bad(npy, "its header is malformed");
        if (!strcmp(key, "descr")) {
            npy->seen |= 1;
            if (!take_descr(npy))
                return false;
        } else if (!strcmp(key, "fortran_order")) {
            npy->seen |= 2;
            npy->fortran = take_word(npy, "True");
            if (!npy->fortran && !take_word(npy, "False"))
                return bad(npy, "its header is malformed: fortran_order");
        } else if (!strcmp(key, "shape")) {
            npy->seen |= 4;
            if (!take_shape(npy))
                return false;
        } else {
            return bad(npy, "its header has an unknown key");
        }
        take(npy, ',');
    }
    return npy->seen == 7 || bad(npy, "its header lacks descr, fortran_order or shape");
}

static void swap_bytes(uint8_t *data, uint64_t count, uint64_t each)
{
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < each / 2; k++) {
            uint8_t *a = &data[i * each + k], *b = &data[i * each + each - 1 - k], keep = *a;
            *a = *b;
            *b = keep;
        }
}

/* Column-major to row-major. */
static void *reorder(Arena *arena, const Tensor *t, const uint8_t *from, uint64_t each)
{
    uint8_t *to = arena_alloc(arena, t->count * each);
    int64_t index[IR_MAX_RANK] = {0};
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t at = 0;
        for (uint32_t a = t->rank; a-- > 0;)
            at = at * (uint64_t)t->dim[a] + (uint64_t)index[a];
        memcpy(to + i * each, from + at * each, each);
        for (uint32_t a = t->rank; a-- > 0 && ++index[a] == t->dim[a];)
            index[a] = 0;
    }
    return to;
}

bool front_npy_read(Context *ctx, Arena *arena, const char *path, Tensor *tensor)
{
    Blob blob;
    Npy npy = {.ctx = ctx, .path = path, .tensor = tensor};
    *tensor = (Tensor){0};
    if (!file_map(ctx, path, &blob))
        return false;
    const uint8_t *p = blob.data;
    if (blob.size < 10 || memcmp(p, "\x93NUMPY", 6) != 0 || p[6] < 1 || p[6] > 3 || p[7] != 0)
        return bad(&npy, "it is no .npy file of version 1 to 3");
    uint64_t start = p[6] == 1 ? 10 : 12, length = p[8] | (uint64_t)p[9] << 8;
    if (p[6] > 1 && blob.size >= 12)
        length |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
    if (blob.size < start || length > blob.size - start || length > 1 << 20)
        return bad(&npy, "its header reaches past its end");
    npy.at = arena_printf(arena, "%.*s", (int)length, (const char *)p + start);
    if (!read_header(&npy))
        return false;
    uint64_t bytes, each = (uint64_t)dtype_bits(npy.dtype) / 8;
    if (!dtype_bytes(npy.dtype, tensor->count, &bytes) || bytes > blob.size - start - length)
        return bad(&npy, "it has fewer elements than its shape");
    const uint8_t *data = p + start + length;
    tensor->dtype = tensor->store = npy.dtype;
    if (npy.fortran && tensor->rank > 1 && bytes)
        tensor->data = reorder(arena, tensor, data, each);
    else
        tensor->data = arena_copy(arena, data, bytes);
    if (npy.swapped) { /* a complex number is two */
        uint64_t part = dtype_kind(npy.dtype) == DK_COMPLEX ? each / 2 : each;
        swap_bytes(tensor->data, bytes / part, part);
    }
    if (npy.dtype == DT_BOOL)
        for (uint64_t i = 0; i < bytes; i++)
            ((uint8_t *)tensor->data)[i] = ((uint8_t *)tensor->data)[i] != 0;
    return true;
}

bool front_npy_write(Context *ctx, const char *path, const Tensor *t)
{
    const char *descr = NULL;
    uint64_t bytes;
    for (size_t i = 0; i < IG_COUNT(npy_types); i++)
        if (npy_types[i].dtype == t->dtype)
            descr = npy_types[i].descr;
    if (!descr || t->store != t->dtype || !dtype_bytes(t->dtype, t->count, &bytes))
        return diag_report(ctx, 0, DIAG_data_file, path,
                           arena_printf(ctx_arena(ctx), "NumPy has no element type for %s", dtype_name(t->dtype)));
    Text header;
    text_init(&header, ctx_arena(ctx));
    text_addf(&header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", dtype_bits(t->dtype) > 8 ? '<' : '|', descr);
    for (uint32_t a = 0; a < t->rank; a++)
        text_addf(&header, "%s%lld%s", a ? ", " : "", (long long)t->dim[a], t->rank == 1 ? "," : "");
    text_add(&header, "), }");
    while ((header.len + 11) % 64)
        text_add(&header, " ");
    text_add(&header, "\n");
    FileWriter *file = file_create(ctx, path, false);
    if (!file)
        return false;
    uint8_t head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)(header.len & 255), (uint8_t)(header.len >> 8)};
    file_write(file, head, sizeof head);
    file_write(file, header.data, header.len);
    file_write(file, t->data, bytes);
    return file_commit(file);
}
