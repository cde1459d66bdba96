// One record: edit in place with a preview, both versions on a conflict, restore, verify, protect and archive.
import { call, fail, keys, refresh, toast } from "./base.js";

const record = document.getElementById("record");
const of = (id) => document.getElementById(id);
const path = (more = "") => `/records/${encodeURIComponent(record.dataset.key)}${more}?scope=${record.dataset.scope}`;

// ---------------------------------------------------------------- edit in place

const editor = of("editor"), text = of("text");
let begun = "", etag = "", theirs = null;

async function edit() {
  if (!editor.hidden) { text.focus(); return; }
  try {
    const found = await call("GET", path("/text"));
    begun = text.value = found.text;
    etag = found.etag;
    editor.hidden = false;
    of("changed").hidden = of("conflict").hidden = true;
    text.focus();
    text.setSelectionRange(begun.length, begun.length);
    preview();
  } catch (error) { fail(error); }
}

function close() {
  editor.hidden = true;
  of("saving").textContent = "";
  const url = new URL(location.href);
  url.searchParams.delete("edit");
  history.replaceState(null, "", url);
  of("edit").focus();
}

let waiting = 0, looking = null;
async function preview() {
  looking?.abort();
  looking = new AbortController();
  try {
    const made = await call("POST", "/preview", { body: { text: text.value }, signal: looking.signal });
    const page = new DOMParser().parseFromString(`<div>${made.html}</div>`, "text/html");
    of("text-preview").replaceChildren(...document.importNode(page.body.firstChild, true).childNodes);
  } catch (error) { if (error.name !== "AbortError") of("text-preview").textContent = error.message; }
}
text.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(preview, 150); });

async function save() {
  if (text.value === begun) { close(); return; }
  of("saving").textContent = "Saving…";
  of("save").disabled = true;
  try {
    const before = begun;
    await call("PUT", path("/text"), { body: { text: text.value }, etag });
    begun = text.value;
    close();
    toast("Saved", { undo: () => put(before, "The text before is back") });
    refresh();
  } catch (error) {
    of("saving").textContent = "";
    if (error.status === 409 && error.told.current) conflict(error.told);
    else fail(error);
  } finally { of("save").disabled = false; }
}

function conflict(told) {
  theirs = told.current;
  of("theirs").textContent = theirs.text;
  of("between").replaceChildren(...lines(theirs.text, text.value));
  of("conflict").hidden = false;
  of("changed").hidden = true;
  of("keep-mine").focus();
}

/** What differs, line by line: the longest common run of lines, found the simple way, which is fast enough for a record. */
function lines(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let head = 0, tail = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const one = a.slice(head, a.length - tail), two = b.slice(head, b.length - tail), told = [];
  const put = (kind, line) => { const made = document.createElement("div"); made.className = kind; made.textContent = `${{ add: "+", del: "-" }[kind] ?? " "}${line}`; told.push(made); };
  a.slice(Math.max(0, head - 2), head).forEach((line) => put("", line));
  if (one.length * two.length > 400000) { one.forEach((line) => put("del", line)); two.forEach((line) => put("add", line)); }
  else {
    const long = Array.from({ length: one.length + 1 }, () => new Uint16Array(two.length + 1));
    for (let i = one.length - 1; i >= 0; i--) for (let j = two.length - 1; j >= 0; j--) long[i][j] = one[i] === two[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    let i = 0, j = 0;
    while (i < one.length || j < two.length) {
      if (i < one.length && j < two.length && one[i] === two[j]) { put("", one[i]); i++; j++; }
      else if (i < one.length && (j === two.length || long[i + 1][j] >= long[i][j + 1])) put("del", one[i++]);
      else put("add", two[j++]);
    }
  }
  a.slice(a.length - tail, a.length - tail + 2).forEach((line) => put("", line));
  return told;
}

of("keep-mine").addEventListener("click", () => { etag = theirs.etag; begun = theirs.text; of("conflict").hidden = true; save(); });
of("take-theirs").addEventListener("click", () => { text.value = begun = theirs.text; etag = theirs.etag; of("conflict").hidden = true; preview(); text.focus(); });
of("edit").addEventListener("click", edit);
of("save").addEventListener("click", save);
of("cancel").addEventListener("click", close);
editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); save(); }
});
document.addEventListener("vade:change", (event) => {
  if (!editor.hidden && of("saving").textContent === "" && event.detail.key === record.dataset.key) of("changed").hidden = false;
});
addEventListener("beforeunload", (event) => { if (!editor.hidden && text.value !== begun) event.preventDefault(); });

// ---------------------------------------------------------------- what is done with it

/** Put a text back over what stands there now, whichever version that is. */
async function put(whole, said) {
  const now = await call("GET", path("/text"));
  await call("PUT", path("/text"), { body: { text: whole }, etag: now.etag });
  return said;
}

async function restore(version) {
  try {
    const before = await call("GET", path("/text"));
    await call("POST", path("/restore"), { body: version ? { version } : {}, etag: before.etag });
    toast("Restored", { undo: () => put(before.text, "The text before is back") });
    refresh();
  } catch (error) { fail(error); }
}

async function archive() {
  try {
    const now = await call("GET", path("/text"));
    await call("DELETE", path(), { etag: now.etag });
    toast(`${record.dataset.key} archived`, { undo: async () => { await call("POST", path("/restore"), { body: {} }); return `${record.dataset.key} is back`; } });
  } catch (error) { fail(error); }
}

async function mark(what, on) {
  try {
    const now = await call("GET", path("/text"));
    await call("POST", path(`/${what}`), { body: { on }, etag: now.etag });
    const said = { verify: ["Verified", "No longer verified"], protect: ["Protected", "No longer protected"] }[what][on ? 0 : 1];
    toast(said, { undo: async () => { const later = await call("GET", path("/text")); await call("POST", path(`/${what}`), { body: { on: !on }, etag: later.etag }); return "Undone"; } });
    refresh();
  } catch (error) { fail(error); }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-restore]");
  if (button) restore(button.dataset.restore);
});
of("archive").addEventListener("click", archive);
for (const what of ["verify", "protect"]) of(what).addEventListener("click", () => mark(what, !!of(what).dataset.on));

const tab = (n) => document.querySelector(`[data-tab="${n}"]`)?.click();
keys({ e: edit, "#": archive, 1: () => tab(1), 2: () => tab(2), 3: () => tab(3) });
if (new URL(location.href).searchParams.has("edit")) edit();
