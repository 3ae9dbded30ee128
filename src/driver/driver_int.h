/* SPDX-License-Identifier: Apache-2.0
 * Shared by the files of driver/ only. */
#ifndef IGATA_DRIVER_INT_H
#define IGATA_DRIVER_INT_H

#include "driver/driver.h"

/* image.c: an image of all variants with one entry. Everything lives in arena. */
void driver_make_image(Program *p, Arena *arena, ArtImage *image);

#endif
