/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes of a node: references of function bodies are followed, names and kinds are checked against onnx.def, so that an
 * importer only asks for what it needs.
 */
#include "front/onnx/onnx_int.h"

#include <stdio.h>
#include <string.h>

static const char kinds[] = "?fistgFISTGpPyY"; /* by AttributeProto.AttributeType */
static const char *const kind_names[] = {"nothing", "a float",  "an int",  "a string",        "a tensor",
                                         "a graph", "floats",   "ints",    "strings",         "tensors",
                                         "graphs",  "a sparse tensor", "sparse tensors", "a type", "types"};

/* The members that are there, as a bit set by AttributeType. */
static uint32_t members(const AttributeProto *a)
{
    uint32_t set = 0;
    const bool there[] = {false, HAS(AttributeProto, a, f), HAS(AttributeProto, a, i), HAS(AttributeProto, a, s), a->t != NULL,
                          a->g != NULL, a->floats.len != 0, a->ints.len != 0, a->strings.len != 0, a->tensors.len != 0,
                          a->graphs.len != 0, a->sparse_tensor != NULL, a->sparse_tensors.len != 0, a->tp != NULL,
                          a->type_protos.len != 0};
    for (uint32_t i = 1; i < IG_COUNT(there); i++)
        set |= there[i] ? 1u << i : 0;
    return set;
}

/* The kind, which files of the first format version do not name; 0: unclear. */
static uint32_t kind_of(const AttributeProto *a)
{
    uint32_t set = members(a);
    if (HAS(AttributeProto, a, type) && a->type != 0) {
        bool scalar_message = a->type == AT_TENSOR || a->type == AT_GRAPH || a->type == AT_SPARSE_TENSOR || a->type == AT_TYPE_PROTO;
        bool listed = a->type > 0 && a->type < (int64_t)sizeof kinds - 1 && (set & ~(1u << a->type)) == 0;
        return listed && (set || !scalar_message) ? (uint32_t)a->type : 0;
    }
    for (uint32_t i = 1; i < sizeof kinds - 1; i++)
        if (set == 1u << i)
            return i;
    return 0;
}

bool na_bad(const OnnxNode *n, const char *name, const char *format, ...)
{
    char detail[400];
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    return diag_report(n->ctx, node_loc(n), DIAG_onnx_attr, name, detail);
}

/* What a reference in a function's body means: the caller's attribute, the function's default, or (NULL) nothing. */
static bool follow(const OnnxNode *n, const AttributeProto *ref, const AttributeProto **meaning)
{
    const BodyEnv *env = n->scope->env;
    *meaning = NULL;
    if (!env->function)
        return na_bad(n, or_blank(ref->name), "it refers to '%s' of a function, outside of a function", ref->ref_attr_name);
    for (uint32_t i = 0; i < env->caller->n_attr; i++)
        if (!strcmp(env->caller->attr_names[i], ref->ref_attr_name))
            return *meaning = env->caller->attr[i], true;
    for (uint32_t i = 0; i < env->function->attribute_proto.len; i++) {
        const AttributeProto *missing = env->function->attribute_proto.data[i];
        if (!strcmp(or_blank(missing->name), ref->ref_attr_name))
            return *meaning = missing, true;
    }
    for (uint32_t i = 0; i < env->function->attribute.len; i++)
        if (!strcmp(env->function->attribute.data[i], ref->ref_attr_name))
            return true;
    return na_bad(n, or_blank(ref->name), "it refers to '%s', which function '%s' does not have", ref->ref_attr_name,
                  or_blank(env->function->name));
}

/* The kind letter of a name in a row's list; 0: not in it. */
static char due_kind(const char *attrs, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = attrs; *at;) {
        at += *at == '!';
        size_t length = strcspn(at, ":");
        if (length == n && !strncmp(at, name, n))
            return at[length + 1];
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    return 0;
}

static bool check_required(const OnnxNode *n)
{
    for (const char *at = n->row->attrs; *at;) {
        size_t length = strcspn(at, ":");
        if (*at == '!') {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)length - 1, at + 1);
            if (!na_find(n, name))
                return na_bad(n, name, "it is required");
        }
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    return true;
}

static bool check_kind(const OnnxNode *n, const char *name, const AttributeProto *a)
{
    uint32_t kind = kind_of(a);
    if (!kind)
        return na_bad(n, name, "its type and its value do not agree");
    if (!n->row)
        return true;
    char due = due_kind(n->row->attrs, name);
    if (!due)
        return na_bad(n, name, "%s has none of that name at operator set %lld", n->row->type, (long long)n->opset);
    if (kinds[kind] != due)
        return na_bad(n, name, "it is %s, expected %s", kind_names[kind], kind_names[strchr(kinds, due) - kinds]);
    return true;
}

bool onnx_attrs_resolve(OnnxNode *n)
{
    const MsgList *list = &n->proto->attribute;
    n->attr = ARENA_ARRAY(n->im->arena, const AttributeProto *, list->len);
    n->attr_names = ARENA_ARRAY(n->im->arena, const char *, list->len);
    n->n_attr = 0;
    for (uint32_t i = 0; i < list->len; i++) {
        const AttributeProto *a = list->data[i], *meaning = a;
        const char *name = or_blank(a->name);
        if (!*name)
            return na_bad(n, "", "it has no name");
        if (na_find(n, name))
            return na_bad(n, name, "it is given twice");
        if (*or_blank(a->ref_attr_name) && !follow(n, a, &meaning))
            return false;
        if (!meaning)
            continue;
        if (!check_kind(n, name, meaning))
            return false;
        n->attr[n->n_attr] = meaning;
        n->attr_names[n->n_attr++] = name;
    }
    return !n->row || check_required(n);
}

const AttributeProto *na_find(const OnnxNode *n, const char *name)
{
    for (uint32_t i = 0; i < n->n_attr; i++)
        if (!strcmp(n->attr_names[i], name))
            return n->attr[i];
    return NULL;
}

int64_t na_int(const OnnxNode *n, const char *name, int64_t missing)
{
    const AttributeProto *a = na_find(n, name);
    return a ? a->i : missing;
}

double na_float(const OnnxNode *n, const char *name, double missing)
{
    const AttributeProto *a = na_find(n, name);
    return a ? a->f : missing;
}

const char *na_str(const OnnxNode *n, const char *name, const char *missing)
{
    const AttributeProto *a = na_find(n, name);
    return a ? str_intern_n(n->ctx, (const char *)a->s.data, (size_t)a->s.size) : missing;
}

const int64_t *na_ints(const OnnxNode *n, const char *name, uint32_t *count)
{
    static const int64_t none[1];
    const AttributeProto *a = na_find(n, name);
    *count = a ? a->ints.len : 0;
    return !a ? NULL : a->ints.len ? a->ints.data : none;
}

bool na_choice(const OnnxNode *n, const char *name, const char *choices, const char *missing, const char **value)
{
    *value = na_str(n, name, missing);
    size_t length = strlen(*value);
    for (const char *at = choices; at; at = strchr(at, '|'), at = at ? at + 1 : NULL)
        if (!strncmp(at, *value, length) && (at[length] == '|' || !at[length]))
            return true;
    return na_bad(n, name, "'%s' is none of %s", *value, choices);
}
