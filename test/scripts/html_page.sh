#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pages of `inspect --html` as a browser draws them: every kernel a box, every loop and branch a frame around its own kernels and a
# bracket over its phases, and names of a model only ever as text.
set -uo pipefail
[ -x "$IGATA" ] || { echo "no $IGATA"; exit 77; }
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
browser=$(command -v chromium || command -v chromium-browser || true)
[ -n "$browser" ] || { echo "no chromium"; exit 77; }
rm -rf ./*
digits=$SRC/examples/digits/digits.onnx evil=$SRC/test/ir/page.ig
"$IGATA" compile "$evil" -q -o evil.so || exit 1
"$IGATA" inspect evil.so --html evil-artifact.html && "$IGATA" inspect "$evil" --html evil-model.html &&
    "$IGATA" inspect "$SRC/test/ir/in_place.ig" --html place.html &&
    "$IGATA" inspect "$digits" --dim batch=1 --cpu x86-64-v3,x86-64-v4 --html digits.html || exit 1
for page in digits place evil-model evil-artifact; do
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --enable-logging=stderr --dump-dom \
        "file://$PWD/$page.html" 2> $page.log > $page.dom || { tail -3 $page.log; echo "the browser does not work here"; exit 77; }
    ! grep CONSOLE $page.log || { echo "FAIL: $page has errors"; exit 1; }
done
python3 - << 'PY' || { echo "FAIL: the pages drawn"; exit 1; }
import html, json, re

def rects(dom, kind):  # x, y, right, bottom of the groups of a class, in order
    found = re.findall(rf'<g class="{kind}[^"]*">(?:(?!</g>).)*?<rect x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"', dom, re.S)
    return [(x, y, x + w, y + h) for x, y, w, h in (map(float, f) for f in found)]

def regions(steps):  # name, first phase, end
    found, open_ = [], []
    begin = lambda kind, s: (found.append([kind, s["phase"], None]), open_.append(found[-1]))
    for s in steps:
        for _ in range({"loop": 0, "if": 0, "else": 1, "next": 1, "end": 2}[s["kind"]]):
            open_.pop()[2] = s["phase"]
        for kind in {"loop": ["loop"], "if": ["if", "arm"], "else": ["arm"]}.get(s["kind"], []):
            begin(kind, s)
    return found

inside = lambda a, b: b[0] <= a[0] and b[1] <= a[1] and a[2] <= b[2] and a[3] <= b[3]
apart = lambda a, b: a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
for name in "digits", "place", "evil-model", "evil-artifact":
    dom = open(name + ".dom", encoding="utf-8").read()
    data = re.search(r'id="data">(.*?)</script>', dom, re.S).group(1)
    report, body = json.loads(data)["report"], dom.replace(data, "")
    entry = report["entries"][0]
    boxes, frames, expected = rects(body, "node"), rects(body, "frame"), regions(entry["steps"])
    n_in, n_out, n = len(entry["inputs"]), len(entry["outputs"]), len(entry["phases"])
    assert len(boxes) == n_in + n + n_out, f"{name}: {len(boxes)} boxes"
    assert all(apart(a, b) for i, a in enumerate(boxes) for b in boxes[:i]), f"{name}: boxes overlap"
    assert re.findall(r'<g class="frame (\w+)"', body) == re.findall(r'class="bracket (\w+)"', body) == [r[0] for r in expected]
    for (kind, first, end), frame in zip(expected, frames):
        for i, box in enumerate(boxes):
            member = first <= i - n_in < end
            assert inside(box, frame) if member else apart(box, frame), f"{name}: box {i} and {kind} of {first}..{end}"
    starts = re.findall(r'class="bracket \w+" d="M([\d.]+) [\d.]+v4H([\d.]+)', body)
    unit = max(float(right) + 1 for _, right in starts) / n if starts else 1
    for (_, first, end), (left, right) in zip(expected, starts):
        assert abs(float(left) - 1 - first * unit) < 0.01 and abs(float(right) + 1 - end * unit) < 0.01, "a bracket over other phases"
    buffers = entry["plan"]["buffers"]
    assert body.count('class="buffer"') == len(buffers)
    edges = {html.unescape(t) for t in re.findall(r'<path class="edge[^"]*"[^>]*><title>(.*?)</title>', body, re.S)}
    counters = {s["counter"] for s in entry["steps"] if s["kind"] == "loop"}
    assert edges >= {r for p in entry["phases"] for r in p["reads"]} - counters, "a value that is read has no line"
    assert "NaN" not in body and "undefined" not in re.sub(r"<script>.*?</script>", "", body, flags=re.S)
    title = re.search(r"<title>(.*?)</title>", dom).group(1)
    assert title.endswith({"digits": "digits.onnx", "place": "in_place.ig", "evil-model": "page.ig", "evil-artifact": "evil.so"}[name] + " - igata"), title
    if name.startswith("evil"):
        assert "&lt;/script&gt;&lt;script&gt;document.title=1" in body and "n &amp; &lt;b&gt;'\u00fc\u65e5\u672c" in body
        assert "of the trip before" in body and expected, "what a loop carries"
PY
