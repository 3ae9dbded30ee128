#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Is this build slower than that of another revision? Builds both, runs them in alternating rounds; exit status 1 where a model is slower.
#   bench/gate.sh BASE [MODEL-OR-FOLDER ..]     BASE: a revision; models: by default those of run.sh, and the small ones of ../shared
# GATE: least ratio of medians, base / this build (default 0.95). ROUNDS (default 9), SECONDS_EACH (default 0.2), THREADS (default 1).
# BUILD: build folder (default build). The other revision is built in $BUILD/base.
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
base=${1:?"usage: bench/gate.sh BASE [MODEL-OR-FOLDER ..]"}
shift
base=$(git rev-parse --verify --quiet "$base^{commit}") || { echo "gate.sh: '$base' is no revision" >&2; exit 2; }
if [ $# -eq 0 ]; then
    set -- examples/digits/digits.onnx
    for name in mlp-784 mnist-cnn kws-dscnn tcn-wavenet-512 vit-tiny-64 seed-encoder-tiny silero-vad lstm-classifier; do
        if [ -d ../shared/corpus/small/$name ]; then set -- "$@" ../shared/corpus/small/$name; fi
    done
fi
rm -rf "$BUILD/base/source"
mkdir -p "$BUILD/base/source"
git archive "$base" | tar -x -C "$BUILD/base/source"
cmake -S "$BUILD/base/source" -G Ninja -Wno-dev -B "$BUILD/base/build" -DCMAKE_BUILD_TYPE=Release > /dev/null
cmake --build "$BUILD/base/build" --target igata igata_rt benchmarks > "$BUILD/base/build.log"
exec bash bench/run.sh --no-kernels --engines igata,base --base "$BUILD/base/build/igata" --gate "${GATE:-0.95}" --rounds "${ROUNDS:-9}" \
    --seconds "${SECONDS_EACH:-0.2}" --threads "${THREADS:-1}" --out "$BUILD/gate-result" --models "$@"
