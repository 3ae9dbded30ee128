/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with a model linked into it. No runtime library, no file at run time, no allocation: net.o or libnet.a
 * holds code and weights, net.h says what memory it needs. See README.md for the commands.
 */
#include "net.h"

#include <stddef.h>
#include <stdio.h>

#define ROUND(bytes) (((bytes) + NET_ALIGN) / NET_ALIGN * NET_ALIGN)
static const size_t input_bytes[] = NET_INPUT_BYTES, output_bytes[] = NET_OUTPUT_BYTES;
static _Alignas(NET_ALIGN) unsigned char workspace[NET_WORKSPACE_BYTES + NET_ALIGN], state[NET_STATE_BYTES + NET_ALIGN];

/* Room for all inputs and outputs; a real program has its own buffers, 64-byte aligned. */
#define ROOM (64u << 20)
static _Alignas(NET_ALIGN) unsigned char room[ROOM];

int main(void)
{
    const void *in[NET_INPUTS + 1];
    void *out[NET_OUTPUTS + 1];
    size_t used = 0;
    for (size_t i = 0; i < NET_INPUTS + NET_OUTPUTS; i++) {
        size_t bytes = i < NET_INPUTS ? input_bytes[i] : output_bytes[i - NET_INPUTS];
        if (bytes > ROOM - NET_ALIGN || used > ROOM - NET_ALIGN - bytes) {
            fprintf(stderr, "inputs and outputs need more than %u bytes\n", ROOM);
            return 1;
        }
        if (i < NET_INPUTS)
            in[i] = room + used; /* all zero here */
        else
            out[i - NET_INPUTS] = room + used;
        used += ROUND(bytes);
    }
    int status = net_run(in, out, workspace, state);
    if (status != 0) {
        fprintf(stderr, "net_run: status %d\n", status);
        return 1;
    }
    const float *first = out[0];
    size_t n = output_bytes[0] / sizeof *first;
    for (size_t i = 0; i < n && i < 8; i++)
        printf("%.9g\n", (double)first[i]); /* if it is f32 */
    return 0;
}
