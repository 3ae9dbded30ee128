#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An artifact lists what each CPU variant does: its tiles, plan and kernels, in text and JSON.
set -uo pipefail
[ -x "$IGATA" ] || { echo "no $IGATA"; exit 77; }
rm -rf ./*
failed=0
fail() { echo "FAIL: $*"; failed=1; }
"$IGATA" compile "$SRC/examples/digits/digits.onnx" --dim batch=2 --cpu x86-64-v3,x86-64-v4 -q -o both.so || exit 1
"$IGATA" inspect both.so > both.txt && "$IGATA" inspect both.so --json > both.json || exit 1
for cpu in x86-64-v3 x86-64-v4; do
    "$IGATA" compile "$SRC/examples/digits/digits.onnx" --dim batch=2 --cpu $cpu -q -o one.so || exit 1
    "$IGATA" inspect one.so > one.txt && "$IGATA" inspect one.so --json > one.json || exit 1
    # The part of the listing about this variant is that of an artifact of it alone.
    part() { sed -n "/^entry main on $cpu/,/^\(entry\|weights:\)/p" "$1" | grep -v '^weights:\|^$' | sed '1!{/^entry/d}'; }
    [ -n "$(part one.txt)" ] || fail "nothing about $cpu in the text"
    diff <(part both.txt) <(part one.txt) || fail "the text about $cpu"
    if command -v python3 > /dev/null; then
        python3 - $cpu << 'PY' || fail "the JSON about $cpu"
import json, sys
both, one = json.load(open("both.json")), json.load(open("one.json"))
mine = next(c for c in both["cpu"] if c["name"] == sys.argv[1])
assert mine["entries"] == one["entries"] and mine["kernels"] == one["kernels"] and mine["code_bytes"] > 0
assert both["weights_bytes"] == one["weights_bytes"], "constants are stored once"
PY
    fi
done
[ "$(part both.txt)" != "$(sed -n '/^entry main on x86-64-v3/,$p' both.txt)" ] || fail "both variants in one part"
exit $failed
