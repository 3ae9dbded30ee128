#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command line's promises: exit statuses, where output goes, all or nothing, equal bytes for equal input.
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
    [ "$got" -lt 2 ] || [ -s err ] || fail "igata $* fails without a message"
}
says() { grep -q -- "$1" err || fail "the message lacks '$1': $(head -c 300 err)"; }

rm -rf ./* && mkdir empty
echo text > cli_usage.txt
cat > add.ig << 'E2'
sym N in [1, 64]
entry func @main(%x : f32[N,4] "x") -> ("y") {
  %1 = mul %x, %x : f32[N,4]
  %2 = tanh %1 : f32[N,4]
  yield %2
}
E2
expect 2
expect 2 nonsense
expect 2 run
expect 2 run --nonsense add.ig
expect 2 run add.ig -O7
expect 2 run add.ig -i x
expect 2 run add.ig --disable-pass=expand -i x=ones
expect 2 run add.ig --disable-pass=nothing -i x=ones
expect 2 run add.ig --threads 0 -i x=ones
expect 2 run add.ig --cpu z80 -i x=ones
expect 2 run add.ig --target z80 -i x=ones
expect 2 run add.ig --engine steam -i x=ones
expect 3 run add.ig --dim M=2 -i x=ones
says "no symbolic size 'M'; it has 'N'"
expect 3 compile add.ig --shape z=2x4 -o never.so
says "no input 'z'; it has 'x'"
expect 3 compile add.ig --dim N=2 --bound M=9 -o never.so
says "option --bound: the model has no symbolic size 'M'; it has 'N'"
expect 2 bench add.ig --runs none
expect 2 opt add.ig --passes=nothing
expect 2 compile add.ig -o add.exe
for command in "" compile run test bench verify inspect opt grad ops; do
    expect 0 $command --help
    [ -s out ] || fail "igata $command --help says nothing"
done
for pass in inline plan; do # of both tables
    grep -q "^    $pass  " out || fail "the help does not say what pass $pass does"
done
expect 0 --version
expect 3 run missing.onnx -i x=ones
says missing.onnx
expect 3 run cli_usage.txt -i x=ones
expect 1 test empty
grep -q "^0 passed, 1 failed$" out || fail "test does not end with its counts"

expect 3 run add.ig --dim N=2
says "'x'"
expect 3 run add.ig -i x=ones
says "'x'"
expect 3 run add.ig --dim N=2 -i x=ones -i z=ones
says "'z'"
expect 3 run add.ig --dim N=100 -i x=ones
expect 2 run add.ig --dim N=2 -i x=zeros -i x=ones
says twice
expect 2 run add.ig --dim N=2 -i x=random:-1
expect 0 run add.ig --dim N=2 -i x=ones -o y=@y.npy
[ -s out ] && fail "run prints although its output is written to a file"
for engine in ref32 eager compiled; do
    expect 0 run add.ig -i x=@y.npy -o y=@$engine.npy --engine $engine
    cmp ref32.npy $engine.npy || fail "engine $engine has other bits"
done
expect 0 run add.ig -i x=@- < y.npy
expect 3 run add.ig -i x=@y.npy --shape x=3x4
expect 0 run add.ig --dim N=5 -i x=random:3
grep -q "^y : f32\[5,4\] = " out || fail "no summary"

# all or nothing
expect 3 run add.ig --dim N=2 -i x=ones -o y=@a.npy -o nothing=@b.npy
[ -e a.npy ] && fail "an output is written although another does not exist"
expect 3 run add.ig --dim N=2 -i x=ones -o y=@a.npy -o y=@nowhere/b.npy
[ -e a.npy ] && fail "an output stays although another cannot be written"
expect 3 compile add.ig -o add.a
[ -e add.a ] && fail "a failed compile leaves a file"
ls .igata-* 2> /dev/null && fail "temporary files stay"

# the arithmetic class of a 3x3 convolution, and what makes it a direct one
cat > conv.ig << 'E2'
entry func @main(%x : f32[1,32,8,9] "x", %w : f32[32,32,3,3] "w") -> ("y") {
  %1 = conv %x, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=false} : f32[1,32,8,9]
  yield %1
}
E2
for how in "wino2 -O2" "ref32 --strict" "ref32 --fast-math=no-wino2"; do
    expect 0 compile conv.ig ${how#* } -o conv.so
    expect 0 inspect conv.so
    grep -q " ${how% *} " out || fail "with '${how#* }' the kernel is not of class ${how% *}"
    for engine in compiled eager; do
        expect 0 verify conv.ig ${how#* } --engine $engine -i x=random:1 -i w=random:2
    done
    expect 0 run conv.ig ${how#* } -i x=random:1 -i w=random:2 -o y=@${how% *}.npy
done
cmp -s wino2.npy ref32.npy && fail "--strict does not change the convolution"

# operands of a concat that are computed in their places in its result
cat > view.ig << 'E2'
entry func @main(%x : f32[6,16] "x", %w : f32[16,24] "w", %k : f32[6,32] "k", %v : f32[56,8] "v") -> ("y") {
  %a = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[6,24]
  %c = concat %a, %k {axis=1} : f32[6,56]
  %y = dot %c, %v {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[6,8]
  yield %y
}
E2
expect 0 compile view.ig -o view.so
expect 0 inspect view.so
grep -Eq '^  %v6 .* 576 bytes, phases 0\.\.1, view of %v8$' out || fail "inspect does not tell a view"
expect 0 inspect view.so --json
grep -q '{"name": "v6", [^}]*"view_of": "v8"}' out || fail "the JSON does not tell a view"
grep -q '{"name": "v8", [^}]*"view_of"' out && fail "the JSON tells a view that is none"

# one artifact for a range of sizes
expect 0 compile add.ig --dim N=2..9 -o range.so
expect 0 inspect range.so
grep -q '^size N : 2..9$' out || fail "inspect does not tell the sizes"
grep -q '^in %x : f32\[N,4\]$' out || fail "inspect does not tell the shape of an input"
expect 0 inspect range.so --json
grep -q '"shape": \[-1, 4\], "bounds": \[9, 4\]' out || fail "the JSON lacks the bounds"
for n in 2 5 9; do
    expect 0 run add.ig --dim N=$n -i x=random:$n -o y=@want.npy
    expect 0 run range.so --shape x=${n}x4 -i x=random:$n -o y=@got.npy
    cmp want.npy got.npy || fail "size $n of a range differs"
    expect 0 run add.ig --dim N=2..9 --shape x=${n}x4 -i x=random:$n -o y=@got.npy
    cmp want.npy got.npy || fail "size $n of a range differs in run"
done
for n in 1 10; do
    expect 3 run range.so --shape x=${n}x4 -i x=ones -o y=@never.npy
    says 'a size is outside its range'
    expect 3 run add.ig --dim N=2..9 --shape x=${n}x4 -i x=ones -o y=@never.npy
done
expect 0 verify add.ig --dim N=2..9
expect 0 bench add.ig --dim N=2..9 --shape x=3x4 --runs 3

# kinds of output, equal bytes
expect 0 compile add.ig --dim N=2 -o one.so
mkdir -p other && (cd other && LC_ALL=C "$IGATA" compile ../add.ig --shape x=2x4 -o two.so)
cmp one.so other/two.so || fail "two compiles of one model differ"
for kind in o a ll s ig; do
    expect 0 compile add.ig --dim N=2 -o made.$kind
    [ -s made.$kind ] || fail "made.$kind is missing"
done
grep -q "int made_run(" made.h || fail "the header does not declare made_run"
expect 0 run one.so -i x=ones
expect 3 run one.so -i x=@compiled.npy -i z=ones
expect 3 run one.so --engine ref32 -i x=ones
head -c 2000 one.so > half.so
expect 3 run half.so -i x=ones
cp one.so flipped.so # in the code or beside it: nothing of a damaged file runs
printf '\xff' | dd of=flipped.so bs=1 seek=$(($(stat -c %s one.so) / 3)) conv=notrunc status=none
expect 3 run flipped.so -i x=ones
expect 3 bench flipped.so --runs 1
expect 3 inspect half.so
for form in "" --json "--dot -"; do
    expect 0 inspect one.so $form
done
expect 0 inspect add.ig --ir

# passes
expect 0 opt add.ig --passes=fold,cse,dce --verify-each --time-passes
says fold
expect 0 opt add.ig --dim N=2 --passes=fuse,lower,plan
grep -q "^plan:" out || fail "opt does not print the schedule"
expect 0 compile add.ig --dim N=2 -o x.so --print-after=fuse
says "after fuse"
expect 0 compile add.ig --dim N=2 -o x.so --dump-after=all --dump-dir dumps
[ "$(ls dumps | wc -l)" -gt 8 ] || fail "no dumps"
expect 0 verify add.ig --dim N=3 --per-node
expect 0 bench add.ig --dim N=3 --runs 20 --json
grep -q '"p99_9_us"' out || fail "bench --json lacks a field"
expect 0 bench add.ig --dim N=3 --runs 20 --per-kernel
grep -q '^line4  *1 .*line4$' out || fail "bench --per-kernel lacks the kernel: $(cat out)"
expect 0 bench add.ig --dim N=3 --runs 20 --per-kernel --json
grep -q '"name": "line4".*"calls": 1, .*"flops": [1-9]' out || fail "bench --per-kernel --json lacks the kernel: $(cat out)"
for other in --compare --raw=raw.txt --engine=ref32; do expect 2 bench add.ig --dim N=3 --per-kernel $other; done
expect 0 bench add.ig --dim N=3 --runs 20 --compare --raw raw.txt
[ "$(wc -l < raw.txt)" = 40 ] || fail "bench --raw does not have every run"
expect 0 grad add.ig --loss y --wrt x --seed s -o g.ig
expect 0 run g.ig -i x=@y.npy -i s=ones -o grad_x=@g.npy
expect 3 grad add.ig --loss nothing --wrt x
expect 0 ops --md
expect 0 ops --json
# every message of the layers below, by its name
cat > take.ig << 'E2'
weight @t : f32[3,2] = [1, 2, 3, 4, 5, 6]
entry func @main(%i : s64[2] "i") -> ("y") {
  %t = const {weight=@t} : f32[3,2]
  %y = gather %t, %i {axis=0, batch=0} : f32[2,2]
  yield %y
}
E2
cat > twice.ig << 'E2'
sym N in [1, 64]
entry func @main(%x : f32[2*N] "x") -> ("y") {
  %y = neg %x : f32[2*N]
  yield %y
}
E2
cat > less.ig << 'E2'
sym N in [0, 64]
entry func @main(%x : f32[N] "x") -> ("y") {
  %y = slice %x {start=[0], size=[N-2], step=[1]} : f32[N-2]
  yield %y
}
E2
printf '\x93NUMPY\x01\x00v\x00%-117s\n%b' "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }" \
    '\x01\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0' > index.npy
for engine in compiled eager ref32 f64 "compiled --threads 2"; do
    expect 3 run take.ig -i i=@index.npy -o y=@never.npy --engine $engine
    says 'take.ig:4.*\[api_error\]'
done
expect 0 compile take.ig -o take.so
expect 3 run take.so -i i=@index.npy -o y=@never.npy
says '\[api_error_node\]'
cat > stack.ig << 'E2'
sym u0 in [0, 2147483647] unbacked
weight @three : s64[] = [3]
weight @yes : bool[] = [true]
entry func @main(%n : s64[] "n", %x : f32[2] "x") -> ("y") {
  %three = const {weight=@three} : s64[]
  %m = mul %n, %three : s64[]
  %l, %y = loop %m, _, %x {n_carried=1, n_scanned=0} : f32[2], f32[u0,2] {
    (%i : s64[], %a : f32[2]) %b = add %a, %a : f32[2] %yes = const {weight=@yes} : bool[] yield %yes, %b, %b
  }
  yield %y
}
E2
for engine in compiled eager "compiled --threads 2"; do
    expect 3 run stack.ig -i n=ones -i x=ones -o y=@never.npy --bound u0=2 --engine $engine
    says 'stack.ig:7.*more trips than its bound'
    expect 0 run stack.ig -i n=ones -i x=ones -o y=@three.npy --bound u0=3 --engine $engine
    grep -q "'shape': (3, 2)" three.npy || fail "three trips do not give three rows"
    expect 0 run stack.ig -i n=zeros -i x=ones -o y=@none.npy --engine $engine
    says '\[driver_bound\]'
    grep -q "'shape': (0, 2)" none.npy || fail "no trip gives rows"
done
expect 0 compile stack.ig --bound u0=2 -o stack.so
expect 3 run stack.so -i n=ones -i x=ones -o y=@never.npy
says "more trips than its bound.*in node 'line7'"
expect 0 inspect stack.so --json
grep -q '"name": "u0", "lo": 0, "hi": 2, "found": true}' out || fail "the JSON does not tell the found size"
grep -q '"kind": "loop", [^}]*"bound": 2, "size": "u0"' out || fail "the JSON does not tell which step finds the size"
cat > value.ig << 'E2'
sym u0 in [0, 8] unbacked
entry func @main(%n : s64[] "n", %x : f32[8] "x") -> ("y") {
  found %n {size=u0}
  %y = slice %x {start=[0], size=[u0], step=[1]} : f32[u0]
  yield %y
}
E2
expect 0 inspect value.ig
grep -q '^u0 = %n, at most 8$' out || fail "inspect does not tell which value becomes a size"
expect 0 inspect value.ig --json
grep -q '"kind": "size", [^}]*"bound": 8, "size": "u0", "trip": "n"' out || fail "the JSON does not tell which value becomes a size"
expect 3 compile "$SRC/examples/digits/digits.onnx" --dim batch=2 --bound u7=2 -o never.so
says "no size 'u7'; it has 'batch'"
expect 3 compile stack.ig --bound u7=2 -o never.so
says "no size 'u7'; it has 'u0'"
expect 3 run stack.ig --dim u0=2 -i n=ones -i x=ones
says '\[driver_found\]'
expect 0 bench stack.ig -i n=zeros --runs 3 --per-kernel --json
grep -q '"us": 0.000, .*"gflops": 0.000' out || fail "bench --per-kernel --json of a loop without a trip: $(cat out)"
grep -q '"bounded": true' out || fail "bench --per-kernel --json does not mark counts at the bound: $(cat out)"
expect 0 bench stack.ig -i n=ones --runs 3 --per-kernel
grep -q '<=: counted at the largest sizes' out || fail "bench --per-kernel does not mark counts at the bound: $(cat out)"
expect 0 inspect stack.so
grep -q '^<=: at the largest sizes' out && grep -q '<= .*flops <= .*bytes' out || fail "inspect does not mark counts at the bound: $(cat out)"
expect 3 compile stack.ig -o never.o
says 'found by the run'
[ -e never.npy ] && fail "a failed run leaves an output"
expect 3 run one.so --engine f64 -i x=ones
says '\[api_artifact\]'
expect 3 run one.so --dim n=3 -i x=ones
says "is an artifact: --dim, .* need a model"
expect 3 run one.so --also-output all -i x=ones
says '\[api_artifact\]'
expect 2 run one.so -i x=ones -o y=@y.pb
says 'only .npy is written'
expect 3 run one.so -i i=ones
says '\[api_input\]'
expect 2 run add.ig --engine steam -i x=ones
says '\[api_option\]'
expect 3 run half.so -i x=ones
says '\[api_run\]'
expect 3 run add.ig --dim N=2 -i x=ones --target aarch64 --runner nothing-of-this-name
says '\[api_runner\]'
expect 3 compile less.ig -o never.so
says '\[driver_symbolic\]'
expect 3 compile twice.ig -o never.so
says '\[driver_range\]'
expect 3 compile less.ig --dim N=1..9 -o never.so
says '\[driver_negative\]'
expect 0 compile less.ig --dim N=2..9 -o less.so
expect 3 compile add.ig -o never.a
says "give one for 'N'"
expect 3 compile add.ig --dim N=100 -o never.so
says '\[driver_bind\]'
expect 3 compile add.ig --shape x=1x2x3 -o never.so
says '\[driver_rank\]'
expect 3 compile less.ig --dim N=1 -o never.so
says '\[driver_sizes\]'
expect 3 compile add.ig --dim N=1 --entry nothing -o never.so
says '\[driver_no_entry\]'
expect 3 compile add.ig --dim N=1 --also-output nothing -o never.so
says '\[driver_no_value\]'
expect 3 opt add.ig --dim N=1 --passes=fuse,fold
says '\[driver_pass_order\]'
[ -e never.so ] && fail "a failed compile leaves a file"
exit $failed
