#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Speed of this build: kernels against the FMA peak, then models against other engines.
#   bench/run.sh [--models DIR ..] [--engines igata,onnxruntime,openvino,torch,torch-compile] [--threads N] [--rounds N] [--seconds S]
#                [--out FILE-STEM] [--no-kernels] [--base IGATA] [--gate RATIO]     (the last two: see compare.py and gate.sh)
# BUILD: build folder (default build).
# VENV: virtual environment with onnx, numpy and the peers (default $BUILD/bench-venv); what is missing is installed.
# Results: FILE-STEM.md and FILE-STEM.json (default $BUILD/bench-result).
set -euo pipefail
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
VENV=${VENV:-$BUILD/bench-venv}
models=() engines=igata,onnxruntime threads=1 rounds=7 seconds=0.3 out=$BUILD/bench-result kernels=1 more=()
while [ $# -gt 0 ]; do
    case $1 in
    --models) shift; while [ $# -gt 0 ] && [ "${1#--}" = "$1" ]; do models+=("$1"); shift; done ;;
    --engines) engines=$2; shift 2 ;;
    --threads) threads=$2; shift 2 ;;
    --rounds) rounds=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --no-kernels) kernels=0; shift ;;
    --base | --gate) more+=("$1" "$2"); shift 2 ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
    esac
done
[ -x "$BUILD/bench/bench_runner" ] || { echo "run.sh: $BUILD/bench/bench_runner is not there: make bench builds it" >&2; exit 2; }
if [ ${#models[@]} = 0 ]; then
    small=../shared/corpus/small
    for name in mlp-784 mnist-cnn; do
        if [ -d $small/$name ]; then models+=("$small/$name"); fi
    done
    models+=(examples/digits/digits.onnx)
fi
if [ $kernels = 1 ] && [ -x "$BUILD/bench/bench_kernels" ]; then
    (cd "$BUILD" && bench/bench_kernels "$OLDPWD"/bench/kernels/*.ig "$OLDPWD"/bench/kernels/*.loop)
fi
if [ ! -x "$VENV/bin/python" ]; then
    python3 -c 'import ensurepip' 2> /dev/null ||
        { apt-get -qq update && apt-get -qq install -y python3-venv; } > /dev/null
    python3 -m venv "$VENV"
fi
"$VENV/bin/python" -c 'import onnx, numpy' 2> /dev/null || "$VENV/bin/pip" install -q --retries 1 onnx numpy || {
    echo "run.sh: onnx cannot be installed, which reads the models" >&2
    exit 1
}
for peer in onnxruntime openvino torch; do
    case ,$engines, in
    *,$peer,* | *,$peer-*) "$VENV/bin/python" -c "import $peer" 2> /dev/null || "$VENV/bin/pip" install -q --retries 1 $peer ||
        echo "run.sh: $peer cannot be installed; its rows will say so" >&2 ;;
    esac
done
"$VENV/bin/python" bench/compare.py --igata "$BUILD/igata" --engines "$engines" --threads "$threads" \
    --rounds "$rounds" --seconds "$seconds" --out "$out" "${more[@]}" "${models[@]}"
