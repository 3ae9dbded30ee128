/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels to one object: a module, a function each, LLVM's code generator without any IR pass before it.
 *
 * Everything LLVM needs lives in its own context here, so Contexts in different threads compile at the same time. Targets are
 * registered once per process: LLVM keeps that table itself.
 */
#include "cgen/llvm/llvm_int.h"

#include <string.h>
#include <threads.h>

/* ---- targets ---------------------------------------------------------------------------------------------------------------- */

/* Loop strength reduction is left out: addresses are cursors already (llvm_int.h), so it changes next to nothing (speed of seven
 * networks: -2 to +0.4 %, the same spills, 2 % more code) and took half the time of generating the code of resnet50. */
static void register_targets(void)
{
    static const char *const options[] = {"igata", "-disable-lsr"};
    LLVMParseCommandLineOptions(IG_COUNT(options), options, NULL);
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMInitializeAArch64AsmParser();
}

static LLVMTargetMachineRef create_machine(Context *ctx, const CgenOptions *options)
{
    /* The one mutable global (tools/layers.sh knows it): LLVM's registry of targets belongs to the process and takes no lock. */
    static once_flag llvm_targets_once = ONCE_FLAG_INIT;
    call_once(&llvm_targets_once, register_targets);
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(options->target->triple, &target, &message)) {
        Str text = str_intern(ctx, message);
        LLVMDisposeMessage(message);
        diag_report(ctx, 0, DIAG_cgen_target, options->target->triple, text);
        return NULL;
    }
    LLVMTargetMachineOptionsRef o = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(o, options->target->cpu);
    LLVMTargetMachineOptionsSetFeatures(o, options->target->features);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(o, options->opt_level > 0 ? LLVMCodeGenLevelDefault : LLVMCodeGenLevelLess);
    LLVMTargetMachineOptionsSetRelocMode(o, LLVMRelocPIC);
    LLVMTargetMachineOptionsSetCodeModel(o, LLVMCodeModelSmall);
    LLVMTargetMachineRef machine = LLVMCreateTargetMachineWithOptions(target, options->target->triple, o);
    LLVMDisposeTargetMachineOptions(o);
    return machine;
}

static CgMachine machine_of(const TargetInfo *target)
{
    if (!strncmp(target->triple, "aarch64", 7))
        return MACHINE_AARCH64;
    if (strncmp(target->triple, "x86_64", 6))
        return MACHINE_OTHER;
    return strstr(target->features, "+avx512f") ? MACHINE_AVX512 : strstr(target->features, "+avx2") ? MACHINE_AVX2 : MACHINE_OTHER;
}

/* ---- module and functions ------------------------------------------------------------------------------------------------------ */

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    Cg *cg = user;
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError)
        cg->llvm_error = true;
}

static void create_module(Cg *cg, LLVMTargetMachineRef machine)
{
    cg->lc = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(cg->lc, on_diagnostic, cg);
    cg->mod = LLVMModuleCreateWithNameInContext("igata", cg->lc);
    cg->b = LLVMCreateBuilderInContext(cg->lc);
    LLVMSetTarget(cg->mod, cg->options->target->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(cg->mod, layout);
    LLVMDisposeTargetData(layout);
    cg->i1 = LLVMInt1TypeInContext(cg->lc);
    cg->i8 = LLVMInt8TypeInContext(cg->lc);
    cg->i16 = LLVMInt16TypeInContext(cg->lc);
    cg->i32 = LLVMInt32TypeInContext(cg->lc);
    cg->i64 = LLVMInt64TypeInContext(cg->lc);
    cg->half = LLVMHalfTypeInContext(cg->lc);
    cg->f32 = LLVMFloatTypeInContext(cg->lc);
    cg->f64 = LLVMDoubleTypeInContext(cg->lc);
    cg->ptr = LLVMPointerTypeInContext(cg->lc, 0);
    cg->nothing = LLVMVoidTypeInContext(cg->lc);
}

static void add_text_attribute(Cg *cg, LLVMValueRef fn, const char *key, const char *value)
{
    LLVMAttributeRef a =
        LLVMCreateStringAttribute(cg->lc, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void add_attribute(Cg *cg, LLVMValueRef fn, const char *name, uint64_t value)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(cg->lc, kind, value));
}

static void function_attributes(Cg *cg, LLVMValueRef fn)
{
    add_attribute(cg, fn, "nounwind", 0);
    add_attribute(cg, fn, "uwtable", 2); /* .eh_frame for debuggers and profilers */
    add_text_attribute(cg, fn, "target-cpu", cg->options->target->cpu);
    add_text_attribute(cg, fn, "target-features", cg->options->target->features);
    add_text_attribute(cg, fn, "prefer-vector-width", "512");
    add_text_attribute(cg, fn, "no-jump-tables", "true");
    add_text_attribute(cg, fn, "no-builtins", "true");
    if (cg->options->ftz)
        add_text_attribute(cg, fn, "denormal-fp-math", "preserve-sign,preserve-sign");
}

static const char *symbol_name(Cg *cg, const Kernel *k)
{
    char *name = arena_copy(cg->arena, k->name, strlen(k->name) + 1);
    for (char *c = name; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9' && c > name) || *c == '_' ||
              *c == '.' || *c == '$'))
            *c = '_';
    return name;
}

static void largest_tile(Cg *cg, const Stmt *list)
{
    for (const Stmt *s = list; s; s = s->next) {
        if (s->kind == LS_FOR)
            largest_tile(cg, s->u.loop.body);
        if (s->kind == LS_IF) {
            largest_tile(cg, s->u.branch.then);
            largest_tile(cg, s->u.branch.otherwise);
        }
        int64_t bytes = s->kind == LS_MMA ? s->u.mma.rows * s->u.mma.cols * cg_bytes(s->u.mma.tile->dtype) : 0;
        cg->tile_bytes = bytes > cg->tile_bytes ? bytes : cg->tile_bytes;
    }
}

static bool compiled_dtype(DType t)
{
    return t == DT_F32 || t == DT_F64 || t == DT_F16 || t == DT_BF16 || t == DT_BOOL || (dtype_is_int(t) && dtype_bits(t) >= 8);
}

static bool emit_kernel(Cg *cg, const Kernel *kernel)
{
    cg->k = kernel_clone(cg->arena, kernel); /* emission adds expressions and iterators */
    cg->unsupported = false;
    for (uint32_t i = 0; i < cg->k->bufs.len; i++)
        if (!compiled_dtype(cg->k->bufs.data[i]->dtype))
            cg_unsupported(cg, "buffers of %s have no machine code yet", dtype_name(cg->k->bufs.data[i]->dtype));
    if (cg->unsupported)
        return false;
    LLVMTypeRef params[] = {cg->ptr, cg->i64, cg->i64, cg->ptr};
    LLVMTypeRef type = LLVMFunctionType(cg->nothing, params, 4, false);
    cg->fn = LLVMAddFunction(cg->mod, symbol_name(cg, kernel), type);
    function_attributes(cg, cg->fn);
    cg->iters = map_create(cg->arena);
    cg->vars = map_create(cg->arena);
    cg->top = cg->floor = 0;
    cg->epoch = cg->last_epoch = 0;
    cg->scope[0] = (Scope){.cache = map_create(cg->arena)};
    cg->lane = NULL;
    cg->mask = cg->safe = NULL;
    cg->slots.len = cg->tiles.len = 0;
    cg->tile_bytes = 0;
    largest_tile(cg, cg->k->body);
    LLVMBasicBlockRef entry = cg_block(cg, "entry"), start = cg_block(cg, "start");
    LLVMPositionBuilderAtEnd(cg->b, entry);
    cg->entry_end = LLVMBuildBr(cg->b, start);
    cg_use_block(cg, start);
    cg_list(cg, cg->k->body);
    LLVMPositionBuilderAtEnd(cg->b, cg->bb);
    LLVMBuildRetVoid(cg->b);
    return !cg->unsupported;
}

/* ---- output ----------------------------------------------------------------------------------------------------------------------- */

static void verify_module(Cg *cg)
{
    char *message = NULL;
    if (LLVMVerifyModule(cg->mod, LLVMReturnStatusAction, &message)) {
        Str text = str_intern(cg->ctx, message);
        LLVMDisposeMessage(message);
        ig_bug(cg->ctx, "invalid LLVM IR: %s", text);
    }
    LLVMDisposeMessage(message);
}

static void write_output(Cg *cg, Arena *arena, LLVMTargetMachineRef machine, Blob *out)
{
    if (cg->options->output == CGEN_LLVM_IR) {
        char *text = LLVMPrintModuleToString(cg->mod);
        *out = (Blob){arena_copy(arena, text, strlen(text)), strlen(text)};
        LLVMDisposeMessage(text);
        return;
    }
    LLVMCodeGenFileType type = cg->options->output == CGEN_OBJECT ? LLVMObjectFile : LLVMAssemblyFile;
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, cg->mod, type, &message, &buffer) || cg->llvm_error) {
        Str text = str_intern(cg->ctx, message ? message : "see LLVM's diagnostics");
        ig_bug(cg->ctx, "LLVM cannot emit code: %s", text);
    }
    size_t size = LLVMGetBufferSize(buffer);
    *out = (Blob){arena_copy(arena, LLVMGetBufferStart(buffer), size), size};
    LLVMDisposeMemoryBuffer(buffer);
    const char *undefined = cg->options->output == CGEN_OBJECT ? cg_object_undefined(out) : NULL;
    if (undefined)
        ig_bug(cg->ctx, "emitted code calls %s", undefined);
}

typedef struct Emission {
    Cg cg;
    LLVMTargetMachineRef machine;
    Arena *arena;
    const Kernel *const *kernels;
    uint32_t n;
    Blob *out;
    bool good;
} Emission;

static void emit_all(void *user)
{
    Emission *e = user;
    create_module(&e->cg, e->machine);
    e->good = true;
    for (uint32_t i = 0; i < e->n; i++)
        e->good &= emit_kernel(&e->cg, e->kernels[i]);
    if (!e->good)
        return;
    verify_module(&e->cg);
    write_output(&e->cg, e->arena, e->machine, e->out);
}

/* Bugs and exhausted memory pass through here so that LLVM's own memory is released. */
bool cgen_emit(Context *ctx, Arena *arena, const CgenOptions *options, const Kernel *const *kernels, uint32_t n, Blob *out)
{
    Emission *e = ARENA_NEW(arena, Emission);
    *e = (Emission){.machine = create_machine(ctx, options), .arena = arena, .kernels = kernels, .n = n, .out = out};
    if (!e->machine)
        return false;
    Arena *tmp = arena_create(ctx);
    e->cg = (Cg){.ctx = ctx, .arena = tmp, .options = options, .machine = machine_of(options->target)};
    CtxStatus status = ctx_protect(ctx, emit_all, e);
    if (e->cg.b)
        LLVMDisposeBuilder(e->cg.b);
    if (e->cg.mod)
        LLVMDisposeModule(e->cg.mod);
    if (e->cg.lc)
        LLVMContextDispose(e->cg.lc);
    LLVMDisposeTargetMachine(e->machine);
    arena_destroy(tmp);
    if (status != CTX_OK)
        ctx_unwind(ctx, status);
    return e->good;
}

/* ---- pieces --------------------------------------------------------------------------------------------------------------------- */

/* Setting up LLVM for a module takes about as long as code for PART_COST expressions. */
enum { PART_COST = 200 };

void cgen_begin(Context *ctx, Arena *arena, const CgenOptions *options, const Kernel *const *kernels, uint32_t n, CgenParts *parts)
{
    *parts = (CgenParts){.data = ARENA_ARRAY(arena, CgenPart, n + 1)};
    for (uint32_t first = 0; first < n || parts->len == 0;) { /* an object also where there is no kernel */
        CgenPart *part = &parts->data[parts->len++];
        *part = (CgenPart){.outer = ctx, .options = options, .kernels = kernels, .first = first};
        while (part->cost < PART_COST && first < n) {
            part->cost += kernels[first++]->n_exprs;
            part->n++;
        }
        part->ctx = ctx_create_inner(ctx);
        if (!part->ctx)
            part->ctx = ctx;
    }
}

static void run_part(void *user)
{
    CgenPart *part = user;
    part->good = cgen_emit(part->ctx, ctx_arena(part->ctx), part->options, part->kernels + part->first, part->n, &part->object);
}

void cgen_run_part(CgenPart *part)
{
    if (part->ctx == part->outer)
        run_part(part);
    else
        part->status = ctx_protect(part->ctx, run_part, part);
}

bool cgen_end(Arena *arena, CgenParts *parts)
{
    bool good = true;
    for (uint32_t i = 0; i < parts->len; i++) {
        CgenPart *part = &parts->data[i];
        good &= part->good;
        if (part->ctx == part->outer)
            continue;
        part->object.data = arena_copy(arena, part->object.data, part->object.size);
        diag_move(part->outer, part->ctx);
        ctx_destroy(part->ctx);
        if (part->status != CTX_OK)
            ctx_unwind(part->outer, part->status);
    }
    return good;
}
