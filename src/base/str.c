/* SPDX-License-Identifier: Apache-2.0
 *
 * Interned strings, text under construction, numbers as text.
 *
 * Numbers must not depend on the process's locale. printf and strtod obey the calling thread's locale, so each
 * conversion runs in the C locale: newlocale(LC_ALL, "C") yields the C library's static object and uselocale sets a
 * thread-local pointer, which together cost a few nanoseconds and need no state of ours.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "base/base_int.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Str str_intern_n(Context *ctx, const char *text, size_t length) { return intern_bytes(ctx->strings, text, length); }

Str str_intern(Context *ctx, const char *text) { return str_intern_n(ctx, text, strlen(text)); }

bool str_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

Str str_format(Context *ctx, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, format, args);
    const char *text = small;
    if (length < 0 || (size_t)length >= sizeof small)
        text = arena_vprintf(ctx->arena, format, again);
    va_end(again);
    va_end(args);
    return str_intern(ctx, text);
}

void text_init(Text *text, Arena *arena)
{
    *text = (Text){.arena = arena, .cap = 64};
    text->data = arena_alloc(arena, text->cap);
}

/* Room for `more` characters and the NUL. */
static void reserve(Text *text, size_t more)
{
    if (more < text->cap - text->len)
        return;
    if (more > SIZE_MAX / 4 || text->len > SIZE_MAX / 4)
        ctx_unwind(arena_context(text->arena), CTX_NOMEM);
    size_t cap = text->cap * 2;
    if (cap <= text->len + more)
        cap = text->len + more + 1;
    char *data = arena_alloc(text->arena, cap);
    memcpy(data, text->data, text->len);
    text->data = data;
    text->cap = cap;
}

void text_add_n(Text *text, const char *string, size_t length)
{
    reserve(text, length);
    if (length)
        memcpy(text->data + text->len, string, length);
    text->len += length;
    text->data[text->len] = '\0';
}

void text_add(Text *text, const char *string) { text_add_n(text, string, strlen(string)); }

void text_addf(Text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t room = text->cap - text->len;
    int length = vsnprintf(text->data + text->len, room, format, args);
    va_end(args);
    if (length < 0) {
        va_end(again);
        text->data[text->len] = '\0';
        ig_bug(arena_context(text->arena), "unprintable format '%s'", format);
    }
    if ((size_t)length >= room) {
        text->data[text->len] = '\0'; /* in case of unwinding */
        reserve(text, (size_t)length);
        vsnprintf(text->data + text->len, (size_t)length + 1, format, again);
    }
    va_end(again);
    text->len += (size_t)length;
}

void text_add_quoted(Text *text, const char *string)
{
    text_add(text, "\"");
    for (const char *s = string; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            text_addf(text, "\\%c", c);
        else if (c == '\n')
            text_add(text, "\\n");
        else if (c == '\t')
            text_add(text, "\\t");
        else if (c < 0x20 || c == 0x7f)
            text_addf(text, "\\x%02X", c);
        else
            text_add_n(text, s, 1);
    }
    text_add(text, "\"");
}

static locale_t enter_c_locale(locale_t *plain)
{
    *plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return uselocale(*plain);
}

static void leave_c_locale(locale_t plain, locale_t before)
{
    uselocale(before);
    if (plain)
        freelocale(plain);
}

/* Does this many significant digits, correctly rounded, read back to the value? Leaves them in `digits` as d.ddde+xx. */
static bool digits_suffice(double value, bool single, int count, char digits[40])
{
    snprintf(digits, 40, "%.*e", count - 1, value);
    return single ? f32_bits(strtof(digits, NULL)) == f32_bits((float)value)
                  : f64_bits(strtod(digits, NULL)) == f64_bits(value);
}

/* d.ddde+xx (sign taken off) -> positional notation for readable exponents, else d.ddde20. */
static void add_decimal(Text *text, const char *digits)
{
    const char *e = strchr(digits, 'e');
    long exponent = strtol(e + 1, NULL, 10);
    char d[20];
    int n = 0;
    for (const char *s = digits; s < e; s++)
        if (*s != '.')
            d[n++] = *s;
    while (n > 1 && d[n - 1] == '0')
        n--;
    if (exponent >= 0 && exponent < 15) {
        for (int i = 0; i < n || i <= exponent; i++) {
            if (i == exponent + 1)
                text_add(text, ".");
            text_add_n(text, i < n ? &d[i] : "0", 1);
        }
    } else if (exponent < 0 && exponent >= -5) {
        text_add(text, "0.");
        for (long i = -1; i > exponent; i--)
            text_add(text, "0");
        text_add_n(text, d, (size_t)n);
    } else {
        text_add_n(text, d, 1);
        if (n > 1)
            text_add(text, ".");
        text_add_n(text, d + 1, (size_t)n - 1);
        text_addf(text, "e%ld", exponent);
    }
}

/* More digits are never farther from the value, so the least sufficient count can be bisected; the largest (9 for
 * binary32, 17 for binary64) always suffices. */
static void add_float(Text *text, double value, bool single)
{
    if (isnan(value)) {
        text_add(text, "nan");
        return;
    }
    if (signbit(value)) {
        text_add(text, "-");
        value = -value;
    }
    if (isinf(value)) {
        text_add(text, "inf");
        return;
    }
    char digits[40];
    locale_t plain, before = enter_c_locale(&plain);
    int low = 1, high = single ? 9 : 17;
    while (low < high) {
        int middle = (low + high) / 2;
        if (digits_suffice(value, single, middle, digits))
            high = middle;
        else
            low = middle + 1;
    }
    digits_suffice(value, single, high, digits);
    leave_c_locale(plain, before);
    add_decimal(text, digits);
}

void text_add_f64(Text *text, double value) { add_float(text, value, false); }

void text_add_f32(Text *text, float value) { add_float(text, value, true); }

/* Decimal or hexadecimal floating literals, inf, nan; no blanks, nothing that overflows. */
bool text_parse_f64(const char *string, double *value)
{
    const char *s = string + (*string == '-' || *string == '+');
    bool number = (*s >= '0' && *s <= '9') || *s == '.';
    if (!number && strcmp(s, "inf") != 0 && strcmp(s, "nan") != 0)
        return false;
    locale_t plain, before = enter_c_locale(&plain);
    char *end;
    int saved = errno;
    double x = strtod(string, &end);
    errno = saved;
    leave_c_locale(plain, before);
    if (end == string || *end != '\0' || (number && isinf(x)))
        return false;
    *value = x;
    return true;
}

bool text_parse_s64(const char *string, int64_t *value)
{
    bool negative = *string == '-';
    const char *s = string + (*string == '-' || *string == '+');
    uint64_t limit = negative ? UINT64_C(1) << 63 : INT64_MAX, x = 0;
    if (*s == '\0')
        return false;
    for (; *s; s++) {
        if (*s < '0' || *s > '9')
            return false;
        unsigned digit = (unsigned)(*s - '0');
        if (x > (limit - digit) / 10)
            return false;
        x = x * 10 + digit;
    }
    *value = (int64_t)(negative ? 0 - x : x);
    return true;
}
