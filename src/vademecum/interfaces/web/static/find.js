// Search from every page: results below the field of the header while you type, and the palette (Ctrl-K).
import { call, door, fail } from "./base.js";
import { openNew } from "./new.js";

const palette = document.getElementById("palette");
const SCOPES = JSON.parse(palette.dataset.scopes);
const MOST = 8;

// ---------------------------------------------------------------- what is found

/** The rows for a question: records first as they rank, and each conversation once. */
async function look(words, signal) {
  const told = await call("GET", `/search?q=${encodeURIComponent(words)}&limit=${MOST}`, { signal });
  const seen = new Set(), rows = [];
  for (const each of told.results) {
    const session = each.source === "transcript" ? each.path.split("/").pop().replace(/\.jsonl$/, "") : "";
    const day = /journal\/(\d{4}-\d\d-\d\d)\.md$/.exec(each.path)?.[1];
    const path = session ? `/sessions/${encodeURIComponent(session)}?line=${each.startLine}`
      : each.key ? `/records/${encodeURIComponent(each.key)}?scope=${each.scope}`
        : day ? `/journal?day=${day}` : `/search?q=${encodeURIComponent(words)}`;
    const name = session || `${each.scope}/${each.key ?? each.path}`;
    if (seen.has(name)) continue;
    seen.add(name);
    rows.push({ path, icon: session ? "sessions" : each.key ? "memories" : "journal", text: day ? `Journal of ${day}` : each.title || each.key || each.path.split("/").pop(), more: each.snippet.replace(/\s+/g, " ").slice(0, 140), where: session ? "conversation" : SCOPES[each.scope] ?? each.scope });
  }
  return Object.assign(rows, { weak: told.match === "weak" });
}

const icons = document.querySelector("use").getAttribute("href").split("#")[0];
function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `${icons}#${name}`);
  svg.append(use);
  return svg;
}

function part(kind, text) {
  const made = document.createElement("span");
  made.className = kind;
  made.textContent = text;
  return made;
}

/** A list of options below a field: arrow keys choose, Enter takes, and the field keeps the focus. */
class Options {
  constructor(field, list) {
    this.field = field;
    this.list = list;
    this.rows = [];
    this.at = -1;
    list.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
    list.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.take(Number(row.dataset.at), event);
    });
  }

  show(rows, at = -1) {
    this.rows = rows;
    this.list.replaceChildren(...rows.map((row, index) => {
      const made = document.createElement("li");
      made.id = `${this.list.id}-${index}`;
      made.setAttribute("role", "option");
      made.setAttribute("aria-selected", "false");
      made.dataset.at = index;
      made.append(icon(row.icon), part("option-text", row.text));
      if (row.more) made.append(part("option-more", row.more));
      if (row.where) made.append(part("option-where", row.where));
      return made;
    }));
    this.choose(Math.min(at, rows.length - 1));
  }

  choose(at) {
    this.at = at;
    [...this.list.children].forEach((each, index) => each.setAttribute("aria-selected", index === at));
    const row = this.list.children[at];
    if (row) { this.field.setAttribute("aria-activedescendant", row.id); row.scrollIntoView({ block: "nearest" }); } else this.field.removeAttribute("aria-activedescendant");
  }

  /** Whether a key was for the list. */
  key(event) {
    const last = this.rows.length - 1;
    if (event.key === "ArrowDown" && last >= 0) this.choose(this.at >= last ? 0 : this.at + 1);
    else if (event.key === "ArrowUp" && last >= 0) this.choose(this.at <= 0 ? last : this.at - 1);
    else if (event.key === "Enter" && this.at >= 0) this.take(this.at, event);
    else return false;
    event.preventDefault();
    return true;
  }

  take(at, event) {
    const row = this.rows[at];
    if (!row) return;
    if (row.run) row.run();
    else if (event.ctrlKey || event.metaKey) window.open(door + row.path);
    else location.href = row.href ?? door + row.path;
  }
}

let asked = null;
/** Rows for what is typed now; null where something newer was typed meanwhile. */
async function newest(words) {
  asked?.abort();
  asked = new AbortController();
  try {
    return await look(words, asked.signal);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
    return null;
  }
}

// ---------------------------------------------------------------- below the field of the header

const field = document.getElementById("find"), found = document.getElementById("found");
if (field && found && document.body.dataset.view !== "/search") {
  const list = document.createElement("ul"), told = part("small muted found-told", "");
  list.id = "found-list";
  list.className = "options";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Results");
  told.setAttribute("role", "status");
  found.append(list, told);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "found-list", "aria-autocomplete": "list" })) field.setAttribute(name, value);
  const options = new Options(field, list);
  const open = (on) => { found.hidden = !on; field.setAttribute("aria-expanded", on); };
  let waiting = 0;
  const search = async () => {
    const words = field.value.trim();
    if (!words) { asked?.abort(); open(false); return; }
    const rows = await newest(words);
    if (!rows || words !== field.value.trim() || document.activeElement !== field) return;
    options.show(rows);
    told.textContent = !rows.length ? "Nothing found" : rows.weak ? "Only weak matches" : "Enter shows all results";
    open(true);
  };
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 60); });
  field.addEventListener("focus", search);
  field.addEventListener("blur", () => open(false));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !found.hidden) { event.preventDefault(); open(false); } else if (!found.hidden) options.key(event);
  });
}

// ---------------------------------------------------------------- the palette

const box = document.getElementById("palette-input"), said = document.getElementById("palette-told");
const listed = new Options(box, document.getElementById("palette-list"));
let projects = null; // the list of projects, once it was asked for
let mode = "";

const COMMANDS = [
  { icon: "plus", text: "New memory", where: "n", run: () => { palette.close(); openNew(); } },
  { icon: "projects", text: "Switch project…", words: "project", run: () => toProjects() },
  { icon: "check", text: "Run check", path: "/check" },
];
for (const link of document.querySelectorAll(".side li a[href]")) {
  COMMANDS.push({ icon: link.querySelector("use").getAttribute("href").split("#")[1], text: link.textContent.trim(), where: link.dataset.go ? `g ${link.dataset.go}` : "", href: link.href });
}

async function toProjects() {
  mode = "projects";
  box.value = "";
  box.placeholder = "Which project?";
  try {
    projects ??= (await call("GET", "/projects")).projects.filter((each) => each.present);
  } catch (error) { fail(error); }
  draw([]);
}

const VIEWS = new Set([...document.querySelectorAll(".side li a")].map((link) => new URL(link.href).pathname.slice(door.length)));
const everywhere = (words) => (words ? [{ icon: "projects", text: `Search all projects for “${words.slice(0, 60)}”`, path: `/search?all=yes&q=${encodeURIComponent(words)}` }] : []);

function commands(words) {
  const fits = (text) => text.toLowerCase().includes(words.toLowerCase());
  if (mode === "projects") {
    return (projects ?? []).map((each) => ({ icon: "projects", text: each.name, more: each.path ?? "", where: each.records === 1 ? "1 record" : `${each.records} records`, path: `${VIEWS.has(document.body.dataset.view) ? document.body.dataset.view : "/memories"}?project=${encodeURIComponent(each.id)}` })).filter((each) => fits(`${each.text} ${each.more}`));
  }
  return COMMANDS.filter((each) => fits(`${each.text} ${each.words ?? ""}`));
}

function draw(rows) {
  const words = box.value.trim();
  const own = commands(words);
  const more = words && mode === "" ? [{ icon: "plus", text: `Save “${words.slice(0, 60)}” as a memory`, run: () => { palette.close(); openNew({ text: words }); } }, ...everywhere(words)] : [];
  listed.show(words ? [...own.slice(0, mode ? 20 : 3), ...rows, ...more] : own, own.length || rows.length ? 0 : -1);
  said.textContent = listed.rows.length ? "" : "Nothing found";
}

export function openPalette() {
  mode = "";
  box.value = "";
  box.placeholder = "Search, or type a command";
  if (!palette.open) palette.showModal();
  draw([]);
  box.focus();
}

let delay = 0;
box.addEventListener("input", () => {
  clearTimeout(delay);
  draw([]);
  const words = box.value.trim();
  if (words && mode === "") delay = setTimeout(async () => { const rows = await newest(words); if (rows && words === box.value.trim() && palette.open) draw(rows); }, 60);
});
box.addEventListener("keydown", (event) => {
  const handled = listed.key(event);
  if (!handled && event.key === "Enter" && box.value.trim()) { event.preventDefault(); location.href = `${door}/search?q=${encodeURIComponent(box.value.trim())}`; }
});
palette.addEventListener("click", (event) => { if (event.target === palette) palette.close(); });
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    if (document.querySelector("dialog[open]:not(#palette)")) return;
    event.preventDefault();
    if (palette.open) palette.close(); else openPalette();
  }
});
for (const each of document.querySelectorAll("[data-projects]")) {
  each.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openPalette();
    toProjects();
  });
}
