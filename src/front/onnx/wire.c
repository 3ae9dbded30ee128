/* SPDX-License-Identifier: Apache-2.0
 *
 * The protobuf wire format, driven by tables made from the field lists in onnx_int.h.
 * Source: the Protocol Buffers encoding specification ("Message structure", "Last one wins", "Packed repeated fields").
 *
 * Input is not trusted. Every read is bounded by the end of its message, every length is compared with what is left (never
 * added to a position first), depth is limited, and memory grows only with bytes that were read: an empty element costs the
 * file at least two bytes. Unknown fields are skipped; a known field of a wrong wire type, groups, and varints of more than 64
 * bits are refused. Bytes are views of the file, never copied.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

enum { MAX_DEPTH = 256, MAX_ELEMENTS = 1 << 30 };
typedef enum Kind { KIND_INT, KIND_F32, KIND_F64, KIND_STR, KIND_BYTES, KIND_MSG } Kind;
enum { ONE = 0, REP = 1 };
enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_END_GROUP, WIRE_32 };

typedef struct Message Message;
typedef struct Field {
    const char *name;
    const Message *sub;
    uint32_t number;
    uint16_t offset;
    uint8_t kind, repeated;
} Field;
struct Message {
    const char *name;
    const Field *fields;
    uint32_t n_fields;
    size_t size;
};

static const Message NoMessage_message = {.name = "message", .size = sizeof(NoMessage)};
#define X(M) static const Message M##_message;
MESSAGES(X)
#undef X
#define ROW(M, num, field, knd, arity, submessage)                                                                     \
    {.name = #field,                                                                                                   \
     .sub = &submessage##_message,                                                                                     \
     .number = (num),                                                                                                  \
     .offset = offsetof(M, field),                                                                                     \
     .kind = KIND_##knd,                                                                                               \
     .repeated = arity},
#define X(M)                                                                                                           \
    static const Field M##_fields[] = {FIELDS_##M(ROW, M)};                                                            \
    static const Message M##_message = {#M, M##_fields, IG_COUNT(M##_fields), sizeof(M)};
MESSAGES(X)
#undef X

typedef struct Frame { /* where in the message tree: for messages only */
    const struct Frame *outer;
    const Message *message;
    const Field *field;
    uint32_t index;
} Frame;
typedef struct Wire {
    Context *ctx;
    Arena *arena;
    Str file;
    const uint8_t *base, *at, *end; /* end: of the message being read */
    uint32_t depth;
} Wire;

static void print_path(Text *text, const Frame *frame)
{
    if (!frame)
        return;
    print_path(text, frame->outer);
    text_add(text, frame->outer ? "" : frame->message->name);
    if (!frame->field)
        return;
    text_addf(text, ".%s", frame->field->name);
    if (frame->field->repeated)
        text_addf(text, "[%u]", frame->index);
}

static bool bad(Wire *w, const Frame *frame, const char *what)
{
    Text text;
    text_init(&text, w->arena);
    print_path(&text, frame);
    return diag_report(w->ctx, 0, DIAG_onnx_wire, w->file, text.data, (unsigned long long)(w->at - w->base), what);
}

static bool read_varint(Wire *w, const Frame *frame, uint64_t *value)
{
    *value = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        if (w->at == w->end)
            return bad(w, frame, "the data ends inside a number");
        uint8_t byte = *w->at++;
        if (shift == 63 && byte > 1)
            break;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return bad(w, frame, "a number has more than 64 bits");
}

static bool read_span(Wire *w, const Frame *frame, Blob *span)
{
    uint64_t size;
    if (!read_varint(w, frame, &size))
        return false;
    if (size > (uint64_t)(w->end - w->at))
        return bad(w, frame, "a length reaches past the end of the data");
    *span = (Blob){w->at, size};
    w->at += size;
    return true;
}

static bool read_fixed(Wire *w, const Frame *frame, void *value, size_t size)
{
    if ((size_t)(w->end - w->at) < size)
        return bad(w, frame, "the data ends inside a number");
    memcpy(value, w->at, size); /* the wire is little-endian, as are igata's hosts */
    w->at += size;
    return true;
}

static bool skip(Wire *w, const Frame *frame, uint32_t wire_type)
{
    uint64_t number;
    Blob span;
    switch (wire_type) {
    case WIRE_VARINT: return read_varint(w, frame, &number);
    case WIRE_64: return read_fixed(w, frame, &number, 8);
    case WIRE_32: return read_fixed(w, frame, &number, 4);
    case WIRE_BYTES: return read_span(w, frame, &span);
    case WIRE_GROUP:
    case WIRE_END_GROUP: return bad(w, frame, "groups are not part of the ONNX format");
    default: return bad(w, frame, "a field has a wire type that does not exist");
    }
}

/* Well-formed UTF-8 (Unicode table 3-7) without NUL. */
static bool is_utf8(const uint8_t *s, uint64_t n)
{
    for (uint64_t i = 0; i < n;) {
        uint8_t c = s[i++];
        uint32_t more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC2 ? 1 : 0;
        if (c == 0 || c > 0xF4 || (c >= 0x80 && more == 0) || n - i < more)
            return false;
        for (uint32_t k = 0; k < more; k++) {
            uint8_t lo = k ? 0x80 : c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
            uint8_t hi = k ? 0xBF : c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
            if (s[i] < lo || s[i] > hi)
                return false;
            i++;
        }
    }
    return true;
}

/* ---- one value of each kind; `slot` is the member --------------------------------------------------------------------- */

static void put_number(Wire *w, const Field *field, void *slot, uint64_t bits)
{
    if (field->kind == KIND_F64) {
        vec_push(w->arena, (F64List *)slot, f64_from_bits(bits));
    } else if (field->kind == KIND_F32) {
        float value = f32_from_bits((uint32_t)bits);
        if (field->repeated)
            vec_push(w->arena, (F32List *)slot, value);
        else
            *(float *)slot = value;
    } else if (field->repeated) {
        vec_push(w->arena, (IntList *)slot, (int64_t)bits);
    } else {
        *(int64_t *)slot = (int64_t)bits;
    }
}

static bool read_number(Wire *w, const Frame *frame, void *slot)
{
    const Field *field = frame->field;
    uint64_t bits = 0;
    if (field->kind == KIND_INT ? !read_varint(w, frame, &bits)
                                : !read_fixed(w, frame, &bits, field->kind == KIND_F32 ? 4 : 8))
        return false;
    put_number(w, field, slot, bits);
    return true;
}

static bool read_packed(Wire *w, const Frame *frame, void *slot)
{
    Blob span;
    if (!read_span(w, frame, &span))
        return false;
    Wire inner = *w;
    inner.at = span.data;
    inner.end = span.data + span.size;
    uint64_t each = frame->field->kind == KIND_F32 ? 4 : frame->field->kind == KIND_F64 ? 8 : 1;
    if (span.size % each)
        return bad(w, frame, "a packed list ends inside a number");
    if (span.size / each > MAX_ELEMENTS)
        return bad(w, frame, "a list has more than 2^30 elements");
    while (inner.at < inner.end)
        if (!read_number(&inner, frame, slot))
            return false;
    return true;
}

static bool read_text(Wire *w, const Frame *frame, void *slot)
{
    Blob span;
    if (!read_span(w, frame, &span))
        return false;
    if (frame->field->kind == KIND_BYTES) {
        if (frame->field->repeated)
            vec_push(w->arena, (BlobList *)slot, span);
        else
            *(Blob *)slot = span;
        return true;
    }
    if (!is_utf8(span.data, span.size))
        return bad(w, frame, "a text is not UTF-8");
    Str text = str_intern_n(w->ctx, (const char *)span.data, (size_t)span.size);
    if (frame->field->repeated)
        vec_push(w->arena, (StrList *)slot, text);
    else
        *(Str *)slot = text;
    return true;
}

static bool read_message(Wire *w, const Frame *outer, const Message *message, void *into);

/* A singular sub-message that comes twice is merged, as the specification says. */
static bool read_sub(Wire *w, const Frame *frame, void *slot)
{
    Blob span;
    if (!read_span(w, frame, &span))
        return false;
    void *into;
    if (frame->field->repeated) {
        into = arena_alloc(w->arena, frame->field->sub->size);
        vec_push(w->arena, (MsgList *)slot, into);
    } else {
        memcpy(&into, slot, sizeof into);
        if (!into) {
            into = arena_alloc(w->arena, frame->field->sub->size);
            memcpy(slot, &into, sizeof into);
        }
    }
    if (w->depth >= MAX_DEPTH)
        return bad(w, frame, "messages are nested more than 256 deep");
    Wire inner = *w;
    inner.at = span.data;
    inner.end = span.data + span.size;
    inner.depth++;
    return read_message(&inner, frame, frame->field->sub, into);
}

static uint32_t list_length(const Field *field, const void *slot)
{
    if (!field->repeated)
        return 0;
    switch (field->kind) {
    case KIND_INT: return ((const IntList *)slot)->len;
    case KIND_F32: return ((const F32List *)slot)->len;
    case KIND_F64: return ((const F64List *)slot)->len;
    case KIND_STR: return ((const StrList *)slot)->len;
    case KIND_BYTES: return ((const BlobList *)slot)->len;
    default: return ((const MsgList *)slot)->len;
    }
}

static bool read_field(Wire *w, Frame *frame, uint32_t wire_type, void *slot)
{
    const Field *field = frame->field;
    uint32_t due = field->kind == KIND_INT ? WIRE_VARINT
                   : field->kind == KIND_F32 ? WIRE_32
                   : field->kind == KIND_F64 ? WIRE_64
                                             : WIRE_BYTES;
    frame->index = list_length(field, slot);
    if (frame->index >= MAX_ELEMENTS)
        return bad(w, frame, "a list has more than 2^30 elements");
    if (due != WIRE_BYTES && wire_type == WIRE_BYTES && field->repeated)
        return read_packed(w, frame, slot);
    if (wire_type != due)
        return bad(w, frame, "the field has another wire type than ONNX gives it");
    if (field->kind == KIND_MSG)
        return read_sub(w, frame, slot);
    return due == WIRE_BYTES ? read_text(w, frame, slot) : read_number(w, frame, slot);
}

static bool read_message(Wire *w, const Frame *outer, const Message *message, void *into)
{
    Frame frame = {.outer = outer, .message = message};
    while (w->at < w->end) {
        uint64_t tag;
        frame.field = NULL;
        if (!read_varint(w, &frame, &tag))
            return false;
        if (tag >> 3 == 0 || tag > UINT32_MAX)
            return bad(w, &frame, "a field number is out of range");
        uint32_t i = 0;
        while (i < message->n_fields && message->fields[i].number != tag >> 3)
            i++;
        if (i == message->n_fields) {
            if (!skip(w, &frame, tag & 7))
                return false;
            continue;
        }
        frame.field = &message->fields[i];
        if (!read_field(w, &frame, tag & 7, (char *)into + frame.field->offset))
            return false;
        *(uint64_t *)into |= UINT64_C(1) << i; /* `has`, the first member of each */
    }
    return true;
}

static void *read_root(Context *ctx, Arena *arena, Str file, Blob blob, const Message *message)
{
    Wire w = {ctx, arena, file, blob.data, blob.data, blob.data + blob.size, 0};
    void *root = arena_alloc(arena, message->size);
    return read_message(&w, NULL, message, root) ? root : NULL;
}

ModelProto *wire_read_model(Context *ctx, Arena *arena, Str file, Blob blob)
{
    return read_root(ctx, arena, file, blob, &ModelProto_message);
}

TensorProto *wire_read_tensor(Context *ctx, Arena *arena, Str file, Blob blob)
{
    return read_root(ctx, arena, file, blob, &TensorProto_message);
}
