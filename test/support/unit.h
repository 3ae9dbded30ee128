/* SPDX-License-Identifier: Apache-2.0
 * cmocka with the headers that it wants before itself. */
#ifndef IGATA_TEST_UNIT_H
#define IGATA_TEST_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
