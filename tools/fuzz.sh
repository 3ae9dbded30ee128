#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh BUILD SECONDS: runs each libFuzzer driver of BUILD for SECONDS. The corpus grows in BUILD/corpus; what crashes, leaks,
# or takes longer than 10 seconds is kept in BUILD/crashes, to be moved to test/fuzz/regress/<name>/ with its fix.
set -uo pipefail
build=$1 seconds=$2
source_dir=$(cd "$(dirname "$0")/.." && pwd)
found=0
for driver in "$build"/test/fuzz/fuzz_*; do
    [ -x "$driver" ] || continue
    name=${driver##*/fuzz_}
    mkdir -p "$build/corpus/$name" "$build/crashes/$name"
    folders=("$build/corpus/$name")
    for kept in seeds regress; do
        [ -d "$source_dir/test/fuzz/$kept/$name" ] && folders+=("$source_dir/test/fuzz/$kept/$name")
    done
    echo "fuzz $name: $seconds s"
    if ! "$driver" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$build/crashes/$name/" "${folders[@]}" > "$build/crashes/$name.log" 2>&1; then
        found=1
        echo "fuzz $name: FOUND something, see $build/crashes/$name.log"
        tail -n 40 "$build/crashes/$name.log"
    else
        grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "$build/crashes/$name.log"
    fi
done
exit $found
