#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `inspect` says in its forms: one page that loads nothing, holds what --json prints and that no name in a model can break; the
# loops and branches of the text, the JSON and the dot form, and how often what lies in them runs. html_page.sh draws the pages.
set -uo pipefail
[ -x "$IGATA" ] || { echo "no $IGATA"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
rm -rf ./*
digits=$SRC/examples/digits/digits.onnx
"$IGATA" compile "$digits" --dim batch=1 --cpu x86-64-v3,x86-64-v4 -q -o digits.so || exit 1
"$IGATA" inspect digits.so --json > digits.json && "$IGATA" inspect digits.so --html artifact.html || exit 1
"$IGATA" inspect "$digits" --dim batch=1 --cpu x86-64-v3 --html model.html || exit 1
"$IGATA" inspect "$digits" --dim batch=1..8 --json > range.json && "$IGATA" inspect "$digits" --dim batch=1..8 > range.txt || exit 1
evil=$SRC/test/ir/page.ig
"$IGATA" inspect "$evil" --html evil.html && "$IGATA" inspect "$evil" --json > evil.json && "$IGATA" inspect "$evil" > evil.txt &&
    "$IGATA" inspect "$evil" --dot evil.dot || exit 1
place=$SRC/test/ir/in_place.ig
"$IGATA" inspect "$place" > place.txt && "$IGATA" inspect "$place" --json > place.json && "$IGATA" inspect "$place" --dot place.dot || exit 1
python3 - << 'PY' || { echo "FAIL: the pages"; exit 1; }
import json, re
from html.parser import HTMLParser

class Page(HTMLParser):
    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.data, self.code, self.inside = [], [], "", "", ""
        self.feed(open(path, encoding="utf-8").read())
        self.close()
        assert self.open == ["html"] or not self.open, f"not closed: {self.open}"
        self.data = json.loads(self.data)
        self.report = self.data["report"]

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert not {"src", "href", "action"} & set(attributes) or attributes.get("href", "").startswith("#"), "it loads something"
        assert tag not in ("input", "svg", "aside", "nav") or "aria-label" in attributes or "label" in self.open, f"no label: {tag}"
        self.tags.append(tag)
        self.inside = "data" if attributes.get("id") == "data" else tag
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> ends another element"
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "data":
            self.data += data
        elif self.inside in ("script", "style"):
            self.code += data

artifact, model, evil = Page("artifact.html"), Page("model.html"), Page("evil.html")
for page in artifact, model, evil:
    assert page.tags.count("script") == 2 and page.tags == artifact.tags, "markup came from the data"
    loads = re.findall(r"https?:[^\"]*|url\(|@import|\bfetch\b|XMLHttp|\bimport\b", page.code)
    assert loads == ["http://www.w3.org/2000/svg"], loads
    assert len(page.data["loops"]) == len(page.report["cpu"]) or page is artifact
assert artifact.report == json.load(open("digits.json")) and artifact.data["loops"] == []
assert evil.report == json.load(open("evil.json"))
assert all(text.startswith("kernel ") for text in model.data["loops"][0])
assert len(model.data["loops"][0]) == len(model.report["kernels"])
for variant in artifact.report["cpu"]:
    assert sum(k["code_bytes"] for k in variant["kernels"]) == variant["code_bytes"]

# Every value is read from where it was written, in this trip of a loop or the one before; a loop itself counts its trips.
for page in artifact, model, evil:
    entry = page.report["entries"][0]
    known = {v["name"] for v in entry["inputs"]} | {s["counter"] for s in entry["steps"] if s["kind"] == "loop"}
    for phase in entry["phases"]:
        assert phase["writes"] and phase["reads"] and known.issuperset(phase["reads"])
        known.update(phase["writes"])
    assert known.issuperset(v["name"] for v in entry["outputs"])
tail = '</script><script>document.title=1</script><!--"\\'
assert evil.report["entries"][0]["inputs"][0]["name"] == "x" + tail and evil.report["weights"][0]["name"] == "w" + tail
assert evil.report["entries"][0]["inputs"][1]["name"] == "n & <b>'\u00fc\u65e5\u672c"
assert any("a" + tail in k["nodes"] for k in evil.report["kernels"])

# The regions: as in the model, and with the same words in the text and the dot form.
entry = evil.report["entries"][0]
steps, phases = entry["steps"], entry["phases"]
assert [s["kind"] for s in steps] == ["loop", "if", "loop", "next", "else", "end", "next", "if", "else", "end"]
assert [s["depth"] for s in steps] == [0, 1, 2, 2, 1, 1, 0, 0, 0, 0]
outer, inner = steps[0], steps[2]
assert "bound" not in outer and outer["trip"] == entry["inputs"][1]["name"] and inner["bound"] == 3 and "trip" not in inner
assert inner["text"] == f"loop %{inner['counter']}: 3 times" and outer["text"] == f"loop %{outer['counter']}: %{outer['trip']} times"
in_inner = range(inner["phase"], steps[3]["phase"])
assert len(in_inner) > 0 and [p["runs"] for p in phases] == [3 if i in in_inner else 1 for i in range(len(phases))]
flops = sum(p["runs"] * evil.report["kernels"][p["kernel"]]["flops"] for p in phases)
assert (entry["flops"], entry["at_most"], entry["unbounded"]) == (flops, True, True)
text = open("evil.txt", encoding="utf-8").read()
shown = [("} " if s["kind"] in ("next", "else", "end") else "") + s["text"] + (" {" if s["kind"] in ("loop", "if", "else") else "") for s in steps]
lines = [line.strip() for line in text.split("\n")]
assert [l for l in lines if l.startswith(("loop %", "if %", "}"))] == [s.strip() for s in shown]
assert f"kernels: at most {flops} flops a run, loops without a bound counted once" in lines
dot = open("evil.dot", encoding="utf-8").read()
quoted = lambda s: json.dumps(s, ensure_ascii=False)
assert re.findall(r"cluster_0_\d+ {\n    label=(.*);", dot) == [quoted(s["text"]) for s in steps if s["kind"] in ("loop", "if", "else")]
assert len(re.findall(r"{$", dot, re.M)) == len(re.findall(r"^ *}$", dot, re.M))

# Values at one place: a part is not the whole that begins with it, and what replaces a value is written.
entry = json.load(open("place.json"))["entries"][0]
whole = [b["view_of"] for b in entry["plan"]["buffers"] if "view_of" in b]
parts = [b["name"] for b in entry["plan"]["buffers"] if "view_of" in b]
a, b, e, d, s, y = entry["phases"]
assert len(parts) == 2 and whole[0] == whole[1] and b["writes"] + e["writes"] == parts and e["reads"] == ["x", parts[0]]
assert d["reads"] == whole[:1] and s["reads"] == d["writes"] + ["i", "u"] and y["reads"] == s["writes"] + whole[:1]
assert f"%{parts[0]} = dot %{a['writes'][0]}, %x  @kernel=b" in open("place.txt").read()
dot = open("place.dot").read()
assert all(f"e0_p{i} -> e0_p{j} [label={quoted(whole[0])}]" in dot for i in (1, 2) for j in (3, 5)), "lines from the parts"

# A size of a range by its name; what depends on one is the largest.
entry = json.load(open("range.json"))["entries"][0]
assert [v["type"] for v in entry["inputs"] + entry["outputs"]] == ["f32[batch,1,8,8]", "f32[batch,10]"]
assert entry["at_most"] and not entry["unbounded"] and not artifact.report["entries"][0]["at_most"]
assert f"kernels: at most {entry['flops']} flops a run" in open("range.txt").read().split("\n")
PY
