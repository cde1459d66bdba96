// Edit a record in place: as fields or as the whole file, with a preview; a conflict shows both versions, and
// what was typed is kept whatever happens to the record, to the server or to this page.
import { call, enterAgain, fail, keys, refresh, toast } from "./base.js";
import { openNew } from "./new.js";
import { path, put, record } from "./record.js";

const of = (id) => document.getElementById(id);
const editor = of("editor"), text = of("text");
const draftName = `vade-edit-${record.dataset.id}`;
let begun = "", etag = "", theirs = null; // the file as it was read
let base = "", shown = null; // the file that the fields were read from, and the fields
let asFile = false;

// ---------------------------------------------------------------- what is typed

const areas = () => [...of("field-texts").querySelectorAll("textarea")];
const tagsOf = (words) => words.split(/[\s,]+/).map((each) => each.replace(/^#/, "")).filter(Boolean);

/** The fields that differ from those that were read; null where none does. */
function changes() {
  const made = {};
  if (of("field-title").value.trim() !== shown.title) made.title = of("field-title").value.trim();
  if (of("field-type").value !== shown.type) made.type = of("field-type").value;
  const tags = tagsOf(of("field-tags").value);
  if (tags.join(" ") !== shown.tags.join(" ")) made.tags = tags;
  const entries = areas().map((area) => ({ index: Number(area.dataset.index), id: area.dataset.id || null, text: area.value }))
    .filter((each) => each.text !== shown.entries.find((one) => one.index === each.index)?.text);
  if (entries.length) made.entries = entries;
  return Object.keys(made).length ? made : null;
}

const isChanged = () => !editor.hidden && (asFile ? text.value !== begun : !!shown && (base !== begun || !!changes()));

/** The whole file with the fields that were typed put into `into`, which may be a newer version of it. */
async function whole(into = base) {
  if (asFile) return text.value;
  const made = changes();
  if (!made) return into;
  const empty = made.entries?.find((each) => !each.text.trim());
  if (empty) throw new Error("an entry cannot be empty; archive the record, or take the entry out of the whole file");
  return (await call("POST", "/fields", { body: { text: into, ...made } })).text;
}

function keep() {
  try {
    if (isChanged()) sessionStorage.setItem(draftName, JSON.stringify({ asFile, text: text.value, base, begun, etag, fields: shown && { title: of("field-title").value, type: of("field-type").value, tags: of("field-tags").value, texts: areas().map((each) => each.value) } }));
    else sessionStorage.removeItem(draftName);
  } catch { /* the form alone keeps it */ }
}

function drop() { try { sessionStorage.removeItem(draftName); } catch { /* none */ } }

// ---------------------------------------------------------------- the form

function fill(fields) {
  shown = fields;
  of("field-title").value = fields.title;
  const type = of("field-type");
  if (![...type.options].some((each) => each.value === fields.type)) type.add(new Option(fields.type, fields.type));
  type.value = fields.type;
  of("field-tags").value = fields.tags.join(", ");
  const living = fields.entries.filter((each) => each.live);
  of("field-texts").replaceChildren(...living.reverse().map((each, place) => {
    const made = document.createElement("div"), label = document.createElement("label"), area = document.createElement("textarea");
    made.className = "field";
    area.className = "textarea prose-input";
    area.id = `field-text-${each.index}`;
    area.spellcheck = true;
    Object.assign(area.dataset, { index: each.index, id: each.id ?? "" });
    area.value = each.text;
    label.htmlFor = area.id;
    label.textContent = living.length === 1 ? "Text" : place === 0 ? "Newest text" : `Text of ${(each.time ?? "an unknown day").slice(0, 16).replace("T", " ")}`;
    made.append(label, area);
    return made;
  }));
}

async function readFields(whole) {
  try {
    fill(await call("POST", "/fields", { body: { text: whole } }));
    base = whole;
    return true;
  } catch (error) {
    toast(`Only the whole file can be edited: ${error.message}`, { tone: "" });
    return false;
  }
}

function tab(file) {
  asFile = file;
  of("file").hidden = !file;
  of("fields").hidden = file;
  of("as-file").setAttribute("aria-selected", file);
  of("as-fields").setAttribute("aria-selected", !file);
  of("as-file").tabIndex = file ? 0 : -1;
  of("as-fields").tabIndex = file ? -1 : 0;
  preview();
}

/** Go to the other tab with what was typed in this one. */
async function turn(file) {
  if (file === asFile) return;
  try {
    if (file) text.value = await whole();
    else if (!(await readFields(text.value))) return;
    tab(file);
    keep();
    (file ? text : areas()[0])?.focus();
  } catch (error) { wrong(error); }
}

async function edit() {
  if (!editor.hidden) { focusText(); return; }
  try {
    const found = await call("GET", path("/text"));
    begun = text.value = found.text;
    etag = found.etag;
    editor.hidden = false;
    for (const each of ["changed", "conflict", "wrong"]) of(each).hidden = true;
    const fields = await readFields(found.text);
    of("as-fields").disabled = !fields;
    tab(!fields);
    await bringDraft();
    preview();
    focusText();
  } catch (error) { if (await enterAgain(error)) edit(); else fail(error); }
}

function focusText() {
  const area = asFile ? text : areas()[0];
  area?.focus();
  if (!asFile) area?.setSelectionRange(area.value.length, area.value.length);
}

/** What was typed before the page was loaded again. */
async function bringDraft() {
  let draft = null;
  try { draft = JSON.parse(sessionStorage.getItem(draftName) ?? "null"); } catch { /* none */ }
  if (!draft) return;
  ({ begun, etag } = draft); // so that a change meanwhile is found when it is saved
  if (draft.asFile) {
    text.value = draft.text;
    tab(true);
  } else if (await readFields(draft.base)) {
    of("field-title").value = draft.fields.title;
    of("field-type").value = draft.fields.type;
    of("field-tags").value = draft.fields.tags;
    areas().forEach((each, at) => { each.value = draft.fields.texts[at] ?? each.value; });
  }
  of("saving").textContent = "This is your text that was not saved yet";
}

function close() {
  editor.hidden = true;
  of("saving").textContent = "";
  const url = new URL(location.href);
  url.searchParams.delete("edit");
  history.replaceState(null, "", url);
  of("edit").focus();
}

// ---------------------------------------------------------------- preview

let waiting = 0, looking = null;
async function preview() {
  looking?.abort();
  looking = new AbortController();
  try {
    const words = asFile ? text.value : areas().map((each) => each.value).join("\n\n");
    const made = await call("POST", "/preview", { body: { text: words }, signal: looking.signal });
    const page = new DOMParser().parseFromString(`<div>${made.html}</div>`, "text/html");
    of("text-preview").replaceChildren(...document.importNode(page.body.firstChild, true).childNodes);
  } catch (error) { if (error.name !== "AbortError") of("text-preview").textContent = error.message; }
}
editor.addEventListener("input", () => { keep(); clearTimeout(waiting); waiting = setTimeout(preview, 150); });

// ---------------------------------------------------------------- save

async function save() {
  if (!isChanged()) { drop(); close(); return; }
  of("saving").textContent = "Saving…";
  of("save").disabled = true;
  of("wrong").hidden = true;
  try {
    const before = begun, mine = await whole();
    await call("PUT", path("/text"), { body: { text: mine }, etag });
    saved(before);
  } catch (error) {
    of("saving").textContent = "";
    if (error.status === 409 && error.told.current) await conflict(error.told);
    else if (await enterAgain(error)) { of("save").disabled = false; save(); } else wrong(error);
  } finally { of("save").disabled = false; }
}

function saved(before) {
  drop();
  of("conflict").hidden = true;
  close();
  toast("Saved", { undo: () => put(before, "The text before is back") });
  refresh();
}

/** Say why nothing was saved; the text stays in the form. */
function wrong(error) {
  const gone = error.status === 404;
  of("wrong").hidden = false;
  of("wrong").querySelector("p").textContent = gone
    ? "This record was archived or deleted meanwhile. Nothing was saved; your text is still here."
    : `${error.message} · Nothing was saved; your text is still here.`;
  of("bring-back").hidden = of("save-new").hidden = !gone;
  of("wrong").scrollIntoView({ block: "nearest" });
}

of("bring-back").addEventListener("click", async () => {
  try {
    await call("POST", path("/restore"), { body: {}, etag });
    etag = (await call("GET", path("/text"))).etag;
    of("wrong").hidden = true;
    save();
  } catch (error) { wrong(error); }
});
of("save-new").addEventListener("click", () => openNew({ text: asFile ? text.value : areas().map((each) => each.value).join("\n\n"), name: of("field-title").value }));

async function conflict(told) {
  theirs = told.current;
  of("theirs").textContent = theirs.text;
  of("between").replaceChildren(...lines(theirs.text, await mineOver().catch(() => told.yours)));
  of("conflict").hidden = false;
  of("changed").hidden = true;
  of("keep-mine").focus();
}

/** The fields that were typed, put into their version: what others changed in other fields stays. */
const mineOver = () => whole(base === begun ? theirs.text : base);

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

of("keep-mine").addEventListener("click", async () => {
  try {
    const mine = await mineOver().catch(() => whole());
    await call("PUT", path("/text"), { body: { text: mine }, etag: theirs.etag });
    saved(theirs.text);
  } catch (error) {
    if (error.status === 409 && error.told.current) await conflict(error.told);
    else if (!(await enterAgain(error))) wrong(error);
  }
});
of("take-theirs").addEventListener("click", async () => {
  text.value = begun = theirs.text;
  etag = theirs.etag;
  of("conflict").hidden = true;
  tab(!(await readFields(begun)) || asFile);
  drop();
  focusText();
});
of("edit").addEventListener("click", edit);
of("save").addEventListener("click", save);
of("cancel").addEventListener("click", () => { drop(); close(); });
of("as-file").addEventListener("click", () => turn(true));
of("as-fields").addEventListener("click", () => turn(false));
editor.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
  if (!["ArrowLeft", "ArrowRight"].includes(event.key) || of("as-fields").disabled) return;
  event.preventDefault();
  (asFile ? of("as-fields") : of("as-file")).focus();
  turn(!asFile);
});
editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); save(); }
});
document.addEventListener("vade:change", (event) => {
  if (!editor.hidden && of("saving").textContent === "" && event.detail.key === record.dataset.key) of("changed").hidden = false;
});
addEventListener("beforeunload", (event) => { if (isChanged()) event.preventDefault(); });
keys({ e: edit });
let draft = null;
try { draft = sessionStorage.getItem(draftName); } catch { /* none */ }
if (draft || new URL(location.href).searchParams.has("edit")) edit();
