#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mutation.sh [NAME...]: do the tests notice bugs? Each line of tools/mutations.txt is made in a copy of the tree, what it touches
# is rebuilt, and the tests named beside it run. Fails if one passes them all, or no longer applies. MUTATION_DIR keeps the
# copy between calls.
set -uo pipefail
source_dir=$(cd "$(dirname "$0")/.." && pwd)
dir=${MUTATION_DIR:-}
if [ -z "$dir" ]; then
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
fi
mkdir -p "$dir/tree" || exit 2
cd "$source_dir" || exit 2
git ls-files -z | while IFS= read -r -d '' file; do
    [ -f "$file" ] || continue
    cmp -s "$file" "$dir/tree/$file" || { mkdir -p "$dir/tree/$(dirname "$file")" && cp "$file" "$dir/tree/$file"; }
done

table=$(grep -vE '^(#|$)' tools/mutations.txt)
tests=$(awk '{ print $3 }' <<< "$table" | tr , '\n' | sort -u)
programs=$(sed -E 's/^script_.*/igata/; /^(fuzz_|igata$)/!s/^/test_/' <<< "$tests" | sort -u)
log=$dir/log
cmake -S "$dir/tree" -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS="-O1" > "$log" 2>&1 || { cat "$log"; exit 2; }
# shellcheck disable=SC2086
build() { ninja -C "$dir/build" $programs > "$log" 2>&1; }
passes() { (cd "$dir/build" && ctest --timeout 120 --stop-on-failure -R "^(${1//,/|})\$" > "$log" 2>&1); }

build || { tail -n 30 "$log"; exit 2; }
passes "$(paste -sd, <<< "$tests")" || { echo "the tests fail without any mutation:"; tail -n 30 "$log"; exit 2; }

bad=0 n=0
while read -r name file tests program; do
    if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then
        continue
    fi
    n=$((n + 1))
    cp "$dir/tree/$file" "$dir/kept"
    sed -i "$program" "$dir/tree/$file"
    if cmp -s "$dir/tree/$file" "$dir/kept"; then
        echo "STALE     $name: nothing in $file matches"
        bad=$((bad + 1))
    elif ! build; then
        echo "STALE     $name: does not compile"
        grep -m 3 error: "$log"
        bad=$((bad + 1))
    elif passes "$tests"; then
        echo "SURVIVED  $name ($tests)"
        bad=$((bad + 1))
    else
        echo "caught    $name by $(sed -nE 's/^[0-9]+\/[0-9]+ Test +#[0-9]+: ([a-z_0-9]+) .*(Failed|Exception|Timeout|\*\*\*).*/\1/p' "$log" | head -1)"
    fi
    cp "$dir/kept" "$dir/tree/$file"
done <<< "$table"
echo "$((n - bad)) of $n bugs caught"
[ "$bad" -eq 0 ] && [ "$n" -gt 0 ]
