/* SPDX-License-Identifier: Apache-2.0
 * Tensors: files, filling, text, comparison. */
#include "api/api_int.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- conversions ------------------------------------------------------------------------------------------------------ */

igata_tensor api_from_tensor(Arena *arena, const char *name, const Tensor *t)
{
    igata_tensor made = {.name = name, .dtype = dtype_to_onnx(t->dtype), .rank = t->rank, .dims = t->dim, .data = t->data};
    uint64_t bytes = t->count * sizeof(char *);
    if (t->dtype != DT_STR && !dtype_bytes(t->dtype, t->count, &bytes))
        ig_bug(arena_context(arena), "a tensor of %" PRIu64 " elements", t->count);
    made.bytes = (size_t)bytes;
    if (t->store == t->dtype)
        return made;
    made.data = api_aligned(arena, bytes); /* the evaluator's f64 mode */
    for (uint64_t i = 0; i < t->count; i++)
        elem_set_f64(t->dtype, made.data, i, ((const double *)t->data)[i]);
    return made;
}

bool api_to_tensor(Context *ctx, const igata_tensor *from, Tensor *to)
{
    DType dtype = dtype_from_onnx(from->dtype);
    *to = (Tensor){.dtype = dtype, .store = dtype, .rank = (uint32_t)from->rank, .count = 1, .data = from->data};
    if (dtype == DT_NONE || from->rank > IR_MAX_RANK)
        return diag_report(ctx, 0, DIAG_api_input, from->name ? from->name : "",
                           dtype == DT_NONE ? "its element type is unknown" : "its rank is above 12");
    for (size_t i = 0; i < from->rank; i++) {
        if (from->dims[i] < 0 || (from->dims[i] && to->count > (UINT64_C(1) << 48) / (uint64_t)from->dims[i]))
            return diag_report(ctx, 0, DIAG_api_input, from->name ? from->name : "", "its sizes are impossible");
        to->dim[i] = from->dims[i];
        to->count *= (uint64_t)from->dims[i];
    }
    return true;
}

Str api_type_text(Context *ctx, DType dtype, uint32_t rank, const int64_t *dims)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    text_addf(&text, "%s[", dtype == DT_NONE ? "?" : dtype_name(dtype));
    for (uint32_t i = 0; i < rank; i++) {
        text_add(&text, i ? "," : "");
        if (dims[i] < 0)
            text_add(&text, "?");
        else
            text_addf(&text, "%" PRId64, dims[i]);
    }
    text_add(&text, "]");
    return text.data;
}

/* ---- files ---------------------------------------------------------------------------------------------------------------- */

typedef struct FileCall {
    igata_context *ctx;
    const char *path, *how;
    const igata_tensor *from;
    igata_tensor *to;
} FileCall;

static igata_status read_body(void *arg)
{
    FileCall *c = arg;
    Context *ctx = c->ctx->ctx;
    Tensor *t = ARENA_NEW(ctx_arena(ctx), Tensor);
    Str name = "";
    bool npy = str_ends_with(c->path, ".npy") || strcmp(c->path, "-") == 0; /* as results on standard output are */
    bool ok = npy ? front_npy_read(ctx, ctx_arena(ctx), c->path, t)
                  : front_read_tensor_pb(ctx, ctx_arena(ctx), c->path, &name, t);
    if (ok)
        *c->to = api_from_tensor(ctx_arena(ctx), name, t);
    return api_status(ok);
}

igata_status igata_tensor_read(igata_context *ctx, const char *path, igata_tensor *tensor)
{
    FileCall call = {.ctx = ctx, .path = path, .to = tensor};
    return api_run(ctx, read_body, &call);
}

static igata_status write_body(void *arg)
{
    FileCall *c = arg;
    Tensor t;
    return api_status(api_to_tensor(c->ctx->ctx, c->from, &t) && front_npy_write(c->ctx->ctx, c->path, &t));
}

igata_status igata_tensor_write(igata_context *ctx, const char *path, const igata_tensor *tensor)
{
    FileCall call = {.ctx = ctx, .path = path, .from = tensor};
    return api_run(ctx, write_body, &call);
}

/* ---- filling ---------------------------------------------------------------------------------------------------------------- */

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static void fill_random(DType dtype, void *data, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t x = next_random(&seed);
        if (dtype_is_float(dtype))
            elem_set_f64(dtype, data, i, (double)(x >> 11) * 0x1p-52 - 1.0);
        else
            elem_set_s64(dtype, data, i, (int64_t)(x >> 63));
    }
}

static igata_status fill_body(void *arg)
{
    FileCall *c = arg;
    Context *ctx = c->ctx->ctx;
    Tensor t;
    int64_t seed = 0;
    uint64_t bytes;
    bool random = strncmp(c->how, "random:", 7) == 0;
    if (!(random && text_parse_s64(c->how + 7, &seed) && seed >= 0) && strcmp(c->how, "zeros") != 0 && strcmp(c->how, "ones") != 0) {
        diag_report(ctx, 0, DIAG_api_option, str_format(ctx, "'%s' is not zeros, ones or random:SEED", c->how));
        return IGATA_E_OPTION;
    }
    for (size_t i = 0; i < c->to->rank && c->to->rank != IGATA_ANY_RANK; i++)
        if (c->to->dims[i] < 0)
            return api_status(diag_report(ctx, 0, DIAG_api_input, c->to->name,
                                          str_format(ctx, "axis %u has no size: give --shape, or --dim with a model", (unsigned)i)));
    if (!api_to_tensor(ctx, c->to, &t))
        return IGATA_E_MODEL;
    if (dtype_kind(t.dtype) == DK_STRING || dtype_kind(t.dtype) == DK_COMPLEX || !dtype_bytes(t.dtype, t.count, &bytes))
        return api_status(diag_report(ctx, 0, DIAG_api_input, c->to->name, "values of its type cannot be made up"));
    c->to->data = api_aligned(ctx_arena(ctx), bytes);
    c->to->bytes = (size_t)bytes;
    if (random)
        fill_random(t.dtype, c->to->data, t.count, (uint64_t)seed);
    for (uint64_t i = 0; *c->how == 'o' && i < t.count; i++) {
        if (dtype_is_float(t.dtype))
            elem_set_f64(t.dtype, c->to->data, i, 1);
        else
            elem_set_s64(t.dtype, c->to->data, i, 1);
    }
    return IGATA_OK;
}

igata_status igata_tensor_fill(igata_context *ctx, igata_tensor *tensor, const char *how)
{
    FileCall call = {.ctx = ctx, .how = how, .to = tensor};
    return api_run(ctx, fill_body, &call);
}

/* ---- text --------------------------------------------------------------------------------------------------------------------- */

static void add_element(Text *text, const Tensor *t, uint64_t i)
{
    DKind kind = dtype_kind(t->dtype);
    if (kind == DK_STRING)
        text_add_quoted(text, ((const char *const *)t->data)[i] ? ((const char *const *)t->data)[i] : "");
    else if (kind == DK_BOOL)
        text_add(text, ((const uint8_t *)t->data)[i] ? "true" : "false");
    else if (kind == DK_UINT)
        text_addf(text, "%" PRIu64, (uint64_t)elem_get_s64(t->dtype, t->data, i));
    else if (kind == DK_SINT)
        text_addf(text, "%" PRId64, elem_get_s64(t->dtype, t->data, i));
    else if (t->dtype == DT_C64)
        text_addf(text, "%g%+gi", (double)((const float *)t->data)[2 * i], (double)((const float *)t->data)[2 * i + 1]);
    else if (t->dtype == DT_C128)
        text_addf(text, "%g%+gi", ((const double *)t->data)[2 * i], ((const double *)t->data)[2 * i + 1]);
    else if (t->dtype == DT_F64)
        text_add_f64(text, ((const double *)t->data)[i]);
    else
        text_add_f32(text, (float)elem_get_f64(t->dtype, t->data, i));
}

typedef struct Describe {
    igata_context *ctx;
    const igata_tensor *tensor;
    size_t count;
    const char *text;
} Describe;

static igata_status type_body(void *arg)
{
    Describe *d = arg;
    uint32_t rank = d->tensor->rank == IGATA_ANY_RANK ? 0 : (uint32_t)d->tensor->rank;
    d->text = api_type_text(d->ctx->ctx, dtype_from_onnx(d->tensor->dtype), rank, d->tensor->dims);
    return IGATA_OK;
}

const char *igata_tensor_type_text(igata_context *ctx, const igata_tensor *tensor)
{
    Describe describe = {ctx, tensor, 0, ""};
    api_run(ctx, type_body, &describe);
    return describe.text;
}

static igata_status data_body(void *arg)
{
    Describe *d = arg;
    Tensor t;
    Text text;
    text_init(&text, ctx_arena(d->ctx->ctx));
    if (!api_to_tensor(d->ctx->ctx, d->tensor, &t))
        return IGATA_E_ARGUMENT;
    for (uint64_t i = 0; i < t.count && i < d->count; i++) {
        text_add(&text, i ? ", " : "");
        add_element(&text, &t, i);
    }
    if (t.count > d->count)
        text_add(&text, ", ..");
    d->text = text.data;
    return IGATA_OK;
}

const char *igata_tensor_data_text(igata_context *ctx, const igata_tensor *tensor, size_t count)
{
    Describe describe = {ctx, tensor, count, ""};
    api_run(ctx, data_body, &describe);
    return describe.text;
}

/* ---- comparison ----------------------------------------------------------------------------------------------------------------- */

/* The element's place among the values of its type in ascending order; both zeros are one place. */
static int64_t ordinal(DType dtype, const void *data, uint64_t i)
{
    uint64_t bits = 0;
    int width = dtype_bits(dtype);
    if (width < 8)
        return 0;
    memcpy(&bits, (const uint8_t *)data + i * (uint64_t)width / 8, (size_t)width / 8);
    uint64_t sign = UINT64_C(1) << (width - 1), magnitude = bits & (sign - 1);
    return bits & sign ? -(int64_t)magnitude : (int64_t)magnitude;
}

static double ulp_distance(DType dtype, const void *a, const void *b, uint64_t i)
{
    return fabs((double)ordinal(dtype, a, i) - (double)ordinal(dtype, b, i));
}

static bool same_bits(DType dtype, const void *a, const void *b, uint64_t i)
{
    int width = dtype_bits(dtype);
    if (width < 8)
        return elem_get_s64(dtype, a, i) == elem_get_s64(dtype, b, i);
    size_t size = (size_t)width / 8;
    return memcmp((const uint8_t *)a + i * size, (const uint8_t *)b + i * size, size) == 0;
}

typedef struct Compare {
    igata_context *ctx;
    const igata_tensor *got, *want;
    igata_tolerance tol;
    igata_difference diff;
} Compare;

static void note(Compare *c, uint64_t i, bool good, double badness, double *worst)
{
    if (good)
        return;
    if (c->diff.wrong++ == 0 || badness > *worst) {
        *worst = badness;
        c->diff.worst = (size_t)i;
    }
}

/* Whether element i is good, and how bad it is otherwise: the error by what is allowed. */
static bool check_float(Compare *c, DType dtype, const void *got, const void *want, uint64_t i, double *badness)
{
    double g = elem_get_f64(dtype, got, i), w = elem_get_f64(dtype, want, i);
    *badness = INFINITY;
    if (isnan(g) && isnan(w))
        return true;
    if (!isfinite(g) || !isfinite(w)) {
        bool near = !isnan(g) && !isnan(w) && ulp_distance(dtype, got, want, i) <= c->tol.ulp;
        return g == w || (near && !c->tol.bits);
    }
    double error = fabs(g - w), allowed = c->tol.atol + c->tol.rtol * fabs(w);
    double ulp = ulp_distance(dtype, got, want, i), rel = w != 0 ? error / fabs(w) : 0;
    c->diff.max_abs = fmax(c->diff.max_abs, error);
    c->diff.max_rel = fmax(c->diff.max_rel, rel);
    c->diff.max_ulp = fmax(c->diff.max_ulp, ulp);
    *badness = allowed > 0 ? error / allowed : error;
    if (c->tol.bits)
        return same_bits(dtype, got, want, i);
    return error <= allowed || g == w || ulp <= c->tol.ulp;
}

static void compare_elements(Compare *c, const Tensor *got, const Tensor *want)
{
    double worst = 0, badness = 1;
    DType part = got->dtype == DT_C64 ? DT_F32 : got->dtype == DT_C128 ? DT_F64 : got->dtype;
    uint64_t parts = part == got->dtype ? 1 : 2;
    for (uint64_t i = 0; i < got->count; i++) {
        bool good = true;
        if (got->dtype == DT_STR) {
            const char *a = ((const char *const *)got->data)[i], *b = ((const char *const *)want->data)[i];
            good = strcmp(a ? a : "", b ? b : "") == 0;
        } else if (dtype_is_float(part)) {
            badness = 0;
            for (uint64_t p = 0; p < parts; p++) {
                double one;
                bool fine = check_float(c, part, got->data, want->data, parts * i + p, &one);
                badness = fine ? badness : fmax(badness, one);
                good &= fine;
            }
        } else {
            int64_t a = elem_get_s64(part, got->data, i), b = elem_get_s64(part, want->data, i);
            double error = fabs((double)a - (double)b);
            if (part == DT_U64)
                error = fabs((double)(uint64_t)a - (double)(uint64_t)b);
            c->diff.max_abs = fmax(c->diff.max_abs, error);
            badness = error;
            good = a == b || (!c->tol.bits && part != DT_BOOL && error <= c->tol.atol + c->tol.rtol * fabs((double)b));
        }
        note(c, i, good, badness, &worst);
    }
}

static void describe_worst(Compare *c, const Tensor *got, const Tensor *want)
{
    Text text;
    uint64_t rest = c->diff.worst;
    int64_t at[IR_MAX_RANK];
    text_init(&text, ctx_arena(c->ctx->ctx));
    for (uint32_t d = got->rank; d-- > 0;) {
        at[d] = (int64_t)(rest % (uint64_t)got->dim[d]);
        rest /= (uint64_t)got->dim[d];
    }
    text_addf(&text, "%s[", c->want->name ? c->want->name : "");
    for (uint32_t d = 0; d < got->rank; d++)
        text_addf(&text, "%s%" PRId64, d ? "," : "", at[d]);
    text_add(&text, "]: ");
    add_element(&text, got, c->diff.worst);
    text_add(&text, " instead of ");
    add_element(&text, want, c->diff.worst);
    text_addf(&text, " (%zu of %zu wrong", c->diff.wrong, c->diff.elements);
    if (dtype_is_float(got->dtype) && dtype_bits(got->dtype) >= 8)
        text_addf(&text, ", %.0f ulp", ulp_distance(got->dtype, got->data, want->data, c->diff.worst));
    text_add(&text, ")");
    c->diff.text = text.data;
}

static igata_status compare_body(void *arg)
{
    Compare *c = arg;
    Context *ctx = c->ctx->ctx;
    Tensor got, want;
    if (!api_to_tensor(ctx, c->got, &got) || !api_to_tensor(ctx, c->want, &want))
        return IGATA_E_MODEL;
    c->diff.text = "";
    c->diff.elements = want.count;
    if (got.dtype != want.dtype || got.rank != want.rank || memcmp(got.dim, want.dim, sizeof *got.dim * got.rank) != 0) {
        c->diff.wrong = want.count;
        c->diff.text = str_format(ctx, "%s: type %s instead of %s", c->want->name ? c->want->name : "",
                                  api_type_text(ctx, got.dtype, got.rank, got.dim),
                                  api_type_text(ctx, want.dtype, want.rank, want.dim));
        return IGATA_E_MISMATCH;
    }
    compare_elements(c, &got, &want);
    if (c->diff.wrong == 0)
        return IGATA_OK;
    describe_worst(c, &got, &want);
    return IGATA_E_MISMATCH;
}

igata_status igata_tensor_compare(igata_context *ctx, const igata_tensor *got, const igata_tensor *want,
                                  const igata_tolerance *tolerance, igata_difference *difference)
{
    Compare compare = {.ctx = ctx, .got = got, .want = want, .diff.size = sizeof compare.diff};
    if (tolerance->size != sizeof *tolerance || difference->size != sizeof *difference)
        return IGATA_E_ARGUMENT;
    compare.tol = *tolerance;
    igata_status status = api_run(ctx, compare_body, &compare);
    *difference = compare.diff;
    return status;
}
