// Memories: rows that load as you scroll, a selection, and what is done with it after a preview.
import { ask, call, currentRow, fail, keys, refresh, refreshFrom, toast, undoRun } from "./base.js";

const list = document.querySelector("ol.rows");
const more = document.getElementById("more");
const bulk = document.getElementById("bulk");

// ---------------------------------------------------------------- more rows, as they come into sight

let loading = false;
async function load() {
  const link = more?.querySelector("a");
  if (!link || more.hidden || loading) return;
  loading = true;
  try {
    const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const row of page.querySelectorAll("ol.rows > [data-row]")) if (!document.getElementById(row.id)) list.append(row);
    const next = page.querySelector("#more a");
    more.hidden = page.getElementById("more")?.hidden ?? true;
    if (next) link.href = next.href;
  } catch (error) { fail(error); } finally { loading = false; }
}
if (more && list) {
  new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) load(); }, { rootMargin: "600px" }).observe(more);
  more.addEventListener("click", (event) => { if (event.target.closest("a")) { event.preventDefault(); load(); } });
  // What changed elsewhere is asked for as far as rows are shown, up to what one page may hold.
  refreshFrom(() => {
    const url = new URL(location.href);
    if (list.children.length > 60) url.searchParams.set("limit", Math.min(list.children.length, 500));
    return url.href;
  });
}

// ---------------------------------------------------------------- selection

const boxOf = (row) => row.querySelector("input[type=checkbox]");
const picked = () => [...document.querySelectorAll("[data-row]")].filter((row) => boxOf(row)?.checked);
let last = null;

function show() {
  const rows = picked();
  document.querySelectorAll("[data-row]").forEach((row) => row.classList.toggle("picked", !!boxOf(row)?.checked));
  bulk.hidden = !rows.length;
  document.getElementById("picked").textContent = rows.length;
}

function pick(row, range) {
  const rows = [...document.querySelectorAll("[data-row]")];
  const on = !boxOf(row).checked;
  const from = range && last ? rows.indexOf(last) : rows.indexOf(row), to = rows.indexOf(row);
  for (const each of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) boxOf(each).checked = range ? true : on;
  last = row;
  show();
}

list?.addEventListener("change", (event) => { last = event.target.closest("[data-row]"); show(); });
document.addEventListener("vade:fresh", () => { if (bulk) show(); });
const here = () => currentRow() ?? document.querySelector("[data-row]");
keys({
  x: () => here() && pick(here(), false),
  X: () => here() && pick(here(), true),
  e: () => { const link = here()?.querySelector("[data-open]"); if (link) location.href = `${link.href}&edit=1`; },
  "#": () => act("archive"),
  Escape: () => { picked().forEach((row) => { boxOf(row).checked = false; }); if (bulk) show(); },
});

// ---------------------------------------------------------------- what is done with it

const words = (id) => document.getElementById(id).value.split(/[\s,]+/).map((each) => each.replace(/^#/, "")).filter(Boolean);
const ACTIONS = {
  archive: { title: "Archive", yes: "Archive", lead: "They leave search and what agents are told. Undo restores them, byte for byte.", done: "archived" },
  tag: { title: "Change tags of", yes: "Change tags", lead: "Tags are added and removed as one step.", done: "tagged" },
  move: { title: "Move", yes: "Move", lead: "They are kept, whole, in the other scope.", done: "moved" },
};

async function act(what) {
  let rows = picked();
  if (!rows.length && currentRow()) rows = [currentRow()];
  if (!rows.length) { toast("Select records first, with x", { tone: "" }); return; }
  const action = ACTIONS[what], dialog = document.getElementById("preview");
  const counted = rows.length === 1 ? "1 record" : `${rows.length.toLocaleString()} records`;
  document.getElementById("preview-title").textContent = `${action.title} ${counted}?`;
  document.getElementById("preview-lead").textContent = action.lead;
  document.getElementById("preview-yes").textContent = action.yes;
  dialog.querySelectorAll("[data-for]").forEach((each) => { each.hidden = each.dataset.for !== what; });
  const items = rows.slice(0, 20).map((row) => {
    const item = document.createElement("li");
    item.textContent = `${row.dataset.name} (${row.dataset.scope}): ${row.querySelector(".row-text").textContent.slice(0, 90)}`;
    return item;
  });
  if (rows.length > 20) { const item = document.createElement("li"); item.textContent = `… and ${rows.length - 20} more`; items.push(item); }
  document.getElementById("preview-list").replaceChildren(...items);
  if (!(await ask(dialog))) return;
  try {
    const body = { action: what === "archive" ? "forget" : what, keys: rows.map((row) => row.dataset.id) };
    if (what === "tag") Object.assign(body, { add: words("bulk-add"), remove: words("bulk-remove") });
    if (what === "move") body.to = document.getElementById("bulk-scope").value;
    const told = await call("POST", "/bulk", { body });
    rows.forEach((row) => { boxOf(row).checked = false; });
    show();
    const left = (told.told ?? []).filter((each) => !each.done);
    if (left.length) toast(`${left[0].path}: ${left[0].why}`, { tone: "bad" });
    toast(`${told.records.length === 1 ? "1 record" : `${told.records.length} records`} ${action.done}`, { undo: told.run ? undoRun(told.run) : undefined });
    refresh();
  } catch (error) { fail(error); }
}
bulk?.addEventListener("click", (event) => {
  const what = event.target.closest("[data-do]")?.dataset.do;
  if (what === "none") { picked().forEach((row) => { boxOf(row).checked = false; }); show(); } else if (what) act(what);
});
