/* SPDX-License-Identifier: Apache-2.0
 *
 * If, Loop and Scan. Sub-graphs become closed regions: the names that they use and do not define are looked up around them
 * and passed as operands; constants are made anew inside, so that shapes that depend on them stay known.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>
