/* SPDX-License-Identifier: Apache-2.0
 * The one place that knows which LLVM this is. */
#ifndef IGATA_LLVM_COMPAT_H
#define IGATA_LLVM_COMPAT_H

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm/Config/llvm-config.h>

#if LLVM_VERSION_MAJOR != 22
#error "igata's code generator is written for LLVM 22: masked load and store intrinsics differ in other releases"
#endif

#endif
