#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lines of each folder of src/ against its budget (doc/decisions/008-line-budgets.md).
set -euo pipefail
cd "$(dirname "$0")/.."

budgets="base:3700 ir:4750 loop:5350 op:8400 eval:280 front:9200 ad:450 pass:1400 sched:7450 cgen:3900 art:3250 rt:1300
         driver:1500 api+cli:6650"
total=0 limit=0
printf '%-8s %7s %7s\n' folder lines budget
for entry in $budgets; do
    name=${entry%%:*} budget=${entry##*:} lines=0
    for folder in ${name//+/ }; do
        [ -d "src/$folder" ] || continue
        n=$(find "src/$folder" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.inc' -o \
            -name '*.js' -o -name '*.css' -o -name '*.html' \) -exec cat {} + | wc -l)
        lines=$((lines + n))
    done
    total=$((total + lines)) limit=$((limit + budget))
    mark=""
    [ "$lines" -gt "$budget" ] && mark=" over"
    printf '%-8s %7d %7d%s\n' "$name" "$lines" "$budget" "$mark"
done
printf '%-8s %7d %7d\n' total "$total" "$limit"
