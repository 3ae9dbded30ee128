#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make demo`: a trained network becomes one file; it runs, its answers are checked, and its speed is compared with eager execution.
set -euo pipefail
cd "$(dirname "$0")/.."
net=examples/digits/digits.onnx images=examples/digits/images.npy labels=examples/digits/labels.npy
out=build/demo
expected="358 of 360" # this network is that good; equal on every machine, as all bits are
rm -rf "$out" && mkdir -p "$out"

step() { printf '\n==== %s\n\n' "$1"; }
show() { # prints a command and runs it
    printf '$ %s\n' "$*"
    "$@"
}

step "1. Compile: a trained network that reads handwritten digits becomes one shared object"
show build/igata compile "$net" --dim batch=1 -o "$out/digits.so"
show build/igata compile "$net" --dim batch=360 -o "$out/digits-360.so"
for file in "$net" "$out/digits.so" "$out/digits-360.so"; do
    printf '%9d bytes  %s\n' "$(stat -c %s "$file")" "$file"
done

step "2. What is inside: one line a kernel, shapes fixed, memory planned"
printf '$ build/igata inspect %s\n' "$out/digits.so"
build/igata inspect "$out/digits.so" | awk '/^entry / { listed++ } listed < 2; END { if (listed > 1) print "... (the same for other CPU levels, weights, hashes)" }'

step "3. Run: a C program with the runtime library reads images that training did not see"
show "${CC:-gcc}" -O2 -Iinclude examples/digits/digits.c build/libigata_rt.a -o "$out/digits"
show "$out/digits" "$out/digits.so" "$images" "$labels"
printf '\nThe same with all images in one batch:\n'
printf '$ %s | tail -n 1\n' "$out/digits $out/digits-360.so $images $labels"
answer=$("$out/digits" "$out/digits-360.so" "$images" "$labels" | tail -n 1)
echo "$answer"
case "$answer" in
"$expected "*) echo "As expected." ;;
*) echo "Expected: $expected." >&2 && exit 1 ;;
esac

step "4. Check: all 360 results against the reference evaluator, bit for bit"
show build/igata verify "$net" -i "image=@$images"

step "5. Speed: eager (a kernel per operator, dispatched one by one) against compiled, one image a run"
show build/igata bench "$net" --dim batch=1 --seconds 2 --compare
printf '\nWhat lies above p99 is mostly other programs on this machine.\nNext: README.md, and doc/tour.md, which follows this network through the compiler.\n'
