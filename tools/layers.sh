#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the structure of the source tree: direction of includes, who may allocate, print and see LLVM, unique names, sizes,
# licence lines, switches on ops outside op/, and (given BUILD, a plain build) that no library has a mutable global.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
bad=0
complain() { echo "layers: $*" >&2; bad=1; }

# Equal ranks are siblings, which do not see each other.
declare -A rank=([base]=0 [ir]=1 [loop]=2 [op]=3 [eval]=4 [front]=5 [ad]=5 [pass]=5 [sched]=6 [cgen]=7 [art]=8 [driver]=9
    [api]=10 [cli]=11)

files() { find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.def' -o -name '*.inc' \) 2> /dev/null | sort; }

# Prints a C file without comments and with empty string literals, line by line.
code() {
    awk '
    {
        line = ""; i = 1; n = length($0)
        while (i <= n) {
            two = substr($0, i, 2); c = substr($0, i, 1)
            if (inside) { if (two == "*/") { inside = 0; i += 2 } else i++; continue }
            if (two == "/*") { inside = 1; i += 2; continue }
            if (two == "//") break
            if (c == "\"" && !(substr($0, 1, i) ~ /^[ \t]*#[ \t]*include/) && substr($0, i - 1, 3) != "\047\"\047") {
                for (i++; i <= n && substr($0, i, 1) != "\""; i++) if (substr($0, i, 1) == "\\") i++
                line = line "\"\""; i++; continue
            }
            line = line c; i++
        }
        print line
    }' "$1"
}

check_include() { # file layer included
    local file=$1 layer=$2 included=$3 folder=${3%%/*}
    if [ "$layer" = rt ]; then
        case "$included" in
        art/format.h | base/sha256.inc | igata_rt.h | rt/*) ;;
        *) complain "$file: rt sees only art/format.h, base/sha256.inc and igata_rt.h, not \"$included\"" ;;
        esac
        return
    fi
    case "$included" in
    igata_rt.h) [ "${rank[$layer]}" -ge "${rank[art]}" ] || complain "$file: $layer/ is below the runtime's interface" ;;
    igata.h) [ "${rank[$layer]}" -ge "${rank[api]}" ] || complain "$file: $layer/ is below the public interface" ;;
    */*)
        if [ "$folder" = rt ]; then
            complain "$file: \"$included\" is private to rt/; use igata_rt.h"
        elif [ -z "${rank[$folder]:-}" ]; then
            complain "$file: unknown layer in \"$included\""
        elif [ "$folder" != "$layer" ] && [ "${rank[$folder]}" -ge "${rank[$layer]}" ]; then
            complain "$file: $layer/ may not include \"$included\""
        elif [ "$folder" != "$layer" ] && [[ $included == *_int.h ]]; then
            complain "$file: \"$included\" is private to $folder/"
        fi
        ;;
    *) complain "$file: spell includes from src/: \"$included\"" ;;
    esac
}

allocators='\b(malloc|calloc|realloc|free|strdup|strndup|aligned_alloc|posix_memalign)[[:space:]]*\('
printers='\b(printf|vprintf|fprintf|vfprintf|puts|fputs|putchar|perror|exit|_exit|quick_exit|abort)[[:space:]]*\('

for file in $(files src); do
    layer=${file#src/} layer=${layer%%/*}
    if [ "$layer" != rt ] && [ -z "${rank[$layer]:-}" ]; then
        complain "$file: unknown layer $layer/"
        continue
    fi
    text=$(code "$file")
    while read -r included; do
        [ -n "$included" ] && check_include "$file" "$layer" "$included"
    done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]+)".*/\1/p' <<< "$text")

    if [[ $file != src/cgen/llvm/* ]] && grep -qE '#[[:space:]]*include[[:space:]]*<llvm' <<< "$text"; then
        complain "$file: only cgen/llvm/ includes LLVM"
    fi
    if [ "$layer" != base ] && [ "$layer" != rt ]; then
        hit=$(grep -m1 -nE "$allocators" <<< "$text") && complain "$file:$hit: memory comes from arenas"
    fi
    if [ "$layer" != cli ] && [ "$file" != src/base/context.c ]; then
        hit=$(grep -m1 -nE "$printers" <<< "$text") && complain "$file:$hit: nothing below cli/ prints or exits"
    fi
    if [ "$file" != src/base/context.c ]; then
        hit=$(grep -m1 -nE '\b(setjmp|longjmp)[[:space:]]*\(' <<< "$text") && complain "$file:$hit: use ctx_protect"
    fi
    if [ "$layer" != op ]; then
        hit=$(grep -nE 'switch[[:space:]]*\((.*(->|\.))?op\)' "$file" | grep -m1 -v 'op-switch:') &&
            complain "$file:$hit: ask the op's traits (or say /* op-switch: why */)"
    fi
done

own=(src include test tools examples bench)
duplicates=$(files "${own[@]}" | grep -v '\.def$' | sed 's|.*/||' | sort | uniq -d)
[ -n "$duplicates" ] && complain "file names must be unique:" $duplicates

for file in $(files "${own[@]}") $(find "${own[@]}" -name '*.sh' -o -name '*.py' 2> /dev/null) CMakeLists.txt Makefile .ci/run; do
    [ -f "$file" ] || continue
    lines=$(wc -l < "$file")
    [ "$lines" -gt 1200 ] && complain "$file: $lines lines, 1200 allowed"
    head -n 5 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || complain "$file: no SPDX line"
done

# LLVM's registry of targets is a table of the process without a lock; what guards its one filling has to be one too.
allowed_global='libigata_cgen\.a:(.*\.)?llvm_targets_once(\.[0-9]+)?'

if [ -n "${BUILD:-}" ] && [ -z "${SANITIZE:-}" ]; then
    for library in "$BUILD"/libigata_*.a; do
        [ -f "$library" ] || continue
        globals=$(objdump -t "$library" | awk '$1 ~ /^[0-9a-f]+$/ && / O / {
            for (i = 2; i < NF; i++) if ($i ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*|\.data\.[^r].*|\.bss\..*)$/) print $NF }' | sort -u |
            while read -r name; do grep -qxE "$allowed_global" <<< "${library##*/}:$name" || echo "$name"; done)
        [ -n "$globals" ] && complain "$library: mutable globals:" $globals
    done
fi
exit $bad
