// A pinned document: edited against the version that was read, never over somebody else's.
import { call, fail, keys, refresh, toast } from "./base.js";

const form = document.getElementById("edit"), box = document.getElementById("text"), save = document.getElementById("save");
const state = document.getElementById("state"), conflict = document.getElementById("conflict");
const { name, scope, unit } = form.dataset, budget = Number(form.dataset.budget);
const path = `/pinned/${encodeURIComponent(name)}/text${scope ? `?scope=${encodeURIComponent(scope)}` : ""}`;
let base = null, etag = null, theirs = null;

const changed = () => base !== null && box.value !== base;
const size = (text) => (unit === "bytes" ? new TextEncoder().encode(text).length : [...text].length);

/** The part below the frontmatter, which the budget counts. */
const body = (text) => text.replace(/^---\n[\s\S]*?\n---\n/, "").trim();

function show() {
  const used = size(body(box.value)), share = Math.min((100 * used) / budget, 100);
  document.querySelector("#budget .used").setAttribute("width", String(share));
  document.getElementById("budget").dataset.tone = used > budget ? "bad" : share > 85 ? "warn" : "good";
  document.getElementById("size").textContent = `${used.toLocaleString("en")} of ${budget.toLocaleString("en")} ${unit}${used > budget ? " · what is over it is cut" : ""}`;
  save.disabled = !changed();
  state.textContent = changed() ? "Not saved yet" : "";
}

let drawing = 0;
/** Draw what is typed as it will be read, a moment after the last key. */
function draw() {
  clearTimeout(drawing);
  drawing = setTimeout(async () => {
    const text = body(box.value);
    try {
      const told = text ? await call("POST", "/preview", { body: { text } }) : { html: "" };
      const drawn = new DOMParser().parseFromString(`<div>${told.html}</div>`, "text/html");
      document.getElementById("preview").replaceChildren(...document.importNode(drawn.body.firstChild, true).childNodes);
    } catch (error) { fail(error); }
  }, 250);
}

async function read() {
  const told = await call("GET", path);
  base = told.text;
  etag = told.etag;
  box.value = base;
  box.readOnly = false;
  show();
}

/** The lines of two texts side by side as a difference; long ones are compared without their common ends. */
export function difference(before, after) {
  let a = before.split("\n"), b = after.split("\n"), head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  a = a.slice(head, a.length - tail);
  b = b.slice(head, b.length - tail);
  if (a.length * b.length > 1e6) return [...a.map((each) => ["-", each]), ...b.map((each) => ["+", each])];
  const table = Array.from({ length: a.length + 1 }, () => new Uint32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) for (let j = b.length - 1; j >= 0; j -= 1) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const made = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) { made.push([" ", a[i]]); i += 1; j += 1; }
    else if (j >= b.length || (i < a.length && table[i + 1][j] >= table[i][j + 1])) { made.push(["-", a[i]]); i += 1; }
    else { made.push(["+", b[j]]); j += 1; }
  }
  return made;
}

function showConflict(current) {
  theirs = current;
  const rows = difference(base, current.text).map(([sign, text]) => {
    const row = document.createElement("div");
    row.className = { "+": "add", "-": "del" }[sign] ?? "";
    row.textContent = `${sign}${text}`;
    return row;
  });
  document.getElementById("conflict-diff").replaceChildren(...rows.slice(0, 400));
  conflict.hidden = false;
  conflict.scrollIntoView({ block: "center" });
}

async function put(tag) {
  const text = box.value, before = base;
  save.disabled = true;
  try {
    const told = await call("PUT", path, { body: { text }, etag: tag });
    const made = told.text;
    base = told.text;
    etag = told.etag;
    box.value = base;
    conflict.hidden = true;
    toast(`Saved ${name}`, {
      undo: async () => {
        const undone = await call("PUT", path, { body: { text: before }, etag: told.etag });
        if (box.value === made) box.value = undone.text;
        base = undone.text;
        etag = undone.etag;
        show();
      },
    });
    await refresh();
  } catch (error) {
    if (error.status === 409 && error.told.current) showConflict(error.told.current);
    else fail(error);
  }
  show();
}

form.addEventListener("submit", (event) => { event.preventDefault(); if (changed()) put(etag); });
box.addEventListener("input", () => { show(); draw(); });
document.getElementById("take-theirs").addEventListener("click", () => {
  base = theirs.text;
  etag = theirs.etag;
  box.value = base;
  conflict.hidden = true;
  show();
  draw();
  box.focus();
});
document.getElementById("keep-mine").addEventListener("click", () => { base = theirs.text; put(theirs.etag); });
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "s") { event.preventDefault(); form.requestSubmit(); }
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-restore]");
  if (!button) return;
  button.disabled = true;
  try {
    const told = await call("GET", path);
    await call("POST", `/pinned/${encodeURIComponent(name)}/restore${scope ? `?scope=${encodeURIComponent(scope)}` : ""}`, { body: { version: button.dataset.restore }, etag: told.etag });
    toast("The version before is back", { undo: async () => { const now = await call("GET", path); await call("PUT", path, { body: { text: told.text }, etag: now.etag }); await read(); } });
    await read();
    await refresh();
  } catch (error) { fail(error); }
  button.disabled = false;
});
// What was changed elsewhere while nothing was typed is simply shown; what a person types is never touched.
document.addEventListener("vade:change", () => { if (!changed()) read().catch(fail); });
addEventListener("beforeunload", (event) => { if (changed()) event.preventDefault(); });
keys({ e: () => box.focus() });
read().catch(fail);
