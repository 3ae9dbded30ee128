#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The commands in the documents work and print what the documents say. In README.md, examples/README.md and doc/*.md a code block after a line
# `<!-- run -->` is a series of commands. If it has lines that begin with "$ ", those are the commands, and the lines below one are
# lines of its output: each must occur, in that order ("..." stands for any number of others). Otherwise every line is a command.
# A command may fail only if "[exit N]" is among the lines below it.
set -uo pipefail
[ -x "$IGATA" ] || { echo "no $IGATA"; exit 77; }
[ -z "${SANITIZE:-}" ] || exit 77 # slow, and all of it is tested elsewhere
grep -q avx2 /proc/cpuinfo || { echo "the documents show x86-64-v3"; exit 77; }
rm -rf doc_commands && mkdir doc_commands && cd doc_commands || exit 1
for name in examples include src test doc; do ln -s "$SRC/$name" "$name"; done
ln -s "$BUILD" build

failures=0 count=0
# check FILE COMMAND EXPECTED: runs the command, compares status and lines.
check() {
    local file=$1 command=$2 expected=$3 want=0 status line found=1
    count=$((count + 1))
    bash -c "$command" > out.txt 2>&1
    status=$?
    exec 3< out.txt
    while IFS= read -r line; do
        case "$line" in
        "" | ...) continue ;;
        "[exit "*) want=${line//[^0-9]/} && continue ;;
        esac
        found=0
        while [ $found -eq 0 ] && IFS= read -r -u 3 have; do
            [ "${have%"${have##*[! ]}"}" = "${line%"${line##*[! ]}"}" ] && found=1
        done
        [ $found -eq 1 ] || break
    done <<< "$expected"
    exec 3<&-
    if [ $found -eq 0 ] || [ "$status" -ne "$want" ]; then
        failures=$((failures + 1))
        echo "$file: $command"
        [ "$status" -eq "$want" ] || echo "  exit status $status"
        [ $found -eq 1 ] || echo "  not in its output (in that order): $line"
        sed 's/^/  | /' out.txt | head -n 60
    fi
}

# Prints the commands of FILE, each as a line "C command" with lines "O output" below it.
commands() {
    awk '/^<!-- run -->$/ { armed = 1; next }
        /^```/ { if (block) { block = 0; flush() } else if (armed) { block = 1; armed = 0; n = 0; prompts = 0 } next }
        block { line[++n] = $0; if ($0 ~ /^\$ /) prompts = 1 }
        function flush(i) {
            for (i = 1; i <= n; i++)
                if (!prompts) { if (line[i] !~ /^ *(#|$)/) print "C " line[i] }
                else if (line[i] ~ /^\$ /) print "C " substr(line[i], 3)
                else print "O " line[i]
        }' "$1"
}

for file in "$SRC/README.md" "$SRC/examples/README.md" "$SRC"/doc/*.md; do
    name=${file#"$SRC"/} command="" expected=""
    while IFS= read -r line; do
        if [ "${line:0:2}" = "C " ]; then
            [ -n "$command" ] && check "$name" "$command" "$expected"
            command=${line:2} expected=""
        else
            expected+=${line:2}$'\n'
        fi
    done < <(commands "$file")
    [ -n "$command" ] && check "$name" "$command" "$expected"
done
echo "$count commands, $failures of them not as documented"
[ "$failures" -eq 0 ] && [ "$count" -ge 10 ]
