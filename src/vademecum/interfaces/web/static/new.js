// A new memory from any page: what is typed stays until it is saved, also over a reload or a closed dialog.
import { call, enterAgain, keys, refresh, toast, undoRun } from "./base.js";

const dialog = document.getElementById("new");
const of = (id) => document.getElementById(`new-${id}`);
const FIELDS = ["text", "name", "type", "scope", "tags"];
const DRAFT = "vade-new";
let into = null; // the record that gets the text as another entry

function keep() {
  const draft = Object.fromEntries(FIELDS.map((each) => [each, of(each).value]));
  try {
    if (draft.text || draft.name || draft.tags) sessionStorage.setItem(DRAFT, JSON.stringify({ ...draft, into }));
    else sessionStorage.removeItem(DRAFT);
  } catch { /* without storage the text is kept by the form alone */ }
}

function show(draft) {
  into = draft.into ?? null;
  for (const each of FIELDS) if (draft[each] !== undefined) of(each).value = draft[each];
  of("title").textContent = into ? `Add to ${into.title}` : "New memory";
  for (const each of ["name", "type", "scope", "tags"]) of(each).closest(".field").hidden = !!into;
}

/** Open the dialog: with the text that was not saved yet, or for another entry of a record. */
export function openNew(given = {}) {
  let draft = {};
  try { draft = JSON.parse(sessionStorage.getItem(DRAFT) ?? "{}"); } catch { /* none */ }
  const text = given.text || draft.text || of("text").value;
  show({ ...draft, into: null, ...given, text });
  of("told").textContent = draft.text ? "Your text that was not saved yet" : "";
  of("problem").hidden = true;
  keep();
  dialog.showModal();
  of("text").focus();
}

const OUTCOMES = {
  created: "Saved as", appended: "Added to", replaced: "Replaced the last entry of", confirmed: "Known already; confirmed",
  consolidated: "Merged into", waiting: "Saved next to your own text in",
};

async function save(event) {
  event?.preventDefault();
  const words = of("text").value;
  if (!words.trim()) { of("text").focus(); return; }
  const button = dialog.querySelector("[type=submit]");
  button.disabled = true;
  of("told").textContent = "Saving…";
  try {
    const body = { text: words };
    if (!into) {
      body.scope = of("scope").value;
      if (of("name").value.trim()) body.title = of("name").value.trim();
      if (of("type").value) body.type = of("type").value;
      body.tags = of("tags").value.split(/[\s,]+/).map((each) => each.replace(/^#/, "")).filter(Boolean);
    }
    const path = into ? `/records/${encodeURIComponent(into.key)}/entries?scope=${into.scope}` : "/records";
    const stored = await call("POST", path, { body });
    const [named, number] = [into?.title || body.title || stored.key, stored.num ? ` (#${stored.num})` : ""];
    for (const each of ["text", "name", "tags"]) of(each).value = "";
    keep();
    dialog.close();
    tell(stored, named + number);
    refresh();
  } catch (error) {
    problem(error);
  } finally {
    button.disabled = false;
    if (of("told").textContent === "Saving…") of("told").textContent = "";
  }
}

function tell(stored, named) {
  const merged = stored.merged ? `; it says the same as ${stored.merged.key}, whose text is superseded` : "";
  toast(`${OUTCOMES[stored.outcome] ?? "Saved:"} ${named}${merged}`, { link: { path: `/records/${encodeURIComponent(stored.id ?? stored.key)}?scope=${stored.scope}`, text: "Open" } });
  if (stored.secrets?.length) toast(`It holds what looks like a secret: ${stored.secrets.join(", ")}`, { tone: "bad" });
  if (stored.swept) toast(stored.swept.message ?? "Old records were archived", { undo: stored.swept.run ? undoRun(stored.swept.run) : undefined });
  if (stored.approval) toast("Replacing your own text is pending: decide in Review", { tone: "" });
}

async function problem(error) {
  if (await enterAgain(error)) { save(); return; }
  of("problem").hidden = false;
  of("problem").querySelector("div").textContent = `${error.message} · Nothing was saved; your text is still here.`;
  of("text").focus();
}

of("form").addEventListener("submit", save);
dialog.addEventListener("input", keep);
dialog.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(event);
});
for (const each of ["close", "cancel"]) of(each).addEventListener("click", () => dialog.close());
document.getElementById("new-open").addEventListener("click", () => openNew());
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-add-to]");
  if (button) openNew({ into: { key: button.dataset.addTo, scope: button.dataset.scope, title: button.dataset.title } });
});
keys({ n: () => openNew() });
if (new URL(location.href).searchParams.has("new")) openNew();
