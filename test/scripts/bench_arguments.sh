#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The benchmark scripts' arguments, and the rows of models and engines that fail. Nothing is timed; needs no package of Python.
set -uo pipefail
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
rm -rf ./*
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }

# expect STATUS SCRIPT WORD...: the status of the script; leaves its output in `out` and `err`.
expect() {
    local want=$1 script=$2 got
    shift 2
    PYTHONDONTWRITEBYTECODE=1 python3 "$SRC/bench/$script" "$@" > out 2> err
    got=$?
    [ "$got" = "$want" ] || fail "$script $* gives $got instead of $want: $(head -c 300 err)"
}
says() { grep -q -- "$1" "$2" || fail "$2 lacks '$1': $(head -c 300 "$2")"; }

mkdir -p empty set/b set/a/part
for folder in b a/part; do echo "no model" > set/$folder/model.onnx; done
for script in compare.py models.py; do
    expect 0 $script --help
    expect 2 $script
    expect 2 $script empty
    says 'no model is there' err
    expect 2 $script --rounds 0 set
done
expect 2 compare.py --engines igata,steam set
says 'igata,base,onnxruntime,openvino,torch,torch-compile' err
expect 2 compare.py --engines igata,base set
says 'needs --base' err
expect 2 compare.py --threads 0 set
# What is no model is a row, in the order of names, with a reason; so is what is left of an engine that is not there.
expect 2 compare.py --igata "$IGATA" --runner missing set
expect 0 compare.py --igata "$IGATA" --runner "$IGATA" --rounds 1 --seconds 0.001 --out result set
[ "$(sed -n 's/^| \([a-z/]*\) | model | .*[a-z].*/\1/p' out | tr '\n' ' ')" = "a/part b " ] || fail "rows: $(cat out)"
cmp -s <(grep '^|' out) <(grep '^|' result.md) || fail "result.md is not what was printed"
python3 -c 'import json; assert [m["model"] for m in json.load(open("result.json"))["models"]] == ["a/part", "b"]' || fail "result.json"
expect 1 compare.py --igata "$IGATA" --runner "$IGATA" --base "$IGATA" --engines igata,base --rounds 1 --gate 0.95 --out result set
[ "$(grep -c '^gate: \(a/part\|b\): ..*' err)" = 2 ] || fail "gate: $(cat err)"
python3 -B - "$SRC/bench" << 'PY' || fail "what the gate lets through"
import sys

sys.path.insert(0, sys.argv[1])
from compare import below

row = lambda p50, **errors: {"model": "m", "errors": errors, **({"ratio": {"p50": p50}} if p50 else {})}
assert below([row(0.95), row(1.2), row(None, base="it does not know the model")], 0.95) == []
assert below([row(1.2), row(0.949), row(None, igata="refused")], 0.95) == ["gate: m: 0.949 is below 0.95", "gate: m: refused"]
PY
expect 1 models.py --igata "$IGATA" --rounds 1 set
[ "$(grep -c '^| \(a/part\|b\) | 0 | refused: [^|]*[a-z]' out)" = 2 ] || fail "rows: $(cat out)"
bash "$SRC/bench/run.sh" --nonsense > out 2> err
[ $? = 2 ] || fail "run.sh takes anything"
BUILD=nowhere bash "$SRC/bench/gate.sh" no-such-revision > out 2> err
[ $? = 2 ] || fail "gate.sh takes any revision"
exit $failed
