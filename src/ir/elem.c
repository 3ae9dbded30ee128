/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of constants as text and as raw bits, and the other lexical rules that printer and parser share.
 */
#include "ir/ir_int.h"

#include <math.h>
#include <string.h>

bool ir_is_identifier(const char *text)
{
    for (const char *s = text; *s; s++) {
        bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_';
        bool inner = (*s >= '0' && *s <= '9') || *s == '.' || *s == '$';
        if (!letter && (s == text || !inner))
            return false;
    }
    return *text != '\0';
}

void ir_print_name(Text *text, const char *name)
{
    if (ir_is_identifier(name))
        text_add(text, name);
    else
        text_add_quoted(text, name);
}

bool ir_path_is_inside(const char *path)
{
    for (const char *s = path;; s++) {
        size_t length = strcspn(s, "/\\");
        if (length == 0 || (length == 1 && s[0] == '.') || (length == 2 && s[0] == '.' && s[1] == '.'))
            return false;
        s += length;
        if (*s == '\0')
            return true;
    }
}

uint64_t elem_bits(DType dtype, const void *data, uint64_t index)
{
    const uint8_t *bytes = data;
    unsigned width = (unsigned)dtype_bits(dtype);
    if (width < 8) {
        unsigned per_byte = 8 / width;
        return bytes[index / per_byte] >> (unsigned)(index % per_byte) * width & ((1u << width) - 1);
    }
    uint64_t bits = 0;
    for (unsigned i = width / 8; i-- > 0;)
        bits = bits << 8 | bytes[index * (width / 8) + i];
    return bits;
}

void elem_set_bits(DType dtype, void *data, uint64_t index, uint64_t bits)
{
    uint8_t *bytes = data;
    unsigned width = (unsigned)dtype_bits(dtype);
    if (width < 8) {
        unsigned per_byte = 8 / width, shift = (unsigned)(index % per_byte) * width;
        uint8_t *byte = &bytes[index / per_byte];
        unsigned mask = ((1u << width) - 1) << shift;
        *byte = (uint8_t)((*byte & ~mask) | ((unsigned)bits << shift & mask));
        return;
    }
    for (unsigned i = 0; i < width / 8; i++)
        bytes[index * (width / 8) + i] = (uint8_t)(bits >> 8 * i);
}

static bool parse_u64(const char *text, uint64_t *value)
{
    uint64_t x = 0;
    for (const char *s = text; *s; s++) {
        if (*s < '0' || *s > '9' || x > (UINT64_MAX - (uint64_t)(*s - '0')) / 10)
            return false;
        x = x * 10 + (uint64_t)(*s - '0');
    }
    *value = x;
    return *text != '\0';
}

/* Rounds. Infinities and NaN only where the type has them; casts saturate, a constant in a text does not. */
static bool set_float(DType dtype, void *data, uint64_t index, double value)
{
    if (dtype_bits(dtype) == 8 && isinf(value))
        elem_set_bits(dtype, data, index, f8_from_f32(dtype, (float)value, false));
    else
        elem_set_f64(dtype, data, index, value);
    double stored = elem_get_f64(dtype, data, index);
    return isnan(value) ? isnan(stored) : !isinf(value) || stored == value;
}

bool elem_from_text(DType dtype, const char *text, void *data, uint64_t index)
{
    int bits = dtype_bits(dtype);
    int64_t number;
    uint64_t natural;
    double real;
    switch (dtype_kind(dtype)) {
    case DK_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return false;
        elem_set_bits(dtype, data, index, *text == 't');
        return true;
    case DK_SINT:
        if (!text_parse_s64(text, &number) ||
            (bits < 64 && (number < -(INT64_C(1) << (bits - 1)) || number >= INT64_C(1) << (bits - 1))))
            return false;
        elem_set_bits(dtype, data, index, (uint64_t)number);
        return true;
    case DK_UINT:
        if (!parse_u64(text, &natural) || (bits < 64 && natural >> bits))
            return false;
        elem_set_bits(dtype, data, index, natural);
        return true;
    case DK_FLOAT:
        return text_parse_f64(text, &real) && set_float(dtype, data, index, real);
    case DK_NONE:
    case DK_COMPLEX:
    case DK_STRING:
        break;
    }
    return false;
}
