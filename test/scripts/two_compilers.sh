#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# igata built by gcc and by clang writes the same bytes: C leaves the order of a call's arguments open, so no order that can be seen
# in an output may come from there. OTHER=PATH names an igata of the other compiler; OTHER=build builds one here, which takes minutes
# (`make two-compilers`); without it the test is skipped.
set -uo pipefail
[ -x "$IGATA" ] || { echo "no $IGATA"; exit 77; }
[ -z "${SANITIZE:-}" ] || { echo "plain builds are compared"; exit 77; }
rm -rf out && mkdir -p out/a out/b
[ -n "${OTHER:-}" ] || { echo "needs OTHER, see make two-compilers"; exit 77; }
if [ "$OTHER" = build ]; then
    mine=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
    case $("$mine" --version) in *clang*) names=(gcc) ;; *) names=(clang clang-22 clang-14) ;; esac
    for name in "${names[@]}"; do
        compiler=$(command -v "$name") && break
    done
    [ -n "${compiler:-}" ] || { echo "there is no second compiler"; exit 77; }
    cmake -S "$SRC" -B other -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug > cmake.log &&
        cmake --build other --target igata > build.log || { tail cmake.log build.log; exit 1; }
    OTHER=$PWD/other/igata
fi
failed=0 n=0
compare() { # MODEL OPTION...
    local model=$1 kind
    shift
    n=$((n + 1))
    for kind in ig so ll; do
        "$IGATA" compile "$model" "$@" -q -o "out/a/net.$kind" > log 2>&1 && "$OTHER" compile "$model" "$@" -q -o "out/b/net.$kind" >> log 2>&1 || {
            echo "FAIL: $model is not compiled: $(cat log)"
            failed=1
            return
        }
        cmp "out/a/net.$kind" "out/b/net.$kind" || { echo "FAIL: $model $*: other .$kind"; failed=1; }
    done
}
compare "$SRC/examples/digits/digits.onnx" --dim batch=2
for model in "${SHARED:-}"/corpus/small/*/model.onnx; do
    [ -f "$model" ] && "$IGATA" compile "$model" -q -o out/probe.so > /dev/null 2>&1 && compare "$model"
done
for model in "${SHARED:-}"/cases/{gather,pool,ties,norm,softmax,axes,torch,algebra}/*/model.onnx; do
    [ -f "$model" ] && "$IGATA" compile "$model" -q -o out/probe.so > /dev/null 2>&1 && compare "$model"
done
echo "$n models compared"
exit $failed
