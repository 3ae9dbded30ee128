/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form (grammar: doc/ir.md). Values are numbered per function in the order of definition, so the text depends
 * on the content only and not on how the module came to be.
 *
 * Locations form a graph: derived ones name their parents. One whose written-out form has more than LOC_INLINE parts is
 * declared once in front, "loc #3 = ...", and named by its number; a parent's id is always below its child's.
 */
#include "ir/ir_int.h"

#include <inttypes.h>
#include <string.h>

enum { INLINE_ELEMENTS = 64, LOC_INLINE = 6, WEIGHT_ALIGN = 64 };

typedef struct Printer {
    Text *text;
    const Module *module;
    Arena *scratch;
    Map *numbers; /* KEY(val) -> number + 1; NULL: print ids */
    uintptr_t n_vals;
    Loc n_locs;
    uint32_t *loc_size;   /* parts of the written-out form, saturated */
    uint32_t *loc_number; /* 0: written out */
    Str dir;
    const char *store; /* ir_save: the file of weights that have none, relative to dir, or NULL */
    Map *offsets;      /* KEY(weight) -> offset in store + 1 */
} Printer;

/* ---- locations ------------------------------------------------------------------------------------------------- */

typedef VEC(Loc) LocVec;

static void collect_locs(const Region *region, LocVec *found, Arena *arena)
{
    REGION_FOREACH(node, region)
    {
        vec_push(arena, found, node->loc);
        for (uint32_t i = 0; i < node->n_region; i++)
            collect_locs(node->region[i], found, arena);
    }
}

/* Finds the locations to be declared in front and numbers them by id. */
static void number_locs(Printer *p)
{
    LocVec used = {0};
    Context *ctx = p->module->ctx;
    for (uint32_t i = 0; i < p->module->funcs.len; i++)
        collect_locs(p->module->funcs.data[i]->body, &used, p->scratch);
    for (uint32_t i = 0; i < used.len; i++)
        p->n_locs = used.data[i] >= p->n_locs ? used.data[i] + 1 : p->n_locs;
    p->loc_size = ARENA_ARRAY(p->scratch, uint32_t, p->n_locs);
    p->loc_number = ARENA_ARRAY(p->scratch, uint32_t, p->n_locs);
    for (Loc loc = 1; loc < p->n_locs; loc++) {
        const LocInfo *info = loc_info(ctx, loc);
        uint32_t size = 1;
        for (uint32_t i = 0; i < info->n_parents && size <= LOC_INLINE; i++)
            size += p->loc_size[info->parents[i]];
        p->loc_size[loc] = size;
    }
    for (uint32_t i = 0; i < used.len; i++)
        p->loc_number[used.data[i]] = 1;
    for (Loc loc = p->n_locs; loc-- > 1;) { /* children before parents */
        const LocInfo *info = loc_info(ctx, loc);
        for (uint32_t i = 0; i < info->n_parents && p->loc_number[loc]; i++)
            p->loc_number[info->parents[i]] = 1;
    }
    uint32_t n = 0;
    for (Loc loc = 0; loc < p->n_locs; loc++)
        p->loc_number[loc] = p->loc_number[loc] && p->loc_size[loc] > LOC_INLINE ? ++n : 0;
}

static void print_loc_body(Printer *p, Loc loc);

static void print_loc_ref(Printer *p, Loc loc)
{
    if (p->loc_number[loc])
        text_addf(p->text, "#%u", (unsigned)p->loc_number[loc]);
    else
        print_loc_body(p, loc);
}

static void print_loc_body(Printer *p, Loc loc)
{
    const LocInfo *info = loc_info(p->module->ctx, loc);
    Text *text = p->text;
    switch (info->kind) {
    case LOC_NONE:
        text_add(text, "none");
        break;
    case LOC_TEXT:
        text_add(text, "text ");
        text_add_quoted(text, info->file);
        text_addf(text, " %u:%u", (unsigned)info->line, (unsigned)info->column);
        break;
    case LOC_ONNX:
        text_add(text, "onnx ");
        text_add_quoted(text, info->file);
        text_add(text, " ");
        text_add_quoted(text, info->path);
        text_addf(text, " %u ", (unsigned)info->line);
        text_add_quoted(text, info->node);
        text_add(text, " ");
        text_add_quoted(text, info->op_type);
        break;
    case LOC_FROM:
        text_add(text, "from ");
        text_add_quoted(text, info->what);
        text_add(text, " ");
        print_loc_ref(p, info->parents[0]);
        break;
    case LOC_FUSED:
        text_add(text, "fused [");
        for (uint32_t i = 0; i < info->n_parents; i++) {
            text_add(text, i ? ", " : "");
            print_loc_ref(p, info->parents[i]);
        }
        text_add(text, "]");
        break;
    }
}

static void print_locs(Printer *p)
{
    for (Loc loc = 1; loc < p->n_locs; loc++)
        if (p->loc_number[loc]) {
            text_addf(p->text, "loc #%u = ", (unsigned)p->loc_number[loc]);
            print_loc_body(p, loc);
            text_add(p->text, "\n");
        }
}

/* ---- weights --------------------------------------------------------------------------------------------------- */

/* One element as a number that reads back to the same bits, else as bits. */
static void print_elem(Text *text, DType dtype, const void *data, uint64_t index, Arena *scratch)
{
    uint64_t bits = elem_bits(dtype, data, index), again = 0;
    Text number;
    text_init(&number, scratch);
    switch (dtype_kind(dtype)) {
    case DK_BOOL:
        text_add(&number, bits ? "true" : "false");
        break;
    case DK_UINT:
        text_addf(&number, "%" PRIu64, bits);
        break;
    case DK_SINT:
        text_addf(&number, "%" PRId64, elem_get_s64(dtype, data, index));
        break;
    default:
        if (dtype_bits(dtype) < 64)
            text_add_f32(&number, (float)elem_get_f64(dtype, data, index));
        else
            text_add_f64(&number, elem_get_f64(dtype, data, index));
        break;
    }
    if (elem_from_text(dtype, number.data, &again, 0) && elem_bits(dtype, &again, 0) == bits)
        text_add_n(text, number.data, number.len);
    else
        text_addf(text, "bits 0x%" PRIx64, bits);
}

static void print_elems(Printer *p, const Weight *weight, uint64_t count)
{
    DType dtype = weight->type->dtype;
    bool complex = dtype_kind(dtype) == DK_COMPLEX;
    DType part = dtype == DT_C64 ? DT_F32 : dtype == DT_C128 ? DT_F64 : dtype;
    text_add(p->text, "[");
    for (uint64_t i = 0; i < count; i++) {
        text_add(p->text, i ? ", " : "");
        if (complex) {
            text_add(p->text, "(");
            print_elem(p->text, part, weight->data, 2 * i, p->scratch);
            text_add(p->text, ", ");
            print_elem(p->text, part, weight->data, 2 * i + 1, p->scratch);
            text_add(p->text, ")");
        } else {
            print_elem(p->text, part, weight->data, i, p->scratch);
        }
    }
    text_add(p->text, "]");
}

/* The file of a weight relative to dir, or NULL if it has none or lies outside. */
static const char *file_inside(const char *dir, const Weight *weight)
{
    const char *file = weight->file;
    size_t length = strlen(dir);
    if (length && strcmp(dir, ".") != 0) {
        if (strncmp(file, dir, length) != 0 || (file[length] != '/' && dir[length - 1] != '/'))
            return NULL;
        file += length;
        while (*file == '/')
            file++;
    }
    while (file[0] == '.' && file[1] == '/')
        file += 2;
    return ir_path_is_inside(file) ? file : NULL;
}

static bool is_inline(const Weight *weight)
{
    uint64_t count = 0;
    return type_count(weight->type, &count) && count <= INLINE_ELEMENTS;
}

static void print_weight(Printer *p, const Weight *weight)
{
    Text *text = p->text;
    uint64_t count = 0, offset = weight->file_offset;
    text_add(text, "weight @");
    ir_print_name(text, weight->name);
    text_add(text, " : ");
    type_print(text, weight->type);
    text_add(text, " = ");
    if (is_inline(weight)) {
        type_count(weight->type, &count);
        print_elems(p, weight, count);
        text_add(text, "\n");
        return;
    }
    const char *file = file_inside(p->dir, weight);
    uint64_t stored = p->offsets ? KEY(map_get(p->offsets, KEY(weight))) : 0;
    if (stored) {
        file = p->store;
        offset = stored - 1;
    }
    if (file) {
        text_add(text, "file ");
        text_add_quoted(text, file);
        text_addf(text, " @%" PRIu64, offset);
    } else {
        text_add(text, "memory");
    }
    text_addf(text, ", hash 0x%016" PRIx64 "\n", weight->hash);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static void print_val(Printer *p, const Val *val)
{
    if (!val) {
        text_add(p->text, "_");
        return;
    }
    uint64_t number = p->numbers ? KEY(map_get(p->numbers, KEY(val))) : val->id + UINT64_C(1);
    if (number)
        text_addf(p->text, "%%%" PRIu64, number - 1);
    else
        text_addf(p->text, "%%?%u", (unsigned)val->id); /* not defined before this: refused by parser and verifier */
}

static void define(Printer *p, const Val *val)
{
    if (p->numbers)
        map_set(p->numbers, KEY(val), (void *)(++p->n_vals));
    print_val(p, val);
}

static void print_type(Printer *p, const Type *type)
{
    if (type)
        type_print(p->text, type);
    else
        text_add(p->text, "?");
}

static void print_float(Text *text, double value)
{
    if (f64_bits(value) != f64_bits(f64_from_bits(UINT64_C(0x7FF8000000000000))) && value != value)
        text_addf(text, "bits 0x%" PRIx64, f64_bits(value));
    else
        text_add_f64(text, value);
}

static void print_attr(Printer *p, const AttrVal *value, bool choice)
{
    Text *text = p->text;
    bool list = value->kind == AK_INTS || value->kind == AK_DIMS;
    text_add(text, list ? "[" : "");
    for (uint32_t i = 0; list && i < value->n; i++) {
        text_add(text, i ? "," : "");
        if (value->kind == AK_INTS)
            text_addf(text, "%" PRId64, value->u.ints[i]);
        else
            dim_print(text, value->u.dims[i]);
    }
    switch (value->kind) {
    case AK_INT:
        text_addf(text, "%" PRId64, value->u.i);
        break;
    case AK_BOOL:
        text_add(text, value->u.i ? "true" : "false");
        break;
    case AK_FLOAT:
        print_float(text, value->u.f);
        break;
    case AK_STR:
        if (choice && ir_is_identifier(value->u.s))
            text_add(text, value->u.s);
        else
            text_add_quoted(text, value->u.s);
        break;
    case AK_DTYPE:
        text_add(text, dtype_name(value->u.dtype));
        break;
    case AK_DIM:
        dim_print(text, value->u.dim);
        break;
    case AK_INTS:
    case AK_DIMS:
        text_add(text, "]");
        break;
    case AK_WEIGHT:
    case AK_FUNC:
        text_add(text, "@");
        ir_print_name(text, value->kind == AK_FUNC ? value->u.func->name : value->u.weight->name);
        break;
    }
}

static void print_attrs(Printer *p, const Node *node)
{
    const AttrSchema *schema = op_info[node->op].attr;
    text_add(p->text, node->attr->n ? " {" : "");
    for (uint32_t i = 0; i < node->attr->n; i++) {
        const AttrSchema *row = i < IR_MAX_ATTRS ? &schema[i] : &schema[0];
        text_addf(p->text, "%s%s=", i ? ", " : "", attr_name(row->name));
        print_attr(p, &node->attr->val[i], row->choices != NULL);
    }
    text_add(p->text, node->attr->n ? "}" : "");
}

static void indent(Printer *p, int depth)
{
    for (int i = 0; i < depth; i++)
        text_add(p->text, "  ");
}

static void print_region(Printer *p, const Region *region, int depth);

/* Without indentation and line end. Operands are looked up before the results are numbered: a node that uses itself
 * shows. */
static void print_node(Printer *p, const Node *node, int depth)
{
    Text *text = p->text;
    Text tail;
    text_init(&tail, p->scratch);
    p->text = &tail;
    text_addf(&tail, "%s", op_info[node->op].name);
    for (uint32_t i = 0; i < node->n_in; i++) {
        text_add(&tail, i ? ", " : " ");
        print_val(p, node->in[i].val);
    }
    p->text = text;
    for (uint32_t i = 0; i < node->n_out; i++) {
        text_add(text, i ? ", " : "");
        define(p, &node->out[i]);
    }
    text_add(text, node->n_out ? " = " : "");
    text_add_n(text, tail.data, tail.len);
    print_attrs(p, node);
    for (uint32_t i = 0; i < node->n_out; i++) {
        text_add(text, i ? ", " : " : ");
        print_type(p, node->out[i].type);
    }
    if (p->numbers) {
        text_add(text, "  loc(");
        print_loc_ref(p, node->loc);
        text_add(text, ")");
    }
    for (uint32_t i = 0; i < node->n_region; i++)
        print_region(p, node->region[i], depth);
}

static void print_region(Printer *p, const Region *region, int depth)
{
    Text *text = p->text;
    text_add(text, " { (");
    for (uint32_t i = 0; i < region->params.len; i++) {
        text_add(text, i ? ", " : "");
        define(p, region->params.data[i]);
        text_add(text, " : ");
        print_type(p, region->params.data[i]->type);
    }
    text_add(text, ")\n");
    REGION_FOREACH(node, region)
    {
        indent(p, depth + 1);
        print_node(p, node, depth + 1);
        text_add(text, "\n");
    }
    indent(p, depth);
    text_add(text, "}");
}

static void print_func(Printer *p, const Func *func)
{
    Text *text = p->text;
    p->n_vals = 0;
    text_add(text, func->entry ? "\nentry func @" : "\nfunc @");
    ir_print_name(text, func->name);
    text_add(text, "(");
    for (uint32_t i = 0; i < func->body->params.len; i++) {
        text_add(text, i ? ", " : "");
        define(p, func->body->params.data[i]);
        text_add(text, " : ");
        print_type(p, func->body->params.data[i]->type);
        text_add(text, " ");
        text_add_quoted(text, func->in_names[i]);
    }
    text_add(text, ") -> (");
    for (uint32_t i = 0; i < func_n_out(func); i++) {
        text_add(text, i ? ", " : "");
        text_add_quoted(text, func->out_names && func->out_names[i] ? func->out_names[i] : "");
    }
    text_add(text, ") {\n");
    REGION_FOREACH(node, func->body)
    {
        text_add(text, "  ");
        print_node(p, node, 1);
        text_add(text, "\n");
    }
    text_add(text, "}\n");
}

static void print_module(Printer *p)
{
    const Module *module = p->module;
    Text *text = p->text;
    p->numbers = map_create(p->scratch);
    number_locs(p);
    for (uint32_t i = 0; i < module->syms.len; i++) {
        const Sym *sym = module->syms.data[i];
        text_add(text, "sym ");
        ir_print_name(text, sym->name);
        text_addf(text, " in [%" PRId64 ", %" PRId64 "]%s\n", sym->lo, sym->hi, sym->unbacked ? " unbacked" : "");
    }
    for (uint32_t i = 0; i + 1 < module->meta.len; i += 2) {
        text_add(text, "meta ");
        text_add_quoted(text, module->meta.data[i]);
        text_add(text, " ");
        text_add_quoted(text, module->meta.data[i + 1]);
        text_add(text, "\n");
    }
    print_locs(p);
    for (uint32_t i = 0; i < module->weights.len; i++)
        print_weight(p, module->weights.data[i]);
    for (uint32_t i = 0; i < module->states.len; i++) {
        text_add(text, "state @");
        ir_print_name(text, module->states.data[i]->name);
        text_add(text, " : ");
        type_print(text, module->states.data[i]->type);
        text_add(text, "\n");
    }
    for (uint32_t i = 0; i < module->funcs.len; i++)
        print_func(p, module->funcs.data[i]);
}

void ir_print(Text *text, const Module *module)
{
    Arena *scratch = arena_create(module->ctx);
    Printer p = {.text = text, .module = module, .scratch = scratch, .dir = module->dir};
    print_module(&p);
    arena_destroy(scratch);
}

void ir_print_node(Text *text, const Node *node)
{
    Arena *scratch = arena_create(node->parent->module->ctx);
    Printer p = {.text = text, .module = node->parent->module, .scratch = scratch, .dir = node->parent->module->dir};
    print_node(&p, node, 0);
    arena_destroy(scratch);
}

/* ---- saving ----------------------------------------------------------------------------------------------------- */

/* Writes the weights that need it to `path` and notes their offsets. If one weight must be written and others are views
 * of the very file that is replaced, those are written too. */
static bool store_weights(Printer *p, const char *path)
{
    const Module *module = p->module;
    bool any = false;
    for (uint32_t i = 0; i < module->weights.len; i++)
        any = any || (!is_inline(module->weights.data[i]) && !file_inside(p->dir, module->weights.data[i]));
    if (!any)
        return true;
    FileWriter *file = file_create(module->ctx, path, false);
    if (!file)
        return false;
    for (uint32_t i = 0; i < module->weights.len; i++) {
        const Weight *weight = module->weights.data[i];
        const char *inside = file_inside(p->dir, weight);
        uint64_t bytes = 0;
        if (is_inline(weight) || (inside && strcmp(inside, p->store) != 0) || !type_bytes(weight->type, &bytes))
            continue;
        file_seek_zero_to(file, (file_offset(file) + WEIGHT_ALIGN - 1) / WEIGHT_ALIGN * WEIGHT_ALIGN);
        map_set(p->offsets, KEY(weight), (void *)(uintptr_t)(file_offset(file) + 1));
        file_write(file, weight->data, (size_t)bytes);
    }
    return file_commit(file);
}

bool ir_save(const Module *module, const char *path)
{
    Arena *scratch = arena_create(module->ctx);
    Text text;
    text_init(&text, scratch);
    bool ok = true;
    if (strcmp(path, "-") == 0) {
        ir_print(&text, module);
    } else {
        size_t length = strlen(path);
        size_t stem = length > 3 && strcmp(path + length - 3, ".ig") == 0 ? length - 3 : length;
        const char *store = arena_printf(scratch, "%.*s.igw", (int)stem, path);
        const char *slash = strrchr(store, '/');
        Printer p = {.text = &text,
                     .module = module,
                     .scratch = scratch,
                     .dir = str_intern(module->ctx, path_dir(scratch, path)),
                     .store = slash ? slash + 1 : store,
                     .offsets = map_create(scratch)};
        ok = store_weights(&p, store);
        if (ok)
            print_module(&p);
    }
    ok = ok && file_write_all(module->ctx, path, text.data, text.len);
    arena_destroy(scratch);
    return ok;
}
