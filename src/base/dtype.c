/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types: the table of dtype.def, conversions of the small float formats, access to packed elements.
 *
 * All small floats go through one encoder and one decoder, described by a row of `formats`. The encoder starts from a
 * double, so f64 -> f16 is rounded once; f32 -> double is exact, so that path is right as well.
 */
#include "base/base.h"

#include <math.h>
#include <string.h>

typedef struct TypeRow {
    const char *name;
    int bits;
    DKind kind;
    int onnx;
} TypeRow;

static const TypeRow types[DT_COUNT] = {
    [DT_NONE] = {"none", 0, DK_NONE, 0},
#define DTYPE(id, name, bits, kind, onnx, torch) [DT_##id] = {name, bits, DK_##kind, onnx},
#include "base/dtype.def"
#undef DTYPE
};

const char *dtype_name(DType dtype) { return types[dtype].name; }
int dtype_bits(DType dtype) { return types[dtype].bits; }
DKind dtype_kind(DType dtype) { return types[dtype].kind; }
int dtype_to_onnx(DType dtype) { return types[dtype].onnx; }

DType dtype_from_name(const char *name)
{
    for (int i = DT_NONE + 1; i < DT_COUNT; i++)
        if (strcmp(types[i].name, name) == 0)
            return (DType)i;
    return DT_NONE;
}

DType dtype_from_onnx(int64_t data_type)
{
    for (int i = DT_NONE + 1; i < DT_COUNT; i++)
        if (types[i].onnx && types[i].onnx == data_type)
            return (DType)i;
    return DT_NONE;
}

bool dtype_bytes(DType dtype, uint64_t n, uint64_t *bytes)
{
    uint64_t bits = (uint64_t)dtype_bits(dtype);
    if (bits == 0)
        return false;
    if (bits < 8) {
        uint64_t per_byte = 8 / bits;
        *bytes = n / per_byte + (n % per_byte != 0);
        return true;
    }
    if (n > UINT64_MAX / (bits / 8))
        return false;
    *bytes = n * (bits / 8);
    return true;
}

/* Codes without the sign bit. `over` is what lies beyond `max` (IEEE: infinity, fn: NaN); 0 for f4: there is nothing. */
typedef struct Format {
    int mantissa, bias;
    uint32_t sign, max, over, nan;
    bool unsigned_zero; /* fnuz: the code of -0 is NaN */
} Format;

static const Format formats[DT_COUNT] = {
    [DT_F16] = {10, 15, 0x8000, 0x7BFF, 0x7C00, 0x7E00, false},
    [DT_BF16] = {7, 127, 0x8000, 0x7F7F, 0x7F80, 0x7FC0, false},
    [DT_F8E4M3FN] = {3, 7, 0x80, 0x7E, 0x7F, 0x7F, false},
    [DT_F8E4M3FNUZ] = {3, 8, 0x80, 0x7F, 0x80, 0x80, true},
    [DT_F8E5M2] = {2, 15, 0x80, 0x7B, 0x7C, 0x7E, false},
    [DT_F8E5M2FNUZ] = {2, 16, 0x80, 0x7F, 0x80, 0x80, true},
    [DT_F4E2M1] = {1, 1, 0x8, 0x7, 0, 0, false},
};

/* 2^n for -1022 <= n <= 1023 */
static double power2(int n) { return f64_from_bits((uint64_t)(n + 1023) << 52); }

/* Round half to even. Beyond the largest finite code: `over`, or the largest where `saturate`. The NaN of f4, which has
 * none, is -0. */
static uint32_t encode(const Format *f, double value, bool saturate)
{
    uint64_t bits = f64_bits(value), significand = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    uint32_t sign = bits >> 63 ? f->sign : 0;
    if (isnan(value))
        return f->unsigned_zero ? f->nan : f->nan ? sign | f->nan : f->sign;
    int exponent = (int)(bits >> 52 & 0x7FF) - 1023, least = 1 - f->bias;
    int below = exponent < least ? least - exponent : 0;
    int shift = 52 - f->mantissa + below;
    uint64_t code = 0;
    if (shift <= 54) {
        uint64_t rest = significand & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
        code = significand >> shift;
        code += rest > half || (rest == half && (code & 1));
        if (!below) /* the significand's leading one adds 1 to the exponent field */
            code += (uint64_t)(exponent - least) << f->mantissa;
    }
    if (code > f->max) {
        if (saturate || !f->over)
            code = f->max;
        else
            return f->unsigned_zero ? f->over : sign | f->over;
    }
    return code == 0 && f->unsigned_zero ? 0 : sign | (uint32_t)code;
}

static double decode(const Format *f, uint32_t bits)
{
    bool negative = (bits & f->sign) != 0;
    uint32_t code = bits & (f->sign - 1);
    if (f->unsigned_zero && bits == f->nan)
        return (double)NAN;
    double value;
    if (code > f->max) {
        value = code == f->over && f->over != f->nan ? (double)INFINITY : (double)NAN;
    } else {
        int field = (int)(code >> f->mantissa);
        uint32_t significand = code & ((1u << f->mantissa) - 1);
        if (field)
            significand |= 1u << f->mantissa;
        value = significand * power2((field ? field : 1) - f->bias - f->mantissa);
    }
    return negative ? -value : value;
}

float f16_to_f32(uint16_t bits) { return (float)decode(&formats[DT_F16], bits); }
uint16_t f16_from_f32(float value) { return (uint16_t)encode(&formats[DT_F16], value, false); }
uint16_t f16_from_f64(double value) { return (uint16_t)encode(&formats[DT_F16], value, false); }
float bf16_to_f32(uint16_t bits) { return f32_from_bits((uint32_t)bits << 16); }
uint16_t bf16_from_f32(float value) { return (uint16_t)encode(&formats[DT_BF16], value, false); }

/* ONNX Cast-24: a scale of E8M0 is 2^(code - 127), 0xFF is NaN. Zero is the least scale where `saturate`, else NaN; what
 * ONNX leaves undefined, a negative value, is NaN. */
uint8_t f8e8m0_from_f64(double value, E8M0Round round, bool saturate)
{
    if (isnan(value) || value < 0 || (!saturate && value == 0))
        return 0xFF;
    if (value == 0)
        return 0;
    if (isinf(value))
        return saturate ? 0xFE : 0xFF;
    int exponent;
    double fraction = frexp(value, &exponent); /* value = fraction * 2^exponent, fraction in [0.5, 1) */
    exponent--;
    if ((round == E8M0_UP && fraction > 0.5) || (round == E8M0_NEAREST && fraction >= 0.75))
        exponent++;
    if (exponent > 127)
        return saturate ? 0xFE : 0xFF;
    if (exponent < -127)
        return saturate ? 0 : 0xFF;
    return (uint8_t)(exponent + 127);
}

static double f8e8m0_to_f64(uint8_t bits) { return bits == 0xFF ? (double)NAN : power2((int)bits - 127); }

float f8_to_f32(DType dtype, uint8_t bits)
{
    return (float)(dtype == DT_F8E8M0 ? f8e8m0_to_f64(bits) : decode(&formats[dtype], bits));
}

uint8_t f8_from_f32(DType dtype, float value, bool saturate)
{
    if (dtype == DT_F8E8M0)
        return f8e8m0_from_f64(value, E8M0_UP, saturate);
    return (uint8_t)encode(&formats[dtype], value, saturate);
}

/* The stored bits of one element of at most 64 bits (c128: its real part). */
static uint64_t load_bits(DType dtype, const void *data, uint64_t index)
{
    const uint8_t *bytes = data;
    int bits = dtype_bits(dtype);
    if (bits < 8) {
        unsigned per_byte = 8u / (unsigned)bits, shift = (unsigned)(index % per_byte) * (unsigned)bits;
        return (uint64_t)(bytes[index / per_byte] >> shift) & ((1u << bits) - 1);
    }
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } word;
    bytes += index * (uint64_t)(bits / 8);
    switch (bits) {
    case 8: return bytes[0];
    case 16: memcpy(&word.u16, bytes, 2); return word.u16;
    case 32: memcpy(&word.u32, bytes, 4); return word.u32;
    case 64:
    case 128: memcpy(&word.u64, bytes, 8); return word.u64;
    default: return 0; /* str */
    }
}

static void store_bits(DType dtype, void *data, uint64_t index, uint64_t value)
{
    uint8_t *bytes = data;
    int bits = dtype_bits(dtype);
    if (bits < 8) {
        unsigned per_byte = 8u / (unsigned)bits, shift = (unsigned)(index % per_byte) * (unsigned)bits;
        unsigned mask = ((1u << bits) - 1) << shift;
        uint8_t *byte = &bytes[index / per_byte];
        *byte = (uint8_t)((*byte & ~mask) | ((unsigned)(value << shift) & mask));
        return;
    }
    bytes += index * (uint64_t)(bits / 8);
    uint8_t u8 = (uint8_t)value;
    uint16_t u16 = (uint16_t)value;
    uint32_t u32 = (uint32_t)value;
    uint64_t zero = 0;
    switch (bits) {
    case 8: memcpy(bytes, &u8, 1); break;
    case 16: memcpy(bytes, &u16, 2); break;
    case 32: memcpy(bytes, &u32, 4); break;
    case 64: memcpy(bytes, &value, 8); break;
    case 128: memcpy(bytes, &value, 8); memcpy(bytes + 8, &zero, 8); break;
    default: break; /* str */
    }
}

static int64_t sign_extend(uint64_t value, int bits)
{
    uint64_t sign = UINT64_C(1) << (bits - 1);
    return (int64_t)((value ^ sign) - sign);
}

static double float_from_bits(DType dtype, uint64_t bits)
{
    switch (dtype) {
    case DT_F64: return f64_from_bits(bits);
    case DT_F32: return f32_from_bits((uint32_t)bits);
    case DT_F8E8M0: return f8e8m0_to_f64((uint8_t)bits);
    default: return decode(&formats[dtype], (uint32_t)bits);
    }
}

static uint64_t float_to_bits(DType dtype, double value)
{
    switch (dtype) {
    case DT_F64: return f64_bits(value);
    case DT_F32: return f32_bits((float)value);
    case DT_F8E8M0: return f8e8m0_from_f64(value, E8M0_UP, true);
    case DT_F16:
    case DT_BF16: return encode(&formats[dtype], value, false);
    default: return encode(&formats[dtype], value, true);
    }
}

/* numerics.md, edge rules: float -> int truncates and saturates, NaN -> 0. The limits are exact doubles: the upper one
 * is the first value beyond the range. */
static int64_t saturate_signed(double value, int bits)
{
    double limit = power2(bits - 1);
    if (isnan(value))
        return 0;
    if (value >= limit)
        return (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
    if (value <= -limit)
        return -(int64_t)((UINT64_C(1) << (bits - 1)) - 1) - 1;
    return (int64_t)value;
}

static uint64_t saturate_unsigned(double value, int bits)
{
    if (!(value > 0))
        return 0;
    if (value >= power2(bits))
        return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    return (uint64_t)value;
}

/* A double that any format of at most 51 significant bits rounds like the integer itself: bits that a double cannot
 * hold are kept as a sticky last bit. */
static double sticky_double(uint64_t magnitude)
{
    int drop = 0;
    while (magnitude >> drop >> 53)
        drop++;
    uint64_t kept = magnitude >> drop;
    if (kept << drop != magnitude)
        kept |= 1;
    return (double)kept * power2(drop);
}

double elem_get_f64(DType dtype, const void *data, uint64_t index)
{
    uint64_t bits = load_bits(dtype, data, index);
    switch (dtype_kind(dtype)) {
    case DK_FLOAT: return float_from_bits(dtype, bits);
    case DK_SINT: return (double)sign_extend(bits, dtype_bits(dtype));
    case DK_UINT: return (double)bits;
    case DK_BOOL: return bits != 0;
    case DK_COMPLEX: return float_from_bits(dtype == DT_C64 ? DT_F32 : DT_F64, dtype == DT_C64 ? (uint32_t)bits : bits);
    default: return 0;
    }
}

int64_t elem_get_s64(DType dtype, const void *data, uint64_t index)
{
    uint64_t bits = load_bits(dtype, data, index);
    switch (dtype_kind(dtype)) {
    case DK_SINT: return sign_extend(bits, dtype_bits(dtype));
    case DK_UINT: return (int64_t)bits;
    case DK_BOOL: return bits != 0;
    default: return saturate_signed(elem_get_f64(dtype, data, index), 64);
    }
}

void elem_set_f64(DType dtype, void *data, uint64_t index, double value)
{
    uint64_t bits = 0;
    switch (dtype_kind(dtype)) {
    case DK_FLOAT: bits = float_to_bits(dtype, value); break;
    case DK_SINT: bits = (uint64_t)saturate_signed(value, dtype_bits(dtype)); break;
    case DK_UINT: bits = saturate_unsigned(value, dtype_bits(dtype)); break;
    case DK_BOOL: bits = value != 0; break;
    case DK_COMPLEX:
        /* c64 keeps a zero imaginary part in the upper half */
        if (dtype == DT_C64) {
            float parts[2] = {(float)value, 0};
            memcpy((uint8_t *)data + 8 * index, parts, sizeof parts);
            return;
        }
        bits = f64_bits(value);
        break;
    default: break;
    }
    store_bits(dtype, data, index, bits);
}

void elem_set_s64(DType dtype, void *data, uint64_t index, int64_t value)
{
    switch (dtype_kind(dtype)) {
    case DK_SINT:
    case DK_UINT: store_bits(dtype, data, index, (uint64_t)value); break;
    case DK_BOOL: store_bits(dtype, data, index, value != 0); break;
    default: {
        double magnitude = sticky_double(value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
        double wide = dtype_bits(dtype) == 64 || dtype_bits(dtype) == 128 ? (double)value
                                                                          : (value < 0 ? -magnitude : magnitude);
        elem_set_f64(dtype, data, index, wide);
    }
    }
}
