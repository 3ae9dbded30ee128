/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws the page of `igata inspect --html` from the JSON beside it: {file, report: what --json prints, loops: per CPU level the loop IR
 * of each kernel, or nothing for an artifact}. Names come from the user's model: they enter the page as text nodes and attributes
 * only, never as markup. */
"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const report = page.report;
  const $ = (id) => document.getElementById(id);

  /* ---- elements and numbers ---- */

  function make(space, tag, attributes, children) {
    const e = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {}))
      if (typeof value === "function") e.addEventListener(key, value);
      else e.setAttribute(key, value);
    e.append(...(children || []));
    return e;
  }
  const html = (tag, attributes, ...children) => make(null, tag, attributes, children);
  const svg = (tag, attributes, ...children) => make("http://www.w3.org/2000/svg", tag, attributes, children);
  const count = (n) => Math.round(n).toLocaleString("en");
  const share = (part, whole) => (whole ? (100 * part / whole).toFixed(1) + " %" : "");
  const clip = (text, n) => (text.length > n ? text.slice(0, n - 1) + "\u2026" : text);
  /* A size that is known at the call only is shown with its bound. */
  const type = (value) => value.dtype + "[" + value.shape.map((n, i) => (n < 0 ? ".." + value.bounds[i] : n)).join(",") + "]";
  const hue = (text) => { /* the same colour for the same name everywhere */
    let h = 0;
    for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) % 360;
    return "hsl(" + h + " 55% 68%)";
  };

  /* ---- what one entry does on one CPU level ---- */

  /* A kernel's line is "%a, %b = ops %x, @w  @kernel=name  -> f32[2,3], f32[4]", with the values of the phase that it was made for. The
   * names on its left also tell of a value that an earlier phase began to write. */
  function phasesOf(variant, entry) {
    const uses = variant.kernels.map(() => 0);
    for (const phase of entry.phases) uses[phase.kernel]++;
    return entry.phases.map((phase, index) => {
      const info = variant.kernels[phase.kernel], [sides, rest = ""] = info.line.split("  @kernel="), [left, right = ""] = sides.split(" = ");
      const begun = uses[phase.kernel] > 1 ? [] : left.split(", ").map((s) => s.slice(1)).filter((s) => phase.reads.includes(s));
      return { ...phase, index, info, uses: uses[phase.kernel], ops: right.split(" ")[0], types: (rest.split("  -> ")[1] || "").split(/, (?=[a-z])/),
               reads: phase.reads.filter((s) => !begun.includes(s)), writes: [...phase.writes, ...begun] };
    });
  }
  const estimate = (k) => Math.max(k.flops / (1e3 * $("peak").value), k.bytes / (1e3 * $("bandwidth").value)) || 0; /* microseconds */

  /* ---- tables: columns are {title, of: row -> value, show?: value -> text, number?, wide?} ---- */

  function table(columns, rows, pick) {
    const body = html("tbody");
    const fill = () => body.replaceChildren(...rows.map((row) => {
      const cells = columns.map((c) => {
        const value = c.of(row), text = c.show ? c.show(value) : c.number ? count(value) : String(value);
        return html("td", { class: c.number ? "number" : "text", title: c.number ? "" : text }, text);
      });
      const line = html("tr", pick ? { click: () => pick(row) } : {}, ...cells);
      if (row.mark) line.dataset.phases = row.mark;
      return line;
    }));
    const head = columns.map((c) => html("th", { class: c.number ? "number" : "", click: (event) => {
      const cell = event.currentTarget, down = cell.classList.contains("down") || (!c.number && !cell.classList.contains("up"));
      for (const other of cell.parentNode.children) other.classList.remove("up", "down");
      cell.classList.add(down ? "up" : "down");
      const order = (a, b) => (c.number ? c.of(a) - c.of(b) : String(c.of(a)).localeCompare(String(c.of(b))));
      rows.sort((a, b) => (down ? order(a, b) : order(b, a)));
      fill();
    } }, c.title));
    fill();
    return html("table", {}, html("thead", {}, html("tr", {}, ...head)), body);
  }

  /* ---- the graph: layers by longest path, order and place by the mean of the neighbours ---- */

  const BOX = { width: 216, height: 58, gapX: 26, gapY: 46 };
  const FAR = 8; /* an edge over more layers than this is a name to click instead of a line */

  function graphOf(phases, entry) {
    const nodes = [], edges = [], writers = new Map();
    const wrote = (name, node) => { if (!writers.get(name)?.push(node)) writers.set(name, [node]); };
    const add = (node) => { node.id = nodes.length; node.layer = 0; nodes.push(node); return node; };
    const connect = (name, to) => (writers.get(name) || []).forEach((from) => edges.push({ from, to, name }));
    for (const value of entry.inputs) wrote(value.name, add({ title: value.name, lines: ["input", type(value)], io: true }));
    for (const phase of phases) {
      const node = add({ title: phase.info.name, lines: [phase.ops, phase.types[0]], phase });
      for (const name of phase.reads) connect(name, node);
      for (const name of phase.writes) wrote(name, node);
    }
    for (const value of entry.outputs) connect(value.name, add({ title: value.name, lines: ["output", type(value)], io: true }));
    return { nodes, edges };
  }

  function layOut(graph) {
    for (const edge of graph.edges) edge.to.layer = Math.max(edge.to.layer, edge.from.layer + 1); /* edges are in order of execution */
    for (const node of graph.nodes.filter((n) => n.io && graph.edges.some((e) => e.from === n)))
      node.layer = Math.min(...graph.edges.filter((e) => e.from === node).map((e) => e.to.layer)) - 1;
    const lowest = Math.min(0, ...graph.nodes.map((n) => n.layer)), layers = [], bends = new Map();
    const place = (node) => (layers[node.layer - lowest] ||= []).push(node);
    for (const node of graph.nodes) { node.width = BOX.width; node.near = []; place(node); }
    for (const edge of graph.edges) {
      edge.far = edge.to.layer - edge.from.layer > FAR;
      edge.path = [edge.from];
      for (let layer = edge.from.layer + 1; !edge.far && layer < edge.to.layer; layer++) { /* lines of one value share their bends */
        const key = edge.from.id + " " + layer;
        if (!bends.has(key)) { const bend = { layer, width: 10, near: [] }; bends.set(key, bend); place(bend); }
        edge.path.push(bends.get(key));
      }
      edge.path.push(edge.to);
      for (let i = 1; !edge.far && i < edge.path.length; i++) {
        edge.path[i].near.push(edge.path[i - 1]);
        edge.path[i - 1].near.push(edge.path[i]);
      }
    }
    const settle = (layer) => {
      for (const node of layer) node.want = node.near.length ? node.near.reduce((s, n) => s + n.x, 0) / node.near.length : node.x;
      layer.sort((a, b) => a.want - b.want);
      let right = -Infinity, shift = 0;
      for (const node of layer) {
        node.x = Math.max(node.want, right + node.width / 2);
        right = node.x + node.width / 2 + BOX.gapX;
        shift += node.want - node.x;
      }
      for (const node of layer) node.x += shift / layer.length;
    };
    for (const layer of layers) layer.forEach((node, i) => { node.x = (i - (layer.length - 1) / 2) * (BOX.width + BOX.gapX); });
    for (let sweep = 0; sweep < 6; sweep++) (sweep % 2 ? [...layers].reverse() : layers).forEach(settle);
    for (const layer of layers) for (const node of layer) node.y = (node.layer - lowest) * (BOX.height + BOX.gapY);
  }

  const camera = { x: 0, y: 0, scale: 1 };
  const aim = () => $("view").setAttribute("transform", `translate(${camera.x} ${camera.y}) scale(${camera.scale})`);
  function zoom(factor, x, y) {
    const scale = Math.min(4, Math.max(0.01, camera.scale * factor)), ratio = scale / camera.scale;
    Object.assign(camera, { scale, x: x - (x - camera.x) * ratio, y: y - (y - camera.y) * ratio });
    aim();
  }
  function centre(node) {
    const size = $("canvas").getBoundingClientRect();
    camera.scale = Math.max(camera.scale, 0.6);
    Object.assign(camera, { x: size.width / 2 - node.x * camera.scale, y: size.height / 2 - (node.y + BOX.height / 2) * camera.scale });
    aim();
  }
  function fit(nodes, whole) {
    const size = $("canvas").getBoundingClientRect(), xs = nodes.map((n) => n.x), ys = nodes.map((n) => n.y);
    const left = Math.min(...xs) - BOX.width / 2 - 20, top = Math.min(...ys) - 20;
    const width = Math.max(...xs) + BOX.width / 2 + 20 - left, height = Math.max(...ys) + BOX.height + 20 - top;
    const scale = Math.min(1, size.width / width, whole ? size.height / height : 1);
    camera.scale = whole ? scale : Math.max(scale, 0.45);
    Object.assign(camera, { x: (size.width - width * camera.scale) / 2 - left * camera.scale, y: -top * camera.scale });
    aim();
  }

  function drawGraph(graph, select) {
    const lines = svg("g"), boxes = svg("g");
    for (const edge of graph.edges) {
      if (edge.far) {
        const row = edge.to.stubs = (edge.to.stubs || 0) + 1;
        lines.append(svg("text", { class: "stub", x: edge.to.x - BOX.width / 2, y: edge.to.y - 4 - 11 * (row - 1),
          click: () => select(edge.from, true) }, "\u2191 " + clip(edge.name, 34)));
        continue;
      }
      let d = "";
      edge.path.forEach((node, i) => {
        const above = edge.path[i - 1];
        if (!i) d += `M${node.x} ${node.y + BOX.height}`;
        else {
          const start = above.y + BOX.height, half = (node.y - start) / 2;
          d += `C${above.x} ${start + half} ${node.x} ${node.y - half} ${node.x} ${node.y}`;
          if (i + 1 < edge.path.length) d += `V${node.y + BOX.height}`;
        }
      });
      edge.line = svg("path", { class: "edge", d }, svg("title", {}, edge.name));
      lines.append(edge.line);
    }
    for (const node of graph.nodes) {
      const x = node.x - BOX.width / 2;
      node.box = svg("g", { class: node.io ? "node io" : "node", click: () => select(node) },
        svg("rect", { x, y: node.y, width: BOX.width, height: BOX.height, rx: node.io ? 24 : 4 }),
        svg("text", { x: x + 10, y: node.y + 18 }, clip(node.title, 28)),
        svg("text", { x: x + 10, y: node.y + 34, class: "small" }, clip(node.lines[0], 31)),
        svg("text", { x: x + 10, y: node.y + 49, class: "small" }, clip(node.lines[1], 31)),
        svg("title", {}, [node.title, ...node.lines].join("\n")));
      boxes.append(node.box);
    }
    $("view").replaceChildren(lines, boxes);
  }

  /* ---- one entry on one CPU level ---- */

  let selectNode = () => {}, findNodes = () => [], allNodes = [];

  function show() {
    const variant = report.cpu[$("cpu").value], entry = variant.entries[$("entry").value];
    const loops = page.loops[$("cpu").value] || [];
    const phases = phasesOf(variant, entry), graph = graphOf(phases, entry);
    layOut(graph);
    allNodes = graph.nodes;
    const nodeOf = new Map(graph.nodes.filter((n) => n.phase).map((n) => [n.phase.index, n]));
    const go = (index) => { selectNode(nodeOf.get(index), true); $("graph").scrollIntoView(); };

    const link = (node, text) => html("a", { click: () => selectNode(node, true) }, text);
    const commas = (items) => items.flatMap((item, i) => (i ? [", ", item] : [item]));
    const readsOf = (phase, edges) => commas(phase.reads.map((name) => {
      const edge = edges.find((e) => e.name === name);
      return edge ? link(edge.from, "%" + name) : "%" + name;
    }));
    const facts = (pairs) => html("dl", {}, ...pairs.filter((p) => p.length > 1 && p[1] !== "").flatMap(([name, ...value]) =>
      [html("dt", {}, name), html("dd", {}, ...value)]));
    selectNode = (node, move) => {
      for (const e of document.querySelectorAll(".picked")) e.classList.remove("picked");
      const into = graph.edges.filter((e) => e.to === node), out = graph.edges.filter((e) => e.from === node);
      node.box.classList.add("picked");
      for (const edge of [...into, ...out]) if (edge.line) edge.line.classList.add("picked");
      if (move) centre(node);
      const p = node.phase, k = p && p.info, used = [...new Set(out.map((e) => e.to))];
      const to = ["read by", ...commas(used.map((n) => link(n, n.title)))];
      if (!p) return $("detail").replaceChildren(html("h3", {}, node.title), facts([["kind", node.lines[0]], ["type", node.lines[1]], to,
        ["from", ...commas(into.map((e) => link(e.from, e.from.title)))]]));
      for (const row of document.querySelectorAll("tr[data-phases]"))
        if (row.dataset.phases.split(" ").includes(String(p.index))) row.classList.add("picked");
      $("detail").replaceChildren(html("h3", {}, k.name),
        facts([["nodes", k.nodes], ["ops", p.ops], ["result", p.types.join(", ")], ["class", k.class],
          ["reads", ...readsOf(p, into)], ["weights", p.weights.map((w) => "@" + w).join(", ")],
          ["writes", p.writes.map((w) => "%" + w).join(", ")], to,
          ["phase", `${p.index} of ${phases.length}, ${count(p.tiles)} tiles` + (p.uses > 1 ? `, code shared by ${p.uses} phases` : "")],
          ["flops", count(k.flops)], ["bytes", count(k.bytes)], ["flops/byte", k.bytes ? (k.flops / k.bytes).toFixed(2) : ""],
          ["code", count(k.code_bytes) + " bytes"], ["estimate", estimate(k).toFixed(2) + " us"]]),
        html("strong", {}, "Loop IR"),
        loops[p.kernel] ? html("pre", {}, loops[p.kernel])
          : html("p", { class: "hint" }, "An artifact holds machine code only; inspect the model to see loops."));
    };
    findNodes = (text) => graph.nodes.filter((n) => [n.title, ...n.lines, ...(n.phase ? [n.phase.info.nodes, ...n.phase.writes] : [])]
      .some((s) => s.toLowerCase().includes(text)));
    drawGraph(graph, selectNode);
    fit(graph.nodes, false);
    $("detail").replaceChildren(html("p", { class: "hint" }, "Click a box."));

    /* kernels */
    const rows = variant.kernels.map((k, i) => ({ ...k, runs: phases.filter((p) => p.kernel === i) }))
      .filter((k) => k.runs.length).map((k) => ({ ...k, mark: k.runs.map((p) => p.index).join(" ") }));
    const total = (f) => rows.reduce((sum, k) => sum + f(k) * k.runs.length, 0);
    const flops = total((k) => k.flops), bytes = total((k) => k.bytes), code = rows.reduce((sum, k) => sum + k.code_bytes, 0);
    $("kernel-table").replaceChildren(table([
      { title: "name", of: (k) => k.name }, { title: "class", of: (k) => k.class },
      { title: "runs", of: (k) => k.runs.length, number: true }, { title: "tiles", of: (k) => k.runs[0].tiles, number: true },
      { title: "flops", of: (k) => k.flops, number: true }, { title: "of all", of: (k) => k.flops * k.runs.length, number: true, show: (v) => share(v, flops) },
      { title: "bytes", of: (k) => k.bytes, number: true }, { title: "of all", of: (k) => k.bytes * k.runs.length, number: true, show: (v) => share(v, bytes) },
      { title: "flops/byte", of: (k) => (k.bytes ? k.flops / k.bytes : 0), number: true, show: (v) => v.toFixed(2) },
      { title: "code bytes", of: (k) => k.code_bytes, number: true }, { title: "source nodes", of: (k) => k.nodes },
    ], rows, (k) => go(k.runs[0].index)));

    /* memory */
    const plan = entry.plan, last = Math.max(1, phases.length), width = Math.max(700, Math.min(8000, phases.length * 28)), height = 320;
    const x = (phase) => phase / last * width, y = (offset) => 20 + height * (1 - offset / Math.max(1, plan.peak_bytes));
    const chart = svg("svg", { width, height: height + 44, viewBox: `0 0 ${width} ${height + 44}` });
    for (const b of [...plan.buffers].sort((p, q) => p.first - q.first)) /* what is computed in place lies on what it replaces */
      chart.append(svg("rect", { class: "buffer", x: x(b.first), y: y(b.offset + b.bytes), width: x(b.last + 1) - x(b.first),
        height: y(b.offset) - y(b.offset + b.bytes), fill: hue(b.name), click: () => go(b.first) },
        svg("title", {}, `%${b.name}\n${count(b.bytes)} bytes at ${count(b.offset)}\nphases ${b.first} to ${b.last}`)));
    const bound = y(plan.lower_bound_bytes), step = Math.ceil(phases.length / Math.max(1, width / 70));
    chart.append(svg("line", { class: "mark", x1: 0, x2: width, y1: bound, y2: bound }, svg("title", {}, "lower bound")));
    for (let p = 0; p < phases.length; p += step) chart.append(svg("text", { class: "small", x: x(p) + 2, y: height + 36 }, p));
    $("memory-chart").replaceChildren(chart);
    $("memory-hint").textContent = `Peak ${count(plan.peak_bytes)} bytes, lower bound ${count(plan.lower_bound_bytes)} (dashed); scratch ` +
      `${count(plan.scratch_bytes)} bytes a thread. Phases from left to right, offsets upwards; hover for names. Inputs, outputs and weights lie elsewhere.`;

    /* costs */
    const costs = () => {
      const bars = [["flops", (p) => p.info.flops, count(flops)], ["bytes read and written", (p) => p.info.bytes, count(bytes)],
        ["estimated time", (p) => estimate(p.info), total(estimate).toFixed(1) + " us"]];
      $("cost-bars").replaceChildren(...bars.flatMap(([name, of, sum]) => {
        const whole = phases.reduce((s, p) => s + of(p), 0);
        const parts = phases.filter((p) => of(p) > 0).map((p) => html("span", { click: () => go(p.index),
          style: `width:${100 * of(p) / whole}%;background:${hue(p.info.name)}`, title: `${p.info.name}: ${share(of(p), whole)}` }, p.info.name));
        return [html("div", {}, `${name}: ${sum}`), html("div", { class: "share" }, ...parts)];
      }));
    };
    $("peak").oninput = $("bandwidth").oninput = costs;
    costs();

    /* facts */
    const dtypes = new Set([...entry.inputs, ...entry.outputs].map((v) => v.dtype));
    const list = (vs) => vs.map((v) => `${v.name} : ${type(v)}`).join("   ");
    const rowsOfFacts = [["target", `${report.target}, ${variant.name}, ${report.opt_level}${report.ftz ? ", ftz" : ""}, ${report.compiler}`],
      ["dtypes", [...dtypes].join(" ")], ["inputs", list(entry.inputs)], ["outputs", list(entry.outputs)],
      ...(entry.sizes || []).map((s) => ["size " + s.name, `${count(s.lo)} to ${count(s.hi)}; costs and memory are those of the largest`]),
      ["kernels", `${count(rows.length)} in ${count(phases.length)} phases, ${count(flops)} flops and ${count(bytes)} bytes a run`],
      ["sizes", `code ${count(code)}, weights ${count(report.weights_bytes)}, workspace ${count(plan.peak_bytes)}, file ${count(report.file_bytes)} bytes`],
      ...Object.entries(report.hashes).map(([name, hash]) => ["sha256 of " + name, hash])];
    $("facts").replaceChildren(...rowsOfFacts.flatMap(([name, value]) => [html("dt", {}, name), html("dd", {}, value)]));
  }

  /* ---- once ---- */

  document.title = page.file + " - igata";
  $("title").textContent = page.file;
  report.cpu.forEach((v, i) => $("cpu").append(html("option", { value: i }, v.name)));
  report.entries.forEach((e, i) => $("entry").append(html("option", { value: i }, e.name)));
  $("cpu").value = report.cpu.length - 1;
  $("cpu").onchange = $("entry").onchange = show;
  if (report.cpu.length < 2) $("cpu-label").hidden = true;
  if (report.entries.length < 2) $("entry-label").hidden = true;
  $("weight-table").replaceChildren(table([{ title: "name", of: (w) => w.name }, { title: "offset", of: (w) => w.offset, number: true },
    { title: "bytes", of: (w) => w.bytes, number: true }, { title: "of all", of: (w) => w.bytes, number: true, show: (v) => share(v, report.weights_bytes) }],
    [...report.weights]));

  const canvas = $("canvas");
  const middle = (factor) => { const r = canvas.getBoundingClientRect(); zoom(factor, r.width / 2, r.height / 2); };
  canvas.addEventListener("wheel", (event) => {
    const r = canvas.getBoundingClientRect();
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 500), event.clientX - r.left, event.clientY - r.top);
  }, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons !== 1) return canvas.classList.remove("drag");
    canvas.classList.add("drag");
    camera.x += event.movementX;
    camera.y += event.movementY;
    aim();
  });
  $("zoom-in").onclick = () => middle(1.3);
  $("zoom-out").onclick = () => middle(1 / 1.3);
  $("zoom-fit").onclick = () => fit(allNodes, true);
  let hit = 0;
  $("find").onkeydown = (event) => {
    const text = $("find").value.toLowerCase();
    if (event.key !== "Enter" || !text) return;
    const found = findNodes(text);
    hit = found.length ? hit % found.length : 0;
    $("found").textContent = found.length ? `${hit + 1} of ${found.length}; Enter for the next` : "nothing found";
    if (found.length) selectNode(found[hit++], true);
  };
  $("find").oninput = () => { hit = 0; $("found").textContent = ""; };
  show();
})();
