#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# igata test on trained models, by every engine and level, and compiled = ref32 bit for bit with every way of compiling.
set -uo pipefail
[ -d "$SHARED/corpus/small" ] || { echo "no models in SHARED"; exit 77; }
models=(mlp-784 mnist-cnn mnist-cnn-opset7 tabular-mlp mlp-external-data autoencoder-conv kws-dscnn vit-tiny-64 seed-encoder-tiny
    seed-encoder-tiny-opset23 tcn-wavenet-512 mobilenet-block-relu6-nhwc-style)
folders=("${models[@]/#/$SHARED/corpus/small/}")
failed=0
check() {
    local last
    last=$("$IGATA" test "$@" "${folders[@]}" | tee log | tail -n 1)
    if [ "$last" != "${#models[@]} passed, 0 failed" ] && ! grep -q "^[0-9]* skipped" log; then
        echo "FAIL: igata test $*: $(grep -v '^ok' log)" >&2
        failed=1
    fi
    grep -h "^skip" log | head -n 1
    return 0
}
check --engine ref32
check --engine f64
check --engine eager --bits
check --bits -O0
check --bits -O1
check --bits -O2
check --bits -O2 --threads 2
check --bits --also-output all
check --bits --cpu x86-64-v3
check --bits --cpu x86-64-v4
if [ -x "$BUILD/igata-runner-aarch64" ] && command -v qemu-aarch64-static > /dev/null; then
    check --bits --target aarch64-linux-gnu --runner qemu-aarch64-static
else
    echo "skip: no AArch64 runner or emulator"
fi
# every optional pass alone left out
passes=$("$IGATA" compile --help > /dev/null && sed -n 's/^PASS( *\([a-z_]*\), *[A-Z]*, *true,.*/\1/p' "$SRC"/src/pass/passes.def \
    "$SRC"/src/sched/passes.def)
[ -n "$passes" ] || { echo "FAIL: no optional passes found" >&2; failed=1; }
for pass in $passes; do
    check --bits --disable-pass="$pass"
done
exit $failed
