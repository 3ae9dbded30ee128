/* SPDX-License-Identifier: Apache-2.0
 *
 * Listings of artifacts: text, JSON, dot, HTML. They are made from the artifact's description alone (art_read), so that what is
 * shown is what will run; a model is compiled to a temporary artifact first. The tensor IR and the loops are shown for models only.
 */
#include "api/api_int.h"

#include <inttypes.h>
#include <string.h>

typedef struct Listing {
    Context *ctx;
    Text text;
    const ArtInfo *info;
    const ArtVariant *variant; /* unless it goes through all, the last: levels ascend, so it uses most of a CPU */
    const ArtEntry *entry;
    const ArtBody *body;
    const char *loops; /* HTML of a model: JSON lists, one a variant */
} Listing;

static void enter(Listing *l, uint32_t entry)
{
    l->entry = &l->info->image.entries[entry];
    l->body = &l->variant->bodies[entry];
}

/* ---- values of a phase ----------------------------------------------------------------------------------------------------- */

typedef struct Operand {
    char sigil; /* '%' or '@'; 0: scratch */
    const char *name;
    bool written;
} Operand;

/* The value at a place in a phase: the youngest, since values computed in place lie on those that they replace; of one age that which
 * ends first, since parts end before the whole. before: one that this phase did not begin. */
static const ArtPlan *plan_of(const ArtBody *e, uint64_t offset, uint32_t phase, bool before)
{
    const ArtPlan *found = NULL;
    for (uint32_t i = 0; i < e->n_plan; i++) {
        const ArtPlan *p = &e->plan[i];
        if (p->offset == offset && p->first + before <= phase && phase <= p->last &&
            (!found || p->first > found->first || (p->first == found->first && p->last <= found->last)))
            found = p;
    }
    return found;
}

/* Two buffers of a phase at one place are a value read and the one that replaces it, which is written. */
static bool is_replaced(const ArtPhase *phase, uint32_t b)
{
    const ArtBuf *buf = &phase->bufs[b];
    for (uint32_t i = 0; i < phase->n_bufs; i++) {
        const ArtBuf *other = &phase->bufs[i];
        if (i != b && other->kind == buf->kind && other->offset == buf->offset &&
            (other->written == buf->written ? i > b : other->written))
            return true;
    }
    return false;
}

/* What lies in a buffer while phase p runs. replaced: another buffer of the phase takes its place. */
static Operand operand_at(const Listing *l, const ArtBuf *buf, uint32_t p, bool replaced)
{
    const ArtEntry *e = l->entry;
    const ArtImage *image = &l->info->image;
    if (buf->kind == ART_INPUT)
        return (Operand){'%', buf->index < e->n_inputs ? e->inputs[buf->index].name : "?", false};
    if (buf->kind == ART_OUTPUT)
        return (Operand){'%', buf->index < e->n_outputs ? e->outputs[buf->index].name : "?", buf->written};
    if (buf->kind == ART_STATE)
        return (Operand){'%', buf->index < image->n_states ? image->states[buf->index].name : "?", false};
    if (buf->kind == ART_WEIGHTS)
        for (uint32_t i = 0; i < image->n_weights; i++)
            if (buf->offset >= image->weights[i].offset && buf->offset < image->weights[i].offset + image->weights[i].bytes)
                return (Operand){'@', image->weights[i].name, false};
    const ArtPlan *plan = buf->kind == ART_WORKSPACE ? plan_of(l->body, buf->offset, p, replaced) : NULL;
    return plan ? (Operand){'%', plan->name, buf->written} : (Operand){0};
}

static Operand operand_of(const Listing *l, uint32_t p, uint32_t b)
{
    const ArtPhase *phase = &l->body->phases[p];
    return operand_at(l, &phase->bufs[b], p, is_replaced(phase, b));
}

/* ---- steps of control --------------------------------------------------------------------------------------------------- */

static const char *word_of(const Listing *l, const ArtStep *s, const ArtBuf *word)
{
    uint32_t p = s->kind == ART_STEP_NEXT && s->phase > 0 ? s->phase - 1 : s->phase; /* what the trip computed last */
    const char *name = operand_at(l, word, p < l->body->n_phases || p == 0 ? p : p - 1, false).name;
    return name ? name : "?";
}

/* What a step does, in words: "if %c", "else", "loop %i: %n times, at most 8, if %c -> u0", "while %c" of its NEXT. Nothing: it ends. */
static void add_words(Listing *l, Text *text, const ArtStep *s)
{
    bool known = !((s->flags | l->body->steps[s->target].flags) & ART_STEP_GO), bounded = s->bound < INT64_MAX;
    if (s->kind == ART_STEP_IF) {
        text_addf(text, "if %%%s", word_of(l, s, &s->go));
    } else if (s->kind == ART_STEP_LOOP) {
        text_addf(text, "loop %%%s:", word_of(l, s, &s->counter));
        if (s->flags & ART_STEP_TRIP)
            text_addf(text, " %%%s times%s", word_of(l, s, &s->trip), bounded ? "," : "");
        if (s->flags & ART_STEP_TRIP && bounded)
            text_addf(text, " at most %" PRId64, s->bound);
        else if (bounded)
            text_addf(text, " %s%" PRId64 " times", known ? "" : "at most ", s->bound);
        if (s->flags & ART_STEP_GO)
            text_addf(text, ", if %%%s", word_of(l, s, &s->go));
        if (s->size)
            text_addf(text, " -> %s", l->entry->sizes[s->size - 1].name);
    } else if (s->kind == ART_STEP_SIZE) {
        text_addf(text, "%s = %%%s, at most %" PRId64, s->size ? l->entry->sizes[s->size - 1].name : "size", word_of(l, s, &s->trip), s->bound);
    } else if (s->kind == ART_STEP_NEXT && s->flags & ART_STEP_GO) {
        text_addf(text, "while %%%s", word_of(l, s, &s->go));
    } else {
        text_add(text, s->kind == ART_STEP_ELSE ? "else" : "");
    }
}

static bool opens(const ArtStep *s)
{
    return s->kind == ART_STEP_IF || s->kind == ART_STEP_ELSE || s->kind == ART_STEP_LOOP;
}

static bool closes(const ArtStep *s)
{
    return s->kind != ART_STEP_IF && s->kind != ART_STEP_LOOP && s->kind != ART_STEP_SIZE;
}

static void add_step(Listing *l, const ArtStep *s)
{
    Text words;
    text_init(&words, l->text.arena);
    add_words(l, &words, s);
    text_addf(&l->text, "%*s%s%s%s%s\n", 2 * (int)s->depth, "", closes(s) ? "}" : "", closes(s) && words.len ? " " : "", words.data,
              opens(s) ? " {" : "");
}

/* How often a phase runs, at most: the bounds of the loops around it, multiplied. A loop without a bound counts once and is *unbounded. */
static double runs_of(const ArtBody *body, uint32_t phase, bool *unbounded)
{
    double runs = 1;
    for (uint32_t i = 0; i < body->n_steps; i++) {
        const ArtStep *s = &body->steps[i];
        if (s->kind != ART_STEP_LOOP || phase < s->phase || phase >= body->steps[s->target].phase)
            continue;
        *unbounded |= s->bound == INT64_MAX;
        runs *= s->bound < INT64_MAX ? (double)s->bound : 1;
    }
    return runs;
}

typedef struct Cost {
    double flops;            /* of a run of all phases, branches both */
    bool at_most, unbounded; /* the run decides how many */
} Cost;

static void add_cost(Cost *cost, const ArtVariant *v, const ArtEntry *e, const ArtBody *body)
{
    cost->at_most |= e->n_symbols + e->n_found > 0;
    for (uint32_t i = 0; i < body->n_steps; i++)
        cost->at_most |= body->steps[i].kind == ART_STEP_IF || body->steps[i].flags & (ART_STEP_GO | ART_STEP_TRIP);
    for (uint32_t p = 0; p < body->n_phases; p++)
        cost->flops += runs_of(body, p, &cost->unbounded) * (double)v->kernels[body->phases[p].kernel].flops;
}

/* Steps from *step on that lie before the phase. Returns how deep it lies. */
static uint32_t add_steps(Listing *l, uint32_t *step, uint32_t phase, uint32_t depth)
{
    for (; *step < l->body->n_steps && l->body->steps[*step].phase == phase; ++*step) {
        const ArtStep *s = &l->body->steps[*step];
        add_step(l, s);
        depth = s->depth + opens(s);
    }
    return depth;
}

/* ---- lines ------------------------------------------------------------------------------------------------------------------ */

static uint32_t uses_of(const ArtBody *e, uint32_t kernel)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < e->n_phases; p++)
        n += e->phases[p].kernel == kernel;
    return n;
}

/* A kernel's line names the values of the phase that it was made for; where phases share a kernel, they are put in anew. */
static void add_line(Listing *l, uint32_t p)
{
    const char *line = l->variant->kernels[l->body->phases[p].kernel].line;
    const char *ops = strstr(line, " = "), *tail = strstr(line, "  @kernel=");
    uint32_t n = l->body->phases[p].n_bufs, shown = 0;
    if (!ops || !tail || uses_of(l->body, l->body->phases[p].kernel) < 2) {
        text_addf(&l->text, "%s\n", line);
        return;
    }
    for (int written = 1; written >= 0; written--) {
        for (uint32_t b = 0; b < n; b++) {
            Operand o = operand_of(l, p, b);
            if (o.sigil && o.written == (written == 1))
                text_addf(&l->text, "%s%c%s", shown++ ? ", " : written ? "" : " ", o.sigil, o.name);
        }
        if (written)
            text_addf(&l->text, " = %.*s", (int)strcspn(ops + 3, " "), ops + 3);
        shown = 0;
    }
    text_addf(&l->text, "%s\n", tail);
}

static void add_type(Text *text, const ArtEntry *e, const ArtValue *v)
{
    text_addf(text, "%s[", dtype_name(v->dtype));
    for (uint32_t a = 0; a < v->rank; a++)
        if (v->dim_size[a])
            text_addf(text, "%s%s", a ? "," : "", e->sizes[v->dim_size[a] - 1].name);
        else
            text_addf(text, "%s%" PRId64, a ? "," : "", v->dims[a]);
    text_add(text, "]");
}

static Str hex(Context *ctx, const uint8_t digest[32])
{
    char text[65];
    for (int i = 0; i < 32; i++) {
        static const char digits[] = "0123456789abcdef";
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[64] = 0;
    return str_intern(ctx, text);
}

static void add_dtypes(Listing *l)
{
    bool seen[DT_COUNT] = {0};
    const ArtEntry *e = l->entry;
    text_add(&l->text, "dtypes");
    for (uint32_t i = 0; i < e->n_inputs + e->n_outputs; i++) {
        DType t = i < e->n_inputs ? e->inputs[i].dtype : e->outputs[i - e->n_inputs].dtype;
        if (!seen[t])
            text_addf(&l->text, " %s", dtype_name(t));
        seen[t] = true;
    }
    text_add(&l->text, "\n");
}

static void add_entry(Listing *l)
{
    const ArtEntry *e = l->entry;
    const ArtBody *body = l->body;
    text_addf(&l->text, "\nentry %s on %s: %u kernels in %u phases\n", e->name, l->variant->name, l->variant->n_kernels, body->n_phases);
    add_dtypes(l);
    for (uint32_t i = 0; i < e->n_symbols + e->n_found; i++)
        text_addf(&l->text, "size %s : %" PRId64 "..%" PRId64 "%s\n", e->sizes[i].name, e->sizes[i].lo, e->sizes[i].hi,
                  i < e->n_symbols ? "" : " found by the run");
    for (uint32_t i = 0; i < e->n_inputs; i++) {
        text_addf(&l->text, "in %%%s : ", e->inputs[i].name);
        add_type(&l->text, e, &e->inputs[i]);
        text_add(&l->text, "\n");
    }
    uint32_t step = 0, depth = 0;
    for (uint32_t p = 0; p < body->n_phases; p++) {
        depth = add_steps(l, &step, p, depth);
        text_addf(&l->text, "%*s", 2 * (int)depth, "");
        add_line(l, p);
    }
    add_steps(l, &step, body->n_phases, depth);
    for (uint32_t i = 0; i < e->n_outputs; i++) {
        text_addf(&l->text, "out %%%s : ", e->outputs[i].name);
        add_type(&l->text, e, &e->outputs[i]);
        text_add(&l->text, "\n");
    }
    text_addf(&l->text, "\nplan: peak %" PRIu64 " bytes, lower bound %" PRIu64 " bytes", body->peak_bytes, body->lower_bound_bytes);
    if (body->lower_bound_bytes)
        text_addf(&l->text, " (%.3f x)", (double)body->peak_bytes / (double)body->lower_bound_bytes);
    text_addf(&l->text, ", scratch %" PRIu64 " bytes a thread, %u buffers\n", body->scratch_bytes_per_slot, body->n_plan);
    for (uint32_t i = 0; i < body->n_plan; i++) {
        const ArtPlan *plan = &body->plan[i];
        text_addf(&l->text, "  %%%-20s @%-10" PRIu64 " %10" PRIu64 " bytes, phases %u..%u", plan->name, plan->offset, plan->bytes,
                  plan->first, plan->last);
        if (plan->view_of)
            text_addf(&l->text, ", view of %%%s", body->plan[plan->view_of - 1].name);
        text_add(&l->text, "\n");
    }
}

/* Whether a kernel's flops and bytes are those at the bounds of sizes that the run decides. */
static bool is_bounded(const ArtImage *image, const ArtVariant *variant, uint32_t kernel)
{
    for (uint32_t e = 0; e < image->n_entries; e++)
        for (uint32_t p = 0; p < variant->bodies[e].n_phases; p++) {
            const ArtPhase *phase = &variant->bodies[e].phases[p];
            for (uint32_t i = 0; phase->kernel == kernel && i < phase->n_bufs; i++)
                if (phase->bufs[i].kind == ART_SIZES)
                    return true;
        }
    return false;
}

/* What one variant does: its own phases, plan and kernels. */
static void add_variant(Listing *l, const ArtVariant *variant)
{
    Cost all = {0};
    bool sized = false;
    l->variant = variant;
    for (uint32_t i = 0; i < l->info->image.n_entries; i++) {
        enter(l, i);
        add_entry(l);
        add_cost(&all, variant, l->entry, l->body);
        sized |= l->entry->n_symbols + l->entry->n_found > 0;
    }
    text_addf(&l->text, "\nkernels: %s%.0f flops a run%s\n", all.at_most ? "at most " : "", all.flops,
              all.unbounded ? ", loops without a bound counted once" : "");
    for (uint32_t i = 0; i < variant->n_kernels; i++) {
        const ArtKernel *k = &variant->kernels[i];
        const char *most = is_bounded(&l->info->image, variant, i) ? "<= " : "";
        text_addf(&l->text, "  %-32s %-7s %3s%12" PRIu64 " flops %3s%12" PRIu64 " bytes  from %s\n", k->symbol, k->classes, most,
                  k->flops, most, k->bytes, k->nodes);
    }
    text_add(&l->text, sized ? "<=: at the largest sizes\n" : "");
}

static void make_text(Listing *l)
{
    const ArtImage *image = &l->info->image;
    text_addf(&l->text, "target %s, %s%s, made by %s\n", image->triple, image->opt_level, image->ftz ? ", ftz" : "",
              image->igata_version);
    for (uint32_t i = 0; i < image->n_variants; i++)
        text_addf(&l->text, "cpu %s: %" PRIu64 " bytes of code\n", image->variants[i].name, image->variants[i].code_bytes);
    text_addf(&l->text, "weights: %u, %" PRIu64 " bytes; file: %" PRIu64 " bytes\n", image->n_weights, l->info->weights_bytes,
              l->info->file_bytes);
    for (uint32_t i = image->n_variants; i-- > 0;)
        add_variant(l, &image->variants[i]);
    text_add(&l->text, "\nweights:\n");
    for (uint32_t i = 0; i < image->n_weights; i++)
        text_addf(&l->text, "  @%-32s @%-10" PRIu64 " %10" PRIu64 " bytes\n", image->weights[i].name, image->weights[i].offset,
                  image->weights[i].bytes);
    text_addf(&l->text, "\nsha256 of model %s\nsha256 of options %s\nsha256 of compiler %s\n", hex(l->ctx, image->model_sha256),
              hex(l->ctx, image->options_sha256), hex(l->ctx, image->compiler_sha256));
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------------------- */

static void add_json(Text *text, const char *string)
{
    text_add(text, "\"");
    for (const unsigned char *c = (const unsigned char *)string; *c; c++) {
        if (*c == '"' || *c == '\\')
            text_addf(text, "\\%c", *c);
        else if (*c < 0x20)
            text_addf(text, "\\u%04x", *c);
        else
            text_add_n(text, (const char *)c, 1);
    }
    text_add(text, "\"");
}

static void add_field(Text *text, const char *key, const char *value)
{
    text_addf(text, "\"%s\": ", key);
    add_json(text, value);
}

static void json_values(Text *text, const char *key, const ArtEntry *e, const ArtValue *values, uint32_t n)
{
    text_addf(text, "\"%s\": [", key);
    for (uint32_t i = 0; i < n; i++) {
        text_add(text, i ? ", {" : "{");
        add_field(text, "name", values[i].name);
        text_addf(text, ", \"dtype\": \"%s\", \"shape\": [", dtype_name(values[i].dtype));
        for (uint32_t a = 0; a < values[i].rank; a++)
            text_addf(text, "%s%" PRId64, a ? ", " : "", values[i].dim_size[a] ? -1 : values[i].dims[a]);
        text_add(text, "], \"bounds\": [");
        for (uint32_t a = 0; a < values[i].rank; a++)
            text_addf(text, "%s%" PRId64, a ? ", " : "", values[i].dims[a]);
        text_add(text, "], ");
        Text type;
        text_init(&type, text->arena);
        add_type(&type, e, &values[i]);
        add_field(text, "type", type.data);
        text_add(text, "}");
    }
    text_add(text, "]");
}

static void json_plan(Text *text, const ArtBody *e)
{
    text_addf(text, "\"plan\": {\"peak_bytes\": %" PRIu64 ", \"lower_bound_bytes\": %" PRIu64 ", \"scratch_bytes\": %" PRIu64
                    ", \"buffers\": [",
              e->peak_bytes, e->lower_bound_bytes, e->scratch_bytes_per_slot);
    for (uint32_t i = 0; i < e->n_plan; i++) {
        text_add(text, i ? ", {" : "{");
        add_field(text, "name", e->plan[i].name);
        text_addf(text, ", \"offset\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"first\": %u, \"last\": %u", e->plan[i].offset,
                  e->plan[i].bytes, e->plan[i].first, e->plan[i].last);
        if (e->plan[i].view_of) {
            text_add(text, ", ");
            add_field(text, "view_of", e->plan[e->plan[i].view_of - 1].name);
        }
        text_add(text, "}");
    }
    text_add(text, "]}");
}

static void json_word(Listing *l, const char *key, const char *name)
{
    text_add(&l->text, ", ");
    add_field(&l->text, key, name);
}

static void json_steps(Listing *l)
{
    static const char *const kind[] = {"if", "else", "end", "loop", "next", "size"};
    text_add(&l->text, "\"steps\": [");
    for (uint32_t i = 0; i < l->body->n_steps; i++) {
        const ArtStep *s = &l->body->steps[i];
        text_addf(&l->text, "%s{\"kind\": \"%s\", \"phase\": %u, \"target\": %u, \"depth\": %u", i ? ", " : "", kind[s->kind], s->phase,
                  s->target, s->depth);
        Text words;
        text_init(&words, l->text.arena);
        add_words(l, &words, s);
        json_word(l, "text", words.data);
        if (s->kind == ART_STEP_LOOP) {
            json_word(l, "counter", word_of(l, s, &s->counter));
            if (s->bound < INT64_MAX)
                text_addf(&l->text, ", \"bound\": %" PRId64, s->bound);
        }
        if (s->kind == ART_STEP_SIZE)
            text_addf(&l->text, ", \"bound\": %" PRId64, s->bound);
        if (s->size)
            json_word(l, "size", l->entry->sizes[s->size - 1].name);
        if (s->flags & ART_STEP_TRIP)
            json_word(l, "trip", word_of(l, s, &s->trip));
        if (s->flags & ART_STEP_GO)
            json_word(l, "go", word_of(l, s, &s->go));
        text_add(&l->text, "}");
    }
    text_add(&l->text, "], ");
}

/* Names of the operands of a phase with the sigil, written here or not; each once. */
static void json_operands(Listing *l, uint32_t p, const char *key, char sigil, bool written)
{
    uint32_t shown = 0;
    Map *seen = map_create(l->text.arena);
    text_addf(&l->text, ", \"%s\": [", key);
    for (uint32_t b = 0; b < l->body->phases[p].n_bufs; b++) {
        Operand o = operand_of(l, p, b);
        if (o.sigil != sigil || o.written != written || map_get(seen, KEY(str_intern(l->ctx, o.name))))
            continue;
        map_set(seen, KEY(str_intern(l->ctx, o.name)), l);
        text_add(&l->text, shown++ ? ", " : "");
        add_json(&l->text, o.name);
    }
    text_add(&l->text, "]");
}

static void json_phase(Listing *l, uint32_t p)
{
    const ArtPhase *phase = &l->body->phases[p];
    bool unbounded = false;
    text_addf(&l->text, "%s{\"kernel\": %u, \"tiles\": %" PRIu64 ", \"runs\": %.0f", p ? ", " : "", phase->kernel, phase->tiles,
              runs_of(l->body, p, &unbounded));
    json_operands(l, p, "reads", '%', false);
    json_operands(l, p, "weights", '@', false);
    json_operands(l, p, "writes", '%', true);
    text_add(&l->text, "}");
}

static void json_entries(Listing *l)
{
    const ArtImage *image = &l->info->image;
    text_add(&l->text, "  \"entries\": [");
    for (uint32_t i = 0; i < image->n_entries; i++) {
        enter(l, i);
        const ArtEntry *e = l->entry;
        text_add(&l->text, i ? ", {" : "{");
        add_field(&l->text, "name", e->name);
        text_add(&l->text, ", ");
        json_values(&l->text, "inputs", e, e->inputs, e->n_inputs);
        text_add(&l->text, ", ");
        json_values(&l->text, "outputs", e, e->outputs, e->n_outputs);
        text_add(&l->text, ", \"sizes\": [");
        for (uint32_t s = 0; s < e->n_symbols + e->n_found; s++) {
            text_add(&l->text, s ? ", {" : "{");
            add_field(&l->text, "name", e->sizes[s].name);
            text_addf(&l->text, ", \"lo\": %" PRId64 ", \"hi\": %" PRId64 ", \"found\": %s}", e->sizes[s].lo, e->sizes[s].hi,
                      s < e->n_symbols ? "false" : "true");
        }
        Cost cost = {0};
        add_cost(&cost, l->variant, e, l->body);
        text_addf(&l->text, "], \"flops\": %.0f, \"at_most\": %s, \"unbounded\": %s, \"phases\": [", cost.flops,
                  cost.at_most ? "true" : "false", cost.unbounded ? "true" : "false");
        for (uint32_t p = 0; p < l->body->n_phases; p++)
            json_phase(l, p);
        text_add(&l->text, "], ");
        json_steps(l);
        json_plan(&l->text, l->body);
        text_add(&l->text, "}");
    }
    text_add(&l->text, "],\n");
}

static void json_kernels(Text *t, const ArtImage *image, const ArtVariant *v)
{
    text_add(t, "  \"kernels\": [");
    for (uint32_t i = 0; i < v->n_kernels; i++) {
        const ArtKernel *k = &v->kernels[i];
        text_add(t, i ? ",\n    {" : "\n    {");
        add_field(t, "name", k->symbol);
        text_add(t, ", ");
        add_field(t, "nodes", k->nodes);
        text_add(t, ", ");
        add_field(t, "line", k->line);
        text_add(t, ", ");
        add_field(t, "class", k->classes);
        text_addf(t, ", \"flops\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"bounded\": %s, \"code_bytes\": %" PRIu32 "}", k->flops, k->bytes,
                  is_bounded(image, v, i) ? "true" : "false", k->code_bytes);
    }
    text_add(t, "]");
}

/* Each variant with entries and kernels of its own; those at the top level are the last one's. */
static void json_variants(Listing *l)
{
    const ArtImage *image = &l->info->image;
    Text *t = &l->text;
    text_add(t, "\"cpu\": [");
    for (uint32_t i = 0; i < image->n_variants; i++) {
        l->variant = &image->variants[i];
        text_add(t, i ? ", {" : "{");
        add_field(t, "name", l->variant->name);
        text_addf(t, ", \"code_bytes\": %" PRIu64 ",\n", l->variant->code_bytes);
        json_entries(l);
        json_kernels(t, image, l->variant);
        text_add(t, "}");
    }
    text_add(t, "],\n");
}

static void make_json(Listing *l)
{
    const ArtImage *image = &l->info->image;
    Text *t = &l->text;
    text_add(t, "{\n  ");
    add_field(t, "target", image->triple);
    text_add(t, ", ");
    add_field(t, "opt_level", image->opt_level);
    text_add(t, ", ");
    add_field(t, "compiler", image->igata_version);
    text_addf(t, ", \"ftz\": %s,\n  ", image->ftz ? "true" : "false");
    json_variants(l);
    json_entries(l);
    json_kernels(t, image, l->variant);
    text_add(t, ",\n  ");
    if (image->n_entries == 1) {
        json_plan(t, &l->variant->bodies[0]);
        text_add(t, ",\n  ");
    }
    text_add(t, "\"weights\": [");
    for (uint32_t i = 0; i < image->n_weights; i++) {
        text_add(t, i ? ", {" : "{");
        add_field(t, "name", image->weights[i].name);
        text_addf(t, ", \"offset\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", image->weights[i].offset, image->weights[i].bytes);
    }
    text_addf(t, "],\n  \"weights_bytes\": %" PRIu64 ", \"file_bytes\": %" PRIu64 ",\n  \"hashes\": {", l->info->weights_bytes,
              l->info->file_bytes);
    text_addf(t, "\"model\": \"%s\", \"options\": \"%s\", \"compiler\": \"%s\"}\n}\n", hex(l->ctx, image->model_sha256),
              hex(l->ctx, image->options_sha256), hex(l->ctx, image->compiler_sha256));
}

/* ---- dot ------------------------------------------------------------------------------------------------------------------------- */

static bool is_part(const ArtBody *body, uint32_t plan, const char *whole)
{
    for (uint32_t owner = body->plan[plan].view_of; owner; owner = body->plan[owner - 1].view_of)
        if (strcmp(body->plan[owner - 1].name, whole) == 0)
            return true;
    return false;
}

/* An edge named `value` from the phase that wrote `name` last, if one did. */
static bool dot_edge(Listing *l, Map *writer, const char *name, const char *value, uint32_t number, uint32_t to)
{
    uint32_t from = (uint32_t)(uintptr_t)map_get(writer, KEY(str_intern(l->ctx, name)));
    if (!from)
        return false;
    text_addf(&l->text, "    e%u_p%u -> e%u_p%u [label=", number, from - 1, number, to);
    add_json(&l->text, value);
    text_add(&l->text, "];\n");
    return true;
}

/* A loop or a branch is a cluster around its phases. */
static void dot_step(Listing *l, uint32_t number, uint32_t step)
{
    const ArtStep *s = &l->body->steps[step];
    Text words;
    text_init(&words, l->text.arena);
    add_words(l, &words, s);
    text_add(&l->text, closes(s) ? "    }\n" : "");
    if (opens(s)) {
        text_addf(&l->text, "    subgraph cluster_%u_%u {\n    label=", number, step);
        add_json(&l->text, words.data);
        text_add(&l->text, ";\n");
    }
}

static void dot_entry(Listing *l, uint32_t number)
{
    const ArtEntry *e = l->entry;
    const ArtBody *body = l->body;
    Text *t = &l->text;
    Map *writer = map_create(t->arena); /* interned name -> phase + 1 */
    text_addf(t, "  subgraph cluster_%u {\n    label=", number);
    add_json(t, e->name);
    text_add(t, ";\n");
    for (uint32_t i = 0; i < e->n_inputs; i++) {
        text_addf(t, "    e%u_in%u [shape=ellipse, label=", number, i);
        add_json(t, e->inputs[i].name);
        text_add(t, "];\n");
    }
    uint32_t step = 0;
    for (uint32_t p = 0; p <= body->n_phases; p++) {
        for (; step < body->n_steps && body->steps[step].phase == p; step++)
            dot_step(l, number, step);
        if (p == body->n_phases)
            break;
        const ArtKernel *k = &l->variant->kernels[body->phases[p].kernel];
        text_addf(t, "    e%u_p%u [shape=box, label=", number, p);
        add_json(t, k->symbol);
        text_add(t, ", tooltip=");
        add_json(t, k->nodes);
        text_add(t, "];\n");
    }
    for (uint32_t p = 0; p < body->n_phases; p++) {
        for (uint32_t b = 0; b < body->phases[p].n_bufs; b++) {
            Operand o = operand_of(l, p, b);
            if (body->phases[p].bufs[b].kind == ART_INPUT)
                text_addf(t, "    e%u_in%u -> e%u_p%u;\n", number, body->phases[p].bufs[b].index, number, p);
            else if (o.sigil == '%' && !o.written && !dot_edge(l, writer, o.name, o.name, number, p))
                for (uint32_t i = 0; i < body->n_plan; i++) /* put together in place: from where its parts were written */
                    if (is_part(body, i, o.name))
                        dot_edge(l, writer, body->plan[i].name, o.name, number, p);
        }
        for (uint32_t b = 0; b < body->phases[p].n_bufs; b++) {
            Operand o = operand_of(l, p, b);
            if (o.sigil == '%' && o.written)
                map_set(writer, KEY(str_intern(l->ctx, o.name)), (void *)(uintptr_t)(p + 1));
        }
    }
    for (uint32_t i = 0; i < e->n_outputs; i++) {
        void *from = map_get(writer, KEY(str_intern(l->ctx, e->outputs[i].name)));
        text_addf(t, "    e%u_out%u [shape=ellipse, label=", number, i);
        add_json(t, e->outputs[i].name);
        text_add(t, "];\n");
        if (from)
            text_addf(t, "    e%u_p%u -> e%u_out%u;\n", number, (uint32_t)(uintptr_t)from - 1, number, i);
    }
    text_add(t, "  }\n");
}

static void make_dot(Listing *l)
{
    text_add(&l->text, "digraph igata {\n");
    for (uint32_t i = 0; i < l->info->image.n_entries; i++) {
        enter(l, i);
        dot_entry(l, i);
    }
    text_add(&l->text, "}\n");
}

/* ---- HTML ------------------------------------------------------------------------------------------------------------------------ */

/* Every '<' of JSON stands in a string, where the escape means the same: no name can end the script element. */
static void add_inert_json(Text *text, const char *json)
{
    for (const char *end; *json; json = *end ? end + 1 : end) {
        end = json + strcspn(json, "<");
        text_add_n(text, json, (size_t)(end - json));
        text_add(text, *end ? "\\u003c" : "");
    }
}

/* One file, nothing loaded: the report of --json and a script that draws it (inspect_page.js). */
static void make_page(Listing *l, const char *path)
{
    Text data, page;
    text_init(&data, l->text.arena);
    text_init(&page, l->text.arena);
    make_json(l);
    text_add(&data, "{");
    add_field(&data, "file", path);
    text_addf(&data, ", \"loops\": [%s], \"report\": %s}", l->loops ? l->loops : "", l->text.data);
    text_addf(&page, "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>igata</title>\n<style>\n%s</style>\n%s",
              (const char *)inspect_page_css, (const char *)inspect_page_html);
    text_add(&page, "<script type=\"application/json\" id=\"data\">");
    add_inert_json(&page, data.data);
    text_addf(&page, "</script>\n<script>\n%s</script>\n</html>\n", (const char *)inspect_page_js);
    l->text = page;
}

/* Loops that were unrolled into hundreds of kilobytes, cut at a line. */
static const char *shortened(Context *ctx, const char *text)
{
    const size_t most = (size_t)1 << 15;
    if (strlen(text) <= most)
        return text;
    size_t n = most, lines = 0;
    while (text[n - 1] != '\n')
        n--;
    for (const char *c = text + n; *c; c++)
        lines += *c == '\n';
    return arena_printf(ctx_arena(ctx), "%.*s... and %zu more lines: --dump-after=plan\n", (int)n, text, lines);
}

/* The loops of every kernel by variant, as they went to code generation: JSON lists. */
static const char *loops_of(Context *ctx, const Program *program)
{
    Text lists, kernel;
    text_init(&lists, ctx_arena(ctx));
    for (uint32_t v = 0; v < program->n_variants; v++) {
        const Schedule *s = program->variant[v].schedule;
        text_add(&lists, v ? ", [" : "[");
        for (uint32_t k = 0; k < s->kernels.len; k++) {
            text_init(&kernel, ctx_arena(ctx));
            kernel_print(&kernel, s->kernels.data[k]);
            text_add(&lists, k ? ",\n" : "");
            add_json(&lists, shortened(ctx, kernel.data));
        }
        text_add(&lists, "]");
    }
    return lists.data;
}

/* ---- public ------------------------------------------------------------------------------------------------------------------------ */

typedef struct Inspect {
    igata_context *ctx;
    const char *path;
    igata_options *options;
    const char *format;
    const char *text;
} Inspect;

/* The model as a temporary artifact, read back. *loops: only if the format shows them. */
static const ArtInfo *compile_and_read(Inspect *c, Module *module, Func *func, const char **loops)
{
    Context *ctx = c->ctx->ctx;
    DriverOptions options;
    if (!api_driver_options(c->options, false, &options))
        return NULL;
    options.model = api_model_file(c->ctx, c->path);
    Program *program = driver_compile(ctx, module, func, &options);
    TempFile file = {0};
    if (program)
        api_add_times(c->ctx, program);
    if (!program || !driver_is_complete(program) || !api_temp_file(c->ctx, &file))
        return NULL;
    const ArtInfo *info = driver_write_so(program, file.path) ? art_read(ctx, file.path) : NULL;
    if (strcmp(c->format, "html") == 0)
        *loops = loops_of(ctx, program);
    api_temp_close(&file);
    driver_destroy(program);
    return info;
}

static igata_status inspect_body(void *arg)
{
    Inspect *c = arg;
    Context *ctx = c->ctx->ctx;
    Listing l = {.ctx = ctx};
    text_init(&l.text, ctx_arena(ctx));
    bool artifact = strcmp(c->path, "-") != 0 && art_is_artifact(c->path), ir = strcmp(c->format, "ir") == 0;
    if (artifact && ir)
        return api_status(diag_report(ctx, 0, DIAG_api_artifact, c->path, "it has no intermediate form (--ir needs a model)"));
    if (artifact) {
        l.info = art_read(ctx, c->path);
    } else {
        Func *func;
        Module *module = api_import(c->ctx, c->path, NULL, c->options, NULL, &func);
        if (!module)
            return IGATA_E_MODEL;
        if (ir)
            ir_print(&l.text, module);
        else
            l.info = compile_and_read(c, module, func, &l.loops);
    }
    if (!ir && !l.info)
        return IGATA_E_MODEL;
    if (l.info && l.info->image.n_variants == 0)
        return IGATA_E_MODEL;
    if (l.info)
        l.variant = &l.info->image.variants[l.info->image.n_variants - 1];
    if (strcmp(c->format, "text") == 0)
        make_text(&l);
    else if (strcmp(c->format, "json") == 0)
        make_json(&l);
    else if (strcmp(c->format, "dot") == 0)
        make_dot(&l);
    else if (strcmp(c->format, "html") == 0)
        make_page(&l, c->path);
    else if (!ir)
        return IGATA_E_OPTION;
    c->text = l.text.data;
    return IGATA_OK;
}

igata_status igata_inspect(igata_context *ctx, const char *path, const igata_options *options, const char *format,
                           const char **text)
{
    Inspect inspect = {ctx, path, (igata_options *)(uintptr_t)options, format, ""};
    igata_status status = api_run(ctx, inspect_body, &inspect);
    *text = inspect.text;
    return status;
}
