/* SPDX-License-Identifier: Apache-2.0
 * Compares compiled kernels with the interpreter, bit by bit (NaN as one value), on random data with special values: for every
 * x86-64 level that this machine has, and for AArch64 under qemu where that and a cross compiler are installed. Buffers end at
 * an inaccessible page. Many kernels share one object and one link.
 */
#ifndef IGATA_TEST_KERNEL_BITS_H
#define IGATA_TEST_KERNEL_BITS_H

#include "loop/loop.h"

typedef struct BitsSuite {
    Context *ctx;
    Arena *arena;
    VEC(Kernel *) kernels;
    bool emulate;    /* also AArch64 */
    int opt_level;
} BitsSuite;
BitsSuite *bits_begin(void);
Kernel *bits_add_text(BitsSuite *suite, const char *text); /* must parse and verify */
void bits_add(BitsSuite *suite, Kernel *kernel);
int bits_run(BitsSuite *suite); /* mismatching kernels, summed over targets; describes them on stderr */
void bits_end(BitsSuite *suite);

#endif
