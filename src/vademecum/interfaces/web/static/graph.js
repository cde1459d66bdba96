// The picture of the graph: drawn on a canvas while a worker finds the places; the list beside it leads the same way.
import { door, fail, keys, morph, refreshFrom } from "./base.js";

const canvas = document.getElementById("graph");
if (canvas) start();

function start() {
  const pen = canvas.getContext("2d");
  const list = document.getElementById("list"), words = document.getElementById("graph-words");
  const worker = new Worker("/static/graph-worker.js");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  let nodes = [], places = new Float32Array(0), edges = new Uint32Array(0), run = 0, at = new Map();
  let near = [], groups = [], radius = new Float32Array(0), lit = null, focus = -1, hover = -1;
  let view = { scale: 1, x: 0, y: 0 }, own = false, colours = {}, waits = false, wide = 0, high = 0, dots = 1;

  // ------------------------------------------------------------ what is shown

  async function load() {
    const search = new URLSearchParams(location.search);
    search.delete("focus");
    const answer = await fetch(`${door}/graph.json?${search}`, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`the graph could not be read (${answer.status})`);
    show(await answer.json());
  }

  function show(told) {
    const before = new Map(nodes.map((node, i) => [node.path, i])), old = places;
    const same = told.nodes.length === nodes.length && told.edges.length * 2 === edges.length && told.nodes.every((node) => before.has(node.path));
    nodes = told.nodes;
    at = new Map(nodes.map((node, i) => [node.path, i]));
    edges = Uint32Array.from(told.edges.flatMap(([a, b]) => [a, b]));
    near = nodes.map(() => []);
    for (let i = 0; i < edges.length; i += 2) { near[edges[i]].push(edges[i + 1]); near[edges[i + 1]].push(edges[i]); }
    radius = Float32Array.from(nodes, (node) => 3 + Math.min(Math.sqrt(node.degree) * 1.4, 9));
    groups = told.types.map((type) => Uint32Array.from(nodes.flatMap((node, i) => (node.type === type ? [i] : []))));
    places = new Float32Array(2 * nodes.length);
    nodes.forEach((node, i) => { // where it was, or on a spiral, so that the same graph looks the same
      const was = before.get(node.path), turn = i * 2.399963, far = 11 * Math.sqrt(i + 0.5);
      places[2 * i] = was === undefined ? far * Math.cos(turn) : old[2 * was];
      places[2 * i + 1] = was === undefined ? far * Math.sin(turn) : old[2 * was + 1];
    });
    paint();
    light();
    if (same) { draw(); return; }
    canvas.dataset.state = "moving";
    worker.postMessage({ run: ++run, places, edges, size: nodes.length, warm: before.size > 0, still: still.matches });
  }

  worker.onmessage = ({ data }) => {
    if (data.run !== run) return;
    places = data.places;
    if (!own) fit();
    if (data.done) canvas.dataset.state = "done";
    draw();
  };

  /** What stands out: the node in focus with what it is joined to, or what the words mean. */
  function light() {
    focus = at.get(list.dataset.focus) ?? -1;
    const typed = words.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    lit = null;
    if (focus >= 0) lit = new Set([focus, ...near[focus]]);
    else if (typed.length) lit = new Set(nodes.flatMap((node, i) => { const told = `${node.key} ${node.title} ${node.tags.join(" ")}`.toLowerCase(); return typed.every((word) => told.includes(word)) ? [i] : []; }));
  }

  // ------------------------------------------------------------ drawing

  function paint() { // the colours of the page, as they are now
    const style = getComputedStyle(canvas);
    const swatches = [...document.querySelectorAll("#graph-legend .swatch")].map((each) => getComputedStyle(each).backgroundColor);
    colours = { text: style.color, line: style.outlineColor, halo: style.backgroundColor, groups: swatches };
  }

  function measure() {
    const box = canvas.getBoundingClientRect();
    dots = Math.min(devicePixelRatio || 1, 2);
    if (box.width === wide && box.height === high && canvas.width) return;
    wide = box.width; high = box.height;
    canvas.width = Math.round(wide * dots); canvas.height = Math.round(high * dots);
    if (!own) fit();
  }

  function fit() {
    let left = Infinity, top = Infinity, right = -Infinity, bottom = -Infinity;
    for (let i = 0; i < places.length; i += 2) {
      left = Math.min(left, places[i]); right = Math.max(right, places[i]);
      top = Math.min(top, places[i + 1]); bottom = Math.max(bottom, places[i + 1]);
    }
    if (!(right >= left)) return;
    const scale = Math.min((wide - 60) / Math.max(right - left, 60), (high - 60) / Math.max(bottom - top, 60), 2.5);
    view = { scale, x: wide / 2 - (scale * (left + right)) / 2, y: high / 2 - (scale * (top + bottom)) / 2 };
  }

  function draw() {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      const begun = performance.now();
      frame();
      performance.measure("vade-graph-frame", { start: begun, end: performance.now() });
      if (performance.getEntriesByName("vade-graph-frame").length > 2000) performance.clearMeasures("vade-graph-frame");
    });
  }

  function frame() {
    const { scale, x, y } = view;
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.setTransform(dots * scale, 0, 0, dots * scale, dots * x, dots * y);
    drawEdges(scale);
    drawNodes(scale);
    drawLabels(scale, x, y);
  }

  function drawEdges(scale) {
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1 / scale;
    pen.globalAlpha = lit ? 0.12 : edges.length > 6000 ? 0.3 : 0.6;
    pen.beginPath();
    for (let i = 0; i < edges.length; i += 2) {
      const a = 2 * edges[i], b = 2 * edges[i + 1];
      pen.moveTo(places[a], places[a + 1]); pen.lineTo(places[b], places[b + 1]);
    }
    pen.stroke();
    if (focus < 0) return;
    pen.globalAlpha = 1;
    pen.lineWidth = 1.6 / scale;
    pen.beginPath();
    for (const other of near[focus]) { pen.moveTo(places[2 * focus], places[2 * focus + 1]); pen.lineTo(places[2 * other], places[2 * other + 1]); }
    pen.stroke();
  }

  function drawNodes(scale) {
    const small = scale < 0.55; // where a circle is two pixels wide, a square looks the same and costs a third
    const least = 1.5 / scale; // of many, each can still be seen
    for (const clear of lit ? [false, true] : [true]) {
      pen.globalAlpha = clear ? 1 : 0.18;
      groups.forEach((group, at) => {
        pen.fillStyle = colours.groups[at] ?? colours.text;
        pen.beginPath();
        for (const i of group) {
          if (lit && lit.has(i) !== clear) continue;
          const px = places[2 * i], py = places[2 * i + 1], size = Math.max(radius[i], least);
          if (small && size * scale < 3) pen.rect(px - size, py - size, 2 * size, 2 * size);
          else { pen.moveTo(px + size, py); pen.arc(px, py, size, 0, 6.2832); }
        }
        pen.fill();
      });
    }
    pen.globalAlpha = 1;
    for (const [i, thick] of [[focus, 2.5], [hover, 1.5]]) {
      if (i < 0) continue;
      pen.strokeStyle = colours.text;
      pen.lineWidth = thick / scale;
      pen.beginPath();
      pen.arc(places[2 * i], places[2 * i + 1], radius[i] + 2 / scale, 0, 6.2832);
      pen.stroke();
    }
  }

  function drawLabels(scale, x, y) {
    pen.setTransform(dots, 0, 0, dots, 0, 0);
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.lineWidth = 3;
    pen.lineJoin = "round";
    const taken = [];
    const label = (i) => {
      const px = places[2 * i] * scale + x, py = places[2 * i + 1] * scale + y + radius[i] * scale + 13;
      if (px < 0 || px > wide || py < 0 || py > high) return false;
      const name = nodes[i].title.length > 32 ? `${nodes[i].title.slice(0, 31)}…` : nodes[i].title, half = name.length * 3.4;
      if (taken.some(([ox, oy, oh]) => Math.abs(oy - py) < 14 && Math.abs(ox - px) < half + oh)) return false;
      taken.push([px, py, half]);
      pen.strokeStyle = colours.halo; pen.strokeText(name, px, py);
      pen.fillStyle = colours.text; pen.fillText(name, px, py);
      return true;
    };
    if (hover >= 0) label(hover);
    if (focus >= 0) label(focus);
    let left = canvas.dataset.state === "moving" ? 12 : 40;
    const looked = Math.min(nodes.length, 400); // the most joined come first
    if (lit) for (const i of lit) { if (!left) break; if (label(i)) left--; }
    else for (let i = 0; i < looked && left; i++) if (label(i)) left--;
  }

  // ------------------------------------------------------------ looking around

  function zoom(by, px = wide / 2, py = high / 2) {
    const scale = Math.min(Math.max(view.scale * by, 0.02), 8), real = scale / view.scale;
    view = { scale, x: px - (px - view.x) * real, y: py - (py - view.y) * real };
    own = true;
    draw();
  }
  const all = () => { own = false; fit(); draw(); };

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const px = (event.clientX - box.left - view.x) / view.scale, py = (event.clientY - box.top - view.y) / view.scale;
    let best = -1, least = Infinity;
    for (let i = 0; i < nodes.length; i++) {
      const far = Math.hypot(places[2 * i] - px, places[2 * i + 1] - py) - radius[i];
      if (far < least && far < 8 / view.scale) { best = i; least = far; }
    }
    return best;
  }

  let held = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { held = { x: event.clientX, y: event.clientY, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      const dx = event.clientX - held.x, dy = event.clientY - held.y;
      if (!held.moved && Math.hypot(dx, dy) < 4) return;
      view = { ...view, x: view.x + dx, y: view.y + dy };
      held = { x: event.clientX, y: event.clientY, moved: true };
      own = true;
      draw();
      return;
    }
    const found = under(event);
    if (found !== hover) { hover = found; canvas.classList.toggle("over", found >= 0); draw(); }
  });
  canvas.addEventListener("pointerup", (event) => {
    const clicked = held && !held.moved;
    held = null;
    if (!clicked) return;
    const found = under(event);
    if (found >= 0) go(found === focus ? "" : nodes[found].path);
    else if (focus >= 0) go("");
  });
  canvas.addEventListener("pointerleave", () => { if (hover >= 0) { hover = -1; draw(); } });
  document.querySelectorAll("[data-zoom]").forEach((each) => each.addEventListener("click", () => ({ in: () => zoom(1.4), out: () => zoom(1 / 1.4), all })[each.dataset.zoom]()));
  keys({ "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), 0: all, f: () => { words.focus(); words.select(); } });

  // ------------------------------------------------------------ the list beside it

  let running = null;
  async function follow(url, { push = true, focused = false } = {}) {
    running?.abort();
    running = new AbortController();
    try {
      const answer = await fetch(url, { signal: running.signal, headers: { Accept: "text/html" } });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("list");
      if (!answer.ok || !fresh) { location.href = url; return; }
      morph(list, document.importNode(fresh, true));
      if (push) history.pushState(null, "", url);
      if (focused) list.querySelector("a")?.focus();
      light();
      draw();
    } catch (error) { fail(error); }
  }
  function go(path, options) {
    const url = new URL(location.href);
    if (path) url.searchParams.set("focus", path); else url.searchParams.delete("focus");
    return follow(url, options);
  }
  list.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-focus]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    follow(link.href, { focused: true });
  });
  const point = (event) => { const found = at.get(event.target.closest("[data-path]")?.dataset.path) ?? -1; if (found !== hover) { hover = found; draw(); } };
  list.addEventListener("focusin", point);
  list.addEventListener("pointerover", point);
  addEventListener("popstate", () => follow(location.href, { push: false }));
  words.addEventListener("input", () => { light(); draw(); });
  refreshFrom(() => location.href);
  document.addEventListener("vade:fresh", () => load().catch(fail));
  new ResizeObserver(() => { measure(); draw(); }).observe(canvas);
  const repaint = () => { paint(); draw(); };
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  measure();
  load().catch(fail);
}
