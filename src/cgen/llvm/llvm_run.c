/* SPDX-License-Identifier: Apache-2.0
 *
 * PREFIX_run for objects that are linked into a program: fills the address table of each phase, calls its kernel for all
 * tiles, one phase after the other. The floating-point control word is written only where it differs, at entry and exit (runtime.md,
 * "Running").
 */
#include "cgen/llvm/llvm_int.h"

/* Round to nearest, no traps, subnormals kept or flushed. x86: MXCSR, Intel SDM vol. 1, 10.2.3; AArch64: FPCR, Arm ARM C5.2. */
typedef struct FpControl {
    const char *read, *write;
    uint64_t bits, plain, ftz; /* `bits`: those that run sets */
    bool by_memory;            /* the instructions move a 32-bit word in memory, else a 64-bit register */
} FpControl;
static const FpControl fp_x86 = {"llvm.x86.sse.stmxcsr", "llvm.x86.sse.ldmxcsr", 0xffc0, 0x1f80, 0x9fc0, true};
static const FpControl fp_arm = {"llvm.aarch64.get.fpcr", "llvm.aarch64.set.fpcr", 0x07c89f07, 0, 0x01000000, false};

static LLVMValueRef read_control(Cg *cg, const FpControl *fp, LLVMValueRef word)
{
    if (!fp->by_memory)
        return cg_intrinsic(cg, fp->read, NULL, 0, NULL, 0);
    cg_intrinsic(cg, fp->read, NULL, 0, &word, 1);
    return LLVMBuildLoad2(cg->b, cg->i32, word, "");
}

static void write_control(Cg *cg, const FpControl *fp, LLVMValueRef word, LLVMValueRef value)
{
    if (fp->by_memory)
        LLVMBuildStore(cg->b, value, word);
    cg_intrinsic(cg, fp->write, NULL, 0, fp->by_memory ? &word : &value, 1);
}

/* Writes `value` if it differs from `other`. */
static void exchange_control(Cg *cg, const FpControl *fp, LLVMValueRef word, LLVMValueRef value, LLVMValueRef other)
{
    LLVMBasicBlockRef write = cg_block(cg, "write"), join = cg_block(cg, "join");
    LLVMBuildCondBr(cg->b, LLVMBuildICmp(cg->b, LLVMIntNE, value, other, ""), write, join);
    cg_use_block(cg, write);
    write_control(cg, fp, word, value);
    LLVMBuildBr(cg->b, join);
    cg_use_block(cg, join);
}

static LLVMValueRef embed_weights(Cg *cg, const Schedule *s)
{
    uint8_t *bytes = ARENA_ARRAY(cg->arena, uint8_t, s->weight_bytes + 1);
    for (uint32_t i = 0; i < s->weights.len; i++) {
        const PackedWeight *w = s->weights.data[i];
        uint64_t count = 1;
        for (uint32_t d = 0; d < w->rank; d++)
            count *= (uint64_t)w->dim[d];
        IG_CHECK(cg->ctx, w->offset <= s->weight_bytes && w->bytes <= s->weight_bytes - w->offset);
        sched_pack(w, 0, count, bytes + w->offset);
    }
    LLVMValueRef data = LLVMConstStringInContext2(cg->lc, (const char *)bytes, s->weight_bytes, true);
    LLVMValueRef global = LLVMAddGlobal(cg->mod, LLVMTypeOf(data), "weights");
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMInternalLinkage);
    LLVMSetAlignment(global, 64);
    return global;
}

typedef struct Bases {
    LLVMValueRef in, out, workspace, state, weights;
    uint64_t scratch; /* offset from the workspace */
} Bases;

static LLVMValueRef slot_address(Cg *cg, const Bases *bases, const Slot *slot)
{
    LLVMValueRef base = NULL, index = cg_int(cg, slot->index);
    uint64_t offset = slot->offset;
    switch (slot->kind) {
    case SLOT_WORKSPACE: base = bases->workspace; break;
    case SLOT_SCRATCH:
        base = bases->workspace;
        offset += bases->scratch;
        break;
    case SLOT_INPUT:
    case SLOT_OUTPUT:
        base = slot->kind == SLOT_INPUT ? bases->in : bases->out;
        base = LLVMBuildLoad2(cg->b, cg->ptr, LLVMBuildGEP2(cg->b, cg->ptr, base, &index, 1, ""), "");
        break;
    case SLOT_WEIGHTS: base = bases->weights; break;
    case SLOT_STATE: base = bases->state; break;
    case SLOT_SIZES: ig_bug(cg->ctx, "PREFIX_run has no place for the sizes of a run");
    }
    LLVMValueRef bytes = cg_int(cg, (int64_t)offset);
    return LLVMBuildGEP2(cg->b, cg->i8, base, &bytes, 1, "");
}

static void call_phase(Cg *cg, const Bases *bases, const Phase *phase, const Kernel *kernel, LLVMValueRef fn, LLVMValueRef table,
                       LLVMValueRef error)
{
    for (uint32_t i = 0; i < kernel->bufs.len; i++) {
        LLVMValueRef at = cg_int(cg, i), address = slot_address(cg, bases, &phase->slots[i]);
        LLVMBuildStore(cg->b, address, LLVMBuildGEP2(cg->b, cg->ptr, table, &at, 1, ""));
    }
    LLVMValueRef args[] = {table, cg_int(cg, 0), cg_int(cg, phase->tiles), error};
    LLVMBuildCall2(cg->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

void cg_emit_run(Cg *cg, const CgenRun *run, LLVMValueRef *kernel)
{
    const Schedule *s = run->schedule;
    const FpControl *fp = cg->machine == MACHINE_AARCH64 ? &fp_arm : &fp_x86;
    LLVMTypeRef params[] = {cg->ptr, cg->ptr, cg->ptr, cg->ptr};
    cg->fn = LLVMAddFunction(cg->mod, arena_printf(cg->arena, "%s_run", run->prefix), LLVMFunctionType(cg->i32, params, 4, false));
    cg_function_attributes(cg, cg->fn);
    uint32_t most = 1;
    for (uint32_t i = 0; i < s->kernels.len; i++) {
        LLVMSetLinkage(kernel[i], LLVMInternalLinkage);
        most = s->kernels.data[i]->bufs.len > most ? s->kernels.data[i]->bufs.len : most;
    }
    cg_use_block(cg, cg_block(cg, "entry"));
    LLVMValueRef table = LLVMBuildAlloca(cg->b, LLVMArrayType2(cg->ptr, most), "bufs");
    LLVMValueRef error = LLVMBuildAlloca(cg->b, cg->i64, "error"), word = LLVMBuildAlloca(cg->b, cg->i32, "word");
    LLVMBuildStore(cg->b, cg_int(cg, 0), error);
    Bases bases = {LLVMGetParam(cg->fn, 0), LLVMGetParam(cg->fn, 1), LLVMGetParam(cg->fn, 2), LLVMGetParam(cg->fn, 3), NULL,
                   (s->workspace_bytes + 63) / 64 * 64};
    bases.weights = embed_weights(cg, s);
    LLVMValueRef old = read_control(cg, fp, word);
    LLVMTypeRef type = LLVMTypeOf(old);
    LLVMValueRef kept = LLVMBuildAnd(cg->b, old, LLVMConstInt(type, ~fp->bits, false), "");
    LLVMValueRef mode = LLVMConstInt(type, cg->options->ftz ? fp->ftz : fp->plain, false);
    LLVMValueRef ours = LLVMBuildOr(cg->b, kept, mode, "");
    exchange_control(cg, fp, word, ours, old);
    for (uint32_t i = 0; i < s->phases.len; i++) {
        const Phase *phase = &s->phases.data[i];
        call_phase(cg, &bases, phase, s->kernels.data[phase->kernel], kernel[phase->kernel], table, error);
    }
    exchange_control(cg, fp, word, old, ours);
    LLVMValueRef code = LLVMBuildLoad2(cg->b, cg->i64, error, "");
    LLVMValueRef clean = LLVMBuildICmp(cg->b, LLVMIntEQ, code, cg_int(cg, 0), "");
    LLVMValueRef status = LLVMConstInt(cg->i32, (uint64_t)run->index_status, true);
    LLVMBuildRet(cg->b, LLVMBuildSelect(cg->b, clean, LLVMConstNull(cg->i32), status, ""));
}
