#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The options that look into the pass pipeline and cut it short: --time-passes, --print-after, --dump-after, --pass-limit,
# --stop-after, --disable-pass, --verify-each, and that no optional pass changes a bit of a result.
set -uo pipefail
failed=0
fail() { echo "FAIL: $*" >&2; failed=1; }

# expect STATUS WORD...: the status of igata WORD...; leaves its output in `out` and `err`.
expect() {
    local want=$1 got
    shift
    "$IGATA" "$@" > out 2> err
    got=$?
    [ "$got" = "$want" ] || fail "igata $* gives $got instead of $want: $(head -c 300 err)"
}

rm -rf ./* && mkdir dumps first
cat > net.ig << 'E2'
weight @w : f32[4,4] = [1, -2, 0.5, 4, -0.25, 3, 1, 2, 0.125, -1, 2, 0.5, 3, 1, -4, 1]
entry func @main(%x : f32[8,4] "x") -> ("y") {
  %w = const {weight=@w} : f32[4,4]
  %d = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[8,4]
  %g = gelu %d {approx="none"} : f32[8,4]
  %y = softmax %g {axes=[1], norm="mul"} : f32[8,4]
  yield %y
}
E2

# The passes of -O2, in order, as the table of times names them.
expect 0 compile net.ig --cpu native -o net.so --time-passes
passes=$(sed '1d;/^total/d' err | awk '{print $1}')
head -1 err | grep -q '^pass .*ms$' || fail "--time-passes has no head: $(head -1 err)"
tail -1 err | grep -q '^total' || fail "--time-passes has no total"
[ "$(echo "$passes" | wc -l)" -ge 10 ] || fail "--time-passes lists too few passes: $passes"
for pass in fold expand fuse lower plan; do
    echo "$passes" | grep -qx "$pass" || fail "--time-passes lacks '$pass'"
done

# A file for every pass that ran, numbered in order, and the same bytes again.
expect 0 compile net.ig --cpu native -o net.so --dump-after=all --dump-dir dumps
for pass in $(echo "$passes" | sort -u); do
    ls dumps | grep -q "$pass" || fail "--dump-after=all writes nothing for '$pass': $(ls dumps | head -c 300)"
done
for file in dumps/*; do
    [ -s "$file" ] || fail "$file is empty"
done
cp dumps/* first/ && expect 0 compile net.ig --cpu native -o net.so --dump-after=all --dump-dir dumps
diff -rq dumps first || fail "two compiles dump different text"
rm dumps/* && expect 0 compile net.ig --cpu native -o net.so --dump-after=fuse --dump-dir dumps
[ "$(ls dumps | wc -l)" = 1 ] || fail "--dump-after=fuse writes $(ls dumps | wc -l) files"
expect 3 compile net.ig --cpu native -o none.so --dump-after=fuse --dump-dir missing/deeper
[ ! -e none.so ] || fail "an artifact stays although its dump could not be written"

# Printing goes to standard error and shows the state after that pass.
expect 0 compile net.ig --cpu native -o net.so --print-after=expand
[ "$(grep -c '^---- after expand' err)" = 1 ] || fail "--print-after=expand prints something else"
! grep -q ' softmax ' err || fail "there is a composite after expand"
expect 0 compile net.ig --cpu native -o net.so --print-after=all
[ "$(grep -c '^---- after ' err)" = "$(echo "$passes" | wc -l)" ] || fail "--print-after=all does not print every pass"

# Verifying changes nothing; stopping leaves no artifact; every optional pass may be missing, alone or with those behind it.
cp net.so plain.so
expect 0 compile net.ig --cpu native -o net.so --verify-each
cmp -s net.so plain.so || fail "--verify-each changes the artifact"
rm -f net.so && expect 0 compile net.ig --cpu native -o net.so --stop-after=fold
[ ! -e net.so ] || fail "--stop-after=fold writes an artifact"
expect 0 compile net.ig -o stopped.ig --stop-after=expand
! grep -q ' softmax ' stopped.ig || fail "--stop-after=expand does not give the module after it"
expect 3 run net.ig -i x=random:1 --stop-after=fold

expect 0 run net.ig -i x=random:1 -o y=@want.npy --engine ref32
limit=0
while [ $limit -lt 40 ]; do
    expect 0 run net.ig -i x=random:1 -o y=@got.npy --pass-limit=$limit --verify-each --time-passes
    cmp -s got.npy want.npy || fail "--pass-limit=$limit changes bits"
    now=$(grep -vc '^total' err)
    [ $limit -eq 0 ] || [ "$now" -ge "$before" ] || fail "--pass-limit=$limit runs fewer passes than $((limit - 1))"
    [ "$now" -gt "$(echo "$passes" | wc -l)" ] && break # all of them, and the head
    before=$now
    limit=$((limit + 1))
done
[ $limit -ge 5 ] && [ $limit -lt 40 ] || fail "--pass-limit=$limit is where all passes run"
optional=0
for pass in $(echo "$passes" | sort -u); do
    "$IGATA" run net.ig -i x=random:1 -o y=@got.npy --disable-pass="$pass" --time-passes > out 2> err
    case $? in
    0)
        optional=$((optional + 1))
        ! grep -q "^$pass " err || fail "--disable-pass=$pass runs it"
        cmp -s got.npy want.npy || fail "--disable-pass=$pass changes bits"
        ;;
    2) grep -q "is not an optional pass" err || fail "--disable-pass=$pass: $(head -c 300 err)" ;;
    *) fail "--disable-pass=$pass fails: $(head -c 300 err)" ;;
    esac
done
[ $optional -ge 5 ] || fail "only $optional passes are optional"

# igata opt runs passes by name; a level later prints the schedule.
expect 0 opt net.ig --passes=expand,fold --time-passes --verify-each
grep -q '^expand ' err && grep -q '^fold ' err || fail "opt --time-passes lacks its passes"
! grep -q ' softmax ' out || fail "opt --passes=expand leaves a composite"
expect 2 opt net.ig --passes=expand,nothing

# With bits that agree, verify has nothing to bisect.
expect 0 verify net.ig --per-node --bisect
grep -q '^[0-9]* of [0-9]* values have the bits of ref32' out || fail "verify says: $(head -1 out)"
exit $failed
