#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same model gives the same files wherever, whenever and under whatever locale it is compiled: nothing of the machine gets in.
set -uo pipefail
[ -x "$IGATA" ] || { echo "no $IGATA"; exit 77; }
rm -rf ./* && mkdir -p one "two/a longer name"
model=$SRC/examples/digits/digits.onnx
cp "$model" one/ && cp "$model" "two/a longer name/" || exit 1

# A locale with a decimal comma and other letter cases, where the tools to make one are there.
other=C.UTF-8
if command -v localedef > /dev/null && localedef -c -i tr_TR -f UTF-8 "$PWD/tr_TR.UTF-8" > /dev/null 2>&1; then
    export LOCPATH=$PWD
    other=tr_TR.UTF-8
fi

build() { # FOLDER SETTING...: every kind of output
    local folder=$1
    shift
    for out in net.so net.o net.a net.ll net.s net.ig; do
        (cd "$folder" && env "$@" "$IGATA" compile digits.onnx --dim batch=2 -q -o $out) || exit 1
    done
}
umask 022
build one LC_ALL=C TZ=UTC HOME=/
umask 077
build "two/a longer name" LC_ALL=$other TZ=Asia/Tokyo COLUMNS=33 HOME="$PWD" USER=somebody
failed=0
for file in net.so net.o net.a net.h net.ll net.s net.ig; do
    cmp "one/$file" "two/a longer name/$file" || failed=1
done
for word in "$PWD" "longer name"; do
    if grep -rqF --include='net.*' -e "$word" one two; then
        echo "FAIL: an output holds '$word'"
        failed=1
    fi
done
exit $failed
