#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `inspect --html`: one page that loads nothing, holds what --json prints, and that no name in a model can break; drawn by a browser
# where chromium is installed.
set -uo pipefail
[ -x "$IGATA" ] || { echo "no $IGATA"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
rm -rf ./*
failed=0
fail() { echo "FAIL: $*"; failed=1; }
digits=$SRC/examples/digits/digits.onnx
"$IGATA" compile "$digits" --dim batch=1 --cpu x86-64-v3,x86-64-v4 -q -o digits.so || exit 1
"$IGATA" inspect digits.so --json > digits.json && "$IGATA" inspect digits.so --html artifact.html || exit 1
"$IGATA" inspect "$digits" --dim batch=1 --cpu x86-64-v3 --html model.html || exit 1
# The names of nodes, values, weights, inputs and outputs of a hostile model; two products in a row, so that a value is read.
evil='</script><script>document.title=1</script><!--\"\\'
cat > evil.ig << EOF
weight @"w$evil" : f32[4,4] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
entry func @main(%x : f32[4,4] "x$evil") -> ("y$evil") {
  %w = const {weight=@"w$evil"} : f32[4,4]
  %a = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4] loc(onnx "m" "" 0 "a$evil" "MatMul")
  %b = cumulate %a {axis=0, kind="sum", exclusive=false, reverse=false} : f32[4,4] loc(onnx "m" "" 1 "b$evil" "CumSum")
  %y = dot %b, %a {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4] loc(onnx "m" "" 2 "c$evil" "MatMul")
  yield %y
}
EOF
"$IGATA" inspect evil.ig --html evil.html || exit 1
python3 - << 'PY' || fail "the pages"
import json
from html.parser import HTMLParser

class Page(HTMLParser):
    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.tags, self.data, self.inside = [], "", False
        self.feed(open(path, encoding="utf-8").read())
        self.close()
        self.data = json.loads(self.data)
        self.report = self.data["report"]

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert not {"src", "href", "action"} & set(attributes) or attributes.get("href", "").startswith("#"), "it loads something"
        self.tags.append(tag)
        self.inside = attributes.get("id") == "data"

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        self.data += data if self.inside else ""

artifact, model, evil = Page("artifact.html"), Page("model.html"), Page("evil.html")
for page in artifact, model, evil:
    assert page.tags.count("script") == 2 and page.tags == artifact.tags, "markup came from the data"
assert artifact.report == json.load(open("digits.json")) and artifact.data["loops"] == []
assert len(model.data["loops"]) == 1 and all(text.startswith("kernel ") for text in model.data["loops"][0])
assert len(model.data["loops"][0]) == len(model.report["kernels"])
for variant in artifact.report["cpu"]:
    assert sum(k["code_bytes"] for k in variant["kernels"]) == variant["code_bytes"]
# Every value is read from where it was written.
for page in artifact, model, evil:
    entry = page.report["entries"][0]
    known = {v["name"] for v in entry["inputs"]}
    for phase in entry["phases"]:
        assert phase["writes"] and phase["reads"] and known.issuperset(phase["reads"])
        known.update(phase["writes"])
    assert known.issuperset(v["name"] for v in entry["outputs"])
tail = '</script><script>document.title=1</script><!--"\\'
assert evil.report["entries"][0]["inputs"][0]["name"] == "x" + tail and evil.report["weights"][0]["name"] == "w" + tail
assert any("a" + tail in k["nodes"] for k in evil.report["kernels"])
PY

browser=$(command -v chromium || command -v chromium-browser || true)
[ -n "$browser" ] || { echo "no chromium: not drawn"; exit $failed; }
draw() { timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --dump-dom "file://$PWD/$1" 2> browser.txt > dom.html; }
# expect FILE COUNT TEXT
expect() {
    local n
    n=$(grep -oF -- "$3" dom.html | wc -l)
    [ "$n" -eq "$2" ] || fail "$1 drawn: '$3' $n times, expected $2"
}
for page in artifact model; do
    draw $page.html || { tail browser.txt; echo "the browser does not work here: not drawn"; exit $failed; }
    expect $page 6 'class="node"'
    expect $page 2 'class="node io"'
    expect $page 7 'class="edge"'
    expect $page 5 'class="buffer"'
    expect $page 6 '<tr data-phases='
done
draw evil.html
expect evil 3 'class="node"'
expect evil 5 'class="edge"'
expect evil 1 '<title>evil.ig - igata</title>'
exit $failed
