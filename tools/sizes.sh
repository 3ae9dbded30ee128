#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lines of each folder of src/ against its budget; the total stays under 38,000.
set -euo pipefail
cd "$(dirname "$0")/.."

budgets="base:2500 ir:4500 loop:2500 op:6000 eval:600 front:4500 ad:700 pass:4000 sched:3500 cgen:4000 art:900 rt:1800 driver:700 api+cli:1800"
total=0
printf '%-8s %7s %7s\n' folder lines budget
for entry in $budgets; do
    name=${entry%%:*} budget=${entry##*:} lines=0
    for folder in ${name//+/ }; do
        [ -d "src/$folder" ] || continue
        n=$(find "src/$folder" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.inc' \) -exec cat {} + | wc -l)
        lines=$((lines + n))
    done
    total=$((total + lines))
    mark=""
    [ "$lines" -gt "$budget" ] && mark=" over"
    printf '%-8s %7d %7d%s\n' "$name" "$lines" "$budget" "$mark"
done
printf '%-8s %7d %7d\n' total "$total" 38000
