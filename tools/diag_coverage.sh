#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists the rows of diag.def that no file under test/ names, as DIAG_<id>, [<id>], "<id>" or "!<id>", and fails when there are any.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
named=$(grep -rhoE --binary-files=without-match 'DIAG_[A-Za-z0-9_]+|\[[A-Za-z0-9_]+\\?\]|"!?[A-Za-z0-9_]+"' test |
    sed -E 's/^DIAG_//; s/^("!?|\[)//; s/("|\\?\])$//' | sort -u)
rows=$(sed -nE 's/^DIAG\([[:space:]]*([A-Za-z0-9_]+)[[:space:]]*,.*/\1/p' src/base/diag.def | sort -u)
untested=$(comm -23 <(echo "$rows") <(echo "$named"))
if [ -n "$untested" ]; then
    echo "diagnostics without a test ($(echo "$untested" | wc -l) of $(echo "$rows" | wc -l)):" >&2
    echo "$untested" >&2
    exit 1
fi
