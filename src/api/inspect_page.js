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
    if (tag === "a") { /* does something here: a button for keys and screen readers */
      e.setAttribute("role", "button");
      e.tabIndex = 0;
      e.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); e.click(); } });
    }
    e.append(...(children || []));
    return e;
  }
  const html = (tag, attributes, ...children) => make(null, tag, attributes, children);
  const svg = (tag, attributes, ...children) => make("http://www.w3.org/2000/svg", tag, attributes, children);
  const count = (n) => Math.round(n).toLocaleString("en");
  const share = (part, whole) => (whole ? (100 * part / whole).toFixed(1) + " %" : "");
  const clip = (text, n) => (text.length > n ? text.slice(0, n - 1) + "\u2026" : text);
  const hue = (text) => { /* the same colour for the same name everywhere */
    let h = 0;
    for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) % 360;
    return "hsl(" + h + " 55% 68%)";
  };

  /* ---- what one entry does on one CPU level ---- */

  /* A kernel's line is "%a, %b = ops %x, @w  @kernel=name  -> f32[2,3], f32[4]". */
  function phasesOf(variant, entry, regions) {
    const uses = variant.kernels.map(() => 0);
    for (const phase of entry.phases) uses[phase.kernel]++;
    return entry.phases.map((phase, index) => {
      const info = variant.kernels[phase.kernel], [sides, rest = ""] = info.line.split("  @kernel=");
      const region = regions.findLast((r) => r.first <= index && index < r.end), loops = [];
      for (let r = region; r; r = r.around) if (r.kind === "loop") loops.push(r);
      return { ...phase, index, info, region, loops, uses: uses[phase.kernel], ops: (sides.split(" = ")[1] || "").split(" ")[0],
               types: (rest.split("  -> ")[1] || "").split(/, (?=[a-z])/) };
    });
  }

  /* Loops, branchings and their arms, each behind what it lies in; phases are first .. end - 1. */
  function regionsOf(entry) {
    const regions = [], open = [];
    const begin = (kind, name, step, text, words = []) => {
      const around = open.at(-1);
      regions.push({ kind, name, text, step, words: words.filter((w) => w), first: step.phase, end: step.phase, around, depth: open.length,
        path: (around ? around.path + ", " : "") + name });
      open.push(regions.at(-1));
    };
    const end = (step) => { open.pop().end = step.phase; };
    entry.steps.forEach((step, i) => {
      const number = regions.filter((r) => r.kind !== "arm").length + 1;
      if (step.kind === "loop") {
        const again = entry.steps[step.target].text;
        begin("loop", "loop " + number, step, step.text.slice(4) + (again ? ", " + again : ""), [step.trip, step.go]);
      } else if (step.kind === "if") {
        begin("if", "if " + number, step, ":" + step.text.slice(2), [step.go]);
        begin("arm", "then", step, "");
      } else if (step.kind !== "size") {
        end(step);
        if (step.kind === "else") begin("arm", "else", step, "");
        if (step.kind === "end") end(step);
      }
    });
    return regions;
  }
  const labelOf = (region) => clip(region.name + (region.text || (region.first === region.end ? ": no kernel" : "")), 80);
  const estimate = (k) => Math.max(k.flops / (1e3 * $("peak").value), k.bytes / (1e3 * $("bandwidth").value)) || 0; /* microseconds */

  /* ---- tables: columns are {title, of: row -> value, show?: value -> text, number?, wide?} ---- */

  const number = (title, of, show) => ({ title, of, show, number: true });
  function table(columns, rows, pick) {
    const body = html("tbody");
    const fill = () => body.replaceChildren(...rows.map((row) => {
      const cells = columns.map((c) => {
        const value = c.of(row), text = c.show ? c.show(value) : c.number ? count(value) : String(value);
        const shown = c === columns[0] && pick ? html("a", {}, text) : text;
        return html("td", { class: c.number ? "number" : "text", title: c.number ? "" : text }, shown);
      });
      const line = html("tr", pick ? { click: () => pick(row) } : {}, ...cells);
      if (row.mark) line.dataset.phases = row.mark;
      return line;
    }));
    const head = columns.map((c) => html("th", { scope: "col", class: c.number ? "number" : "", click: (event) => {
      const cell = event.currentTarget, down = cell.classList.contains("down") || (!c.number && !cell.classList.contains("up"));
      for (const other of cell.parentNode.children) { other.classList.remove("up", "down"); other.removeAttribute("aria-sort"); }
      cell.classList.add(down ? "up" : "down");
      cell.setAttribute("aria-sort", down ? "ascending" : "descending");
      const order = (a, b) => (c.number ? c.of(a) - c.of(b) : String(c.of(a)).localeCompare(String(c.of(b))));
      rows.sort((a, b) => (down ? order(a, b) : order(b, a)));
      fill();
    } }, html("a", {}, c.title)));
    fill();
    return html("table", {}, html("thead", {}, html("tr", {}, ...head)), body);
  }

  /* ---- the graph: layers by longest path, order and place by the mean of the neighbours. A loop or branch is a frame: laid out by
   * itself, then one box of the graph around it, with a port in its edge for every value that goes in or out ---- */

  const BOX = { width: 216, height: 58, gapX: 26, gapY: 46 };
  const FAR = 8; /* an edge over more layers than this is a name to click instead of a line */

  function graphOf(phases, entry, regions) {
    const nodes = [], edges = [], writers = new Map(), frames = new Map();
    const frame = (region) => ({ region, title: region && labelOf(region), kids: [], links: [], ports: new Map() });
    const root = frame(), parentOf = (region) => frames.get(region) || root;
    const add = (node, parent) => { parent.kids.push(node); return Object.assign(node, { parent, layer: 0 }); };
    const box = (node, parent) => { nodes.push({ ...BOX, ...node }); return add(nodes.at(-1), parent); };
    const wrote = (name, node) => { if (!writers.get(name)?.push(node)) writers.set(name, [node]); };
    const owner = new Map(entry.plan.buffers.map((b) => [b.name, b.view_of]));
    const within = (name, whole) => { while (name && name !== whole) name = owner.get(name); return Boolean(name); };
    const writersOf = (name) => writers.get(name) || /* a value put together in place has those of its parts */
      [...writers].filter(([other]) => within(other, name) || within(name, other)).flatMap(([, nodes]) => nodes);
    const connect = (name, to) => writersOf(name).forEach((from) => edges.push({ from, to, name }));
    const open = (phase) => { /* what decides about a region lies before it */
      for (const region of regions.slice(frames.size)) {
        if (region.first > phase) break;
        frames.set(region, add(frame(region), parentOf(region.around)));
        for (const name of region.words) connect(name, frames.get(region));
      }
    };
    for (const value of entry.inputs) wrote(value.name, box({ title: value.name, lines: ["input", value.type], io: true }, root));
    for (const phase of phases) {
      open(phase.index);
      const node = box({ title: phase.info.name, lines: [phase.ops, phase.types[0]], phase }, parentOf(phase.region));
      for (const name of phase.reads) connect(name, node);
      for (const name of phase.writes) wrote(name, node);
    }
    open(phases.length);
    for (const value of entry.outputs) connect(value.name, box({ title: value.name, lines: ["output", value.type], io: true }, root));
    for (const to of nodes.filter((n) => n.phase?.loops.length)) /* what the trip before has left: nothing wrote it earlier in this one */
      for (const name of to.phase.reads) {
        const inside = to.phase.loops.map((l) => writersOf(name).filter((n) => n.phase?.loops.includes(l)));
        const from = inside.find((list) => list.length && list.every((n) => n.phase.index >= to.phase.index)) || [];
        edges.push(...from.map((n) => ({ from: n, to, name, carried: true, far: true })));
      }
    return { nodes, edges, root, frames: [...frames.values()] };
  }

  /* An edge becomes a link in every frame that it passes: up through ports from where it begins, down through ports to where it ends. */
  function route(edge) {
    const around = new Set(), up = [], down = [];
    const port = (frame, out) => {
      const key = edge.from.id + (out ? " out" : " in");
      if (!frame.ports.has(key)) frame.ports.set(key, { port: true, out, layer: -1, width: 10, height: 0 });
      return frame.ports.get(key);
    };
    let { from, to } = edge;
    for (let f = to.parent; f; f = f.parent) around.add(f);
    for (; !around.has(from.parent); from = from.parent) up.push({ frame: from.parent, from, to: port(from.parent, true) });
    for (; to.parent !== from.parent; to = to.parent) down.unshift({ frame: to.parent, from: port(to.parent, false), to });
    edge.links = [...up, { frame: from.parent, from, to }, ...down];
    for (const link of edge.links) link.frame.links.push(Object.assign(link, { edge, bends: [] }));
  }

  function rank(frame) { /* links are in order of execution */
    for (const { from, to } of frame.links) if (!to.out) to.layer = Math.max(to.layer, from.layer + 1);
    for (const node of frame.kids.filter((n) => n.io && n.reached)) /* an input is just above what reads it first */
      node.layer = Math.min(...frame.links.filter((l) => l.from === node).map((l) => l.to.layer)) - 1;
    frame.end = 1 + Math.max(-1, ...frame.kids.map((n) => n.layer));
    for (const port of frame.ports.values()) if (port.out) port.layer = frame.end;
    for (const { from, to, edge } of frame.links) edge.far ||= to.layer - from.layer > FAR;
    for (const node of frame.kids) if (node.kids) rank(node);
  }

  function arrange(frame) {
    const links = frame.links.filter((l) => !l.edge.far), used = new Set(links.flatMap((l) => [l.from, l.to]));
    const items = [...frame.kids, ...[...frame.ports.values()].filter((p) => used.has(p))];
    const lowest = Math.min(frame.parent ? -1 : 0, ...items.map((n) => n.layer)), bends = new Map();
    const layers = Array.from({ length: frame.end - lowest + (frame.parent ? 1 : 0) }, () => []);
    const place = (node) => { node.near = []; layers[node.layer - lowest].push(node); };
    for (const node of frame.kids) if (node.kids) arrange(node);
    items.forEach(place);
    for (const link of links) {
      if (!bends.has(link.from)) bends.set(link.from, []); /* lines of one value share their bends */
      for (let layer = link.from.layer + 1; layer < link.to.layer; layer++) {
        const bend = bends.get(link.from)[layer] ||= { layer, width: 10, height: 0 };
        if (!bend.near) place(bend);
        link.bends.push(bend);
      }
      const path = [link.from, ...link.bends, link.to];
      for (let i = 1; i < path.length; i++) { path[i].near.push(path[i - 1]); path[i - 1].near.push(path[i]); }
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
    const all = layers.flat();
    const left = Math.min(0, ...all.map((n) => n.x - n.width / 2)), right = Math.max(0, ...all.map((n) => n.x + n.width / 2));
    frame.items = all.map((n) => Object.assign(n, { x: n.x - (left + right) / 2 }));
    frame.width = Math.max(right - left + 2 * BOX.gapX, frame.region ? 7.5 * frame.title.length + 30 : 0);
    frame.height = 0;
    for (const layer of layers) {
      const height = Math.max(0, ...layer.map((n) => n.height));
      for (const node of layer) Object.assign(node, { y: frame.height, bottom: frame.height + height });
      frame.height += height + (layer === layers.at(-1) ? 0 : BOX.gapY);
    }
  }

  function settleIn(frame) { /* places in the frame to places on the canvas */
    for (const node of frame.items) {
      Object.assign(node, { x: node.x + frame.x, y: node.y + frame.y, bottom: node.out ? frame.bottom : node.bottom + frame.y });
      if (node.kids) settleIn(node);
    }
  }

  function layOut(graph) {
    graph.nodes.forEach((node, i) => { node.id = i; });
    for (const edge of graph.edges) {
      edge.from.reached = true;
      if (!edge.far) route(edge);
    }
    rank(graph.root);
    arrange(graph.root);
    settleIn(Object.assign(graph.root, { x: 0, y: 0 }));
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
    const y = node.y + Math.min(node.height, 300) / 2;
    Object.assign(camera, { x: size.width / 2 - node.x * camera.scale, y: size.height / 2 - y * camera.scale });
    aim();
  }
  function fit({ root, nodes }, whole) {
    const size = $("canvas").getBoundingClientRect();
    const scale = Math.min(1, size.width / root.width, whole ? size.height / (root.height + 40) : 1);
    camera.scale = whole ? scale : Math.max(scale, 0.75);
    const side = Math.max(0, root.width - size.width / camera.scale) / 2;
    const middle = Math.min(side, Math.max(-side, nodes[0].x)); /* what begins the run */
    Object.assign(camera, { x: size.width / 2 - middle * camera.scale, y: 20 * camera.scale });
    aim();
  }

  function drawGraph(graph, select) {
    const frames = svg("g"), lines = svg("g"), boxes = svg("g");
    for (const frame of graph.frames) {
      const x = frame.x - frame.width / 2;
      frame.box = svg("g", { class: "frame " + frame.region.kind, click: () => select(frame) },
        svg("rect", { x, y: frame.y, width: frame.width, height: frame.height, rx: 6 }),
        svg("text", { x: x + 10, y: frame.y + 18 }, frame.title), svg("title", {}, frame.title));
      frames.append(frame.box);
    }
    for (const edge of graph.edges) {
      if (edge.far) {
        const { to } = edge, row = to.stubs = (to.stubs || 0) + 1, most = Math.floor((BOX.gapY - 8) / 11);
        if (row <= most) /* beside the lines that arrive in the middle; the details name all */
          lines.append(svg("text", { class: "stub", x: to.x - BOX.width / 2, y: to.y - 4 - 11 * (row - 1),
            click: () => select(edge.from, true) }, row === most ? "\u2026" : (edge.carried ? "\u21bb " : "\u2191 ") + clip(edge.name, 15),
            svg("title", {}, edge.name + (edge.carried ? " of the trip before" : ""))));
        continue;
      }
      const path = [edge.from, ...edge.links.flatMap((l) => [...(l.from.port && !l.from.out ? [l.from] : []), ...l.bends, l.to])];
      let d = "", above = null;
      for (const node of path.filter((n) => !n.kids || n === edge.to)) {
        const half = above && (node.y - above.bottom) / 2;
        d += above ? `C${above.x} ${above.bottom + half} ${node.x} ${node.y - half} ${node.x} ${node.y}`
          : `M${node.x} ${node.y + node.height}`;
        if (node !== edge.to) d += `V${node.bottom}`;
        above = node;
      }
      edge.line = svg("path", { class: edge.to.kids ? "edge decides" : "edge", d }, svg("title", {}, edge.name));
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
    $("view").replaceChildren(frames, lines, boxes);
  }

  /* ---- one entry on one CPU level ---- */

  let selectNode = () => {}, findNodes = () => [], shown = null, picked = null;

  function show() {
    const variant = report.cpu[$("cpu").value], entry = variant.entries[$("entry").value];
    const loops = page.loops[$("cpu").value] || [];
    const regions = regionsOf(entry), phases = phasesOf(variant, entry, regions), graph = graphOf(phases, entry, regions);
    layOut(graph);
    shown = graph;
    picked = null;
    const most = entry.at_most ? "at most " : "", open = entry.unbounded ? "; loops without a bound are counted once" : "";
    const nodeOf = new Map(graph.nodes.filter((n) => n.phase).map((n) => [n.phase.index, n]));
    const go = (index) => { selectNode(nodeOf.get(index), true); $("graph").scrollIntoView(); };

    const link = (node, text) => html("a", { click: () => selectNode(node, true) }, text);
    const commas = (items) => items.flatMap((item, i) => (i ? [", ", item] : [item]));
    const readsOf = (phase, edges) => commas(phase.reads.flatMap((name) => {
      const from = edges.filter((e) => e.name === name), trips = phase.loops.some((l) => l.step.counter === name);
      return from.length ? from.map((e) => link(e.from, "%" + name + (e.carried ? " of the trip before" : "")))
        : ["%" + name + (trips ? ", the number of the trip" : "")];
    }));
    const places = (region) => region.end - region.first > 1 ? `phases ${region.first} to ${region.end - 1}`
      : region.end > region.first ? "phase " + region.first : "no phase";
    const facts = (pairs) => html("dl", {}, ...pairs.filter((p) => p.length > 1 && p[1] !== "").flatMap(([name, ...value]) =>
      [html("dt", {}, name), html("dd", {}, ...value)]));
    selectNode = (node, move) => {
      for (const e of document.querySelectorAll(".picked")) e.classList.remove("picked");
      const into = graph.edges.filter((e) => e.to === node), out = graph.edges.filter((e) => e.from === node);
      node.box.classList.add("picked");
      picked = node;
      for (const edge of [...into, ...out]) if (edge.line) edge.line.classList.add("picked");
      if (move) centre(node);
      const p = node.phase, k = p && p.info, used = [...new Set(out.map((e) => e.to))];
      if (node.region) return $("detail").replaceChildren(html("h3", {}, node.title), facts([["runs", places(node.region)],
        ["in", node.region.around?.path || ""], ["decided by", ...commas(into.map((e) => link(e.from, "%" + e.name)))]]));
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
          ["in", p.region?.path || ""], ["runs", p.region ? most + count(p.runs) + open : ""],
          ["flops", count(k.flops)], ["bytes", count(k.bytes)], ["flops/byte", k.bytes ? (k.flops / k.bytes).toFixed(2) : ""],
          ["code", count(k.code_bytes) + " bytes"], ["estimate", estimate(k).toFixed(2) + " us"]]),
        html("strong", {}, "Loop IR"),
        loops[p.kernel] ? html("pre", {}, loops[p.kernel])
          : html("p", { class: "hint" }, "An artifact holds machine code only; inspect the model to see loops."));
    };
    findNodes = (text) => graph.nodes.filter((n) => [n.title, ...n.lines, ...(n.phase ? [n.phase.info.nodes, ...n.phase.writes] : [])]
      .some((s) => s.toLowerCase().includes(text)));
    drawGraph(graph, selectNode);
    fit(graph, false);
    $("detail").replaceChildren(html("p", { class: "hint" }, "Click a box."));

    /* kernels */
    const rows = variant.kernels.map((k, i) => ({ ...k, runs: phases.filter((p) => p.kernel === i) }))
      .filter((k) => k.runs.length).map((k) => ({ ...k, mark: k.runs.map((p) => p.index).join(" ") }));
    const times = (k) => k.runs.reduce((sum, p) => sum + p.runs, 0), total = (f) => rows.reduce((sum, k) => sum + f(k) * times(k), 0);
    const flops = total((k) => k.flops), bytes = total((k) => k.bytes), code = rows.reduce((sum, k) => sum + k.code_bytes, 0);
    $("kernel-table").replaceChildren(table([
      { title: "name", of: (k) => k.name }, { title: "class", of: (k) => k.class },
      ...(regions.length ? [{ title: "in", of: (k) => [...new Set(k.runs.map((p) => p.region?.path || "main"))].join("; ") }] : []),
      number(regions.length ? most + "runs" : "runs", times), number("tiles", (k) => k.runs[0].tiles),
      number("flops", (k) => k.flops), number("of all", (k) => k.flops * times(k), (v) => share(v, flops)),
      number("bytes", (k) => k.bytes), number("of all", (k) => k.bytes * times(k), (v) => share(v, bytes)),
      number("flops/byte", (k) => (k.bytes ? k.flops / k.bytes : 0), (v) => v.toFixed(2)),
      number("code bytes", (k) => k.code_bytes), { title: "source nodes", of: (k) => k.nodes },
    ], rows, (k) => go(k.runs[0].index)));

    /* memory */
    const plan = entry.plan, last = Math.max(1, phases.length), width = Math.max(700, Math.min(8000, phases.length * 28)), height = 320;
    const x = (phase) => phase / last * width, y = (offset) => 20 + height * (1 - offset / Math.max(1, plan.peak_bytes));
    const whole = height + 44 + 20 * Math.max(0, ...regions.map((r) => r.depth + 1));
    const chart = svg("svg", { width, height: whole, viewBox: `0 0 ${width} ${whole}`, role: "img",
      "aria-label": "buffers over phases, as in the table" });
    for (const b of [...plan.buffers].sort((p, q) => p.first - q.first)) { /* what is computed in place lies on what it replaces */
      const wide = x(b.last + 1) - x(b.first), high = y(b.offset) - y(b.offset + b.bytes);
      chart.append(svg("rect", { class: "buffer", x: x(b.first), y: y(b.offset + b.bytes), width: wide, height: high,
        fill: hue(b.name), click: () => go(b.first) }, svg("title", {},
        `%${b.name}\n${count(b.bytes)} bytes at ${count(b.offset)}\nphases ${b.first} to ${b.last}`)));
      if (high > 13 && wide > 30)
        chart.append(svg("text", { class: "inside", x: x(b.first) + 3, y: y(b.offset) - 3 }, clip(b.name, Math.floor(wide / 7))));
    }
    for (const r of regions) {
      const label = labelOf(r), line = height + 46 + 20 * r.depth;
      chart.append(svg("path", { class: "bracket " + r.kind, d: `M${x(r.first) + 1} ${line - 4}v4H${x(r.end) - 1}v-4` },
        svg("title", {}, label)),
        svg("text", { class: "small", x: x(r.first) + 3, y: line + 12 }, clip(label, Math.floor((x(r.end) - x(r.first)) / 6.7))));
    }
    const bound = y(plan.lower_bound_bytes), step = Math.ceil(phases.length / Math.max(1, width / 70));
    chart.append(svg("line", { class: "mark", x1: 0, x2: width, y1: bound, y2: bound }, svg("title", {}, "lower bound")));
    for (let p = 0; p < phases.length; p += step) chart.append(svg("text", { class: "small", x: x(p) + 2, y: height + 36 }, p));
    $("memory-chart").replaceChildren(...(plan.buffers.length + regions.length ? [chart] : []));
    $("buffer-table").replaceChildren(table([{ title: "name", of: (b) => b.name }, number("offset", (b) => b.offset),
      number("bytes", (b) => b.bytes), number("first phase", (b) => b.first), number("last phase", (b) => b.last),
      { title: "part of", of: (b) => b.view_of || "" }], [...plan.buffers].sort((p, q) => p.first - q.first), (b) => go(b.first)));
    $("memory-hint").textContent = `Peak ${count(plan.peak_bytes)} bytes, lower bound ${count(plan.lower_bound_bytes)} (dashed); scratch ` +
      `${count(plan.scratch_bytes)} bytes a thread. Phases from left to right, offsets upwards. ` +
      (regions.length ? "Brackets are loops and branches. " : "") + "Inputs, outputs and weights lie elsewhere.";

    /* costs */
    const costs = () => {
      const bars = [["flops", (p) => p.info.flops * p.runs, count(flops)],
        ["bytes of operands", (p) => p.info.bytes * p.runs, count(bytes)],
        ["estimated time", (p) => estimate(p.info) * p.runs, total(estimate).toFixed(1) + " us"]];
      $("cost-bars").replaceChildren(...bars.flatMap(([name, of, sum]) => {
        const whole = phases.reduce((s, p) => s + of(p), 0), room = $("cost-bars").clientWidth / whole / 7; /* letters */
        const parts = phases.filter((p) => of(p) > 0).map((p) => html("span", { click: () => go(p.index),
          style: `width:${100 * of(p) / whole}%;background:${hue(p.info.name)}`, title: `${p.info.name}: ${share(of(p), whole)}` },
          of(p) * room < 4 ? "" : clip(p.info.name, Math.floor(of(p) * room))));
        const line = `${name}: ${most}${sum}${open}`;
        const label = line + ", by kernel as in the table";
        return [html("div", {}, line), html("div", { class: "share", role: "img", "aria-label": label }, ...parts)];
      }));
    };
    $("peak").oninput = $("bandwidth").oninput = costs;
    costs();

    /* facts */
    const dtypes = new Set([...entry.inputs, ...entry.outputs].map((v) => v.dtype));
    const list = (vs) => vs.map((v) => `${v.name} : ${v.type}`).join("\n");
    const rowsOfFacts = [["target", `${report.target}, ${variant.name}, ${report.opt_level}${report.ftz ? ", ftz" : ""}, ${report.compiler}`],
      ["dtypes", [...dtypes].join(" ")], ["inputs", list(entry.inputs)], ["outputs", list(entry.outputs)],
      ...(entry.sizes || []).map((s) => ["size " + s.name,
        `${count(s.lo)} to ${count(s.hi)}${s.found ? ", found by the run" : ""}; costs and memory are those of the largest`]),
      ["kernels", `${count(rows.length)} in ${count(phases.length)} phases, ` +
        `${most}${count(flops)} flops and ${count(bytes)} bytes of operands a run${open}`],
      ["sizes", `code ${count(code)}, weights ${count(report.weights_bytes)}, workspace ${count(plan.peak_bytes)}, file ` +
        `${count(report.file_bytes)} bytes`],
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
  $("weight-table").replaceChildren(table([{ title: "name", of: (w) => w.name }, number("offset", (w) => w.offset),
    number("bytes", (w) => w.bytes), number("of all", (w) => w.bytes, (v) => share(v, report.weights_bytes))], [...report.weights]));

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
  canvas.onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    const next = picked ? shown.nodes.indexOf(picked) + step : 0;
    if (step && shown.nodes[next]) selectNode(shown.nodes[next], true);
    if (event.key === "+" || event.key === "-") middle(event.key === "+" ? 1.3 : 1 / 1.3);
    if (step) event.preventDefault();
  };
  $("zoom-in").onclick = () => middle(1.3);
  $("zoom-out").onclick = () => middle(1 / 1.3);
  $("zoom-fit").onclick = () => fit(shown, true);
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
