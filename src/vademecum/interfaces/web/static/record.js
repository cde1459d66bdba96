// One record: restore, verify, protect and archive.
import { call, door, fail, keys, refresh, toast, toastLater } from "./base.js";

export const record = document.getElementById("record");
const of = (id) => document.getElementById(id);
export const path = (more = "") => `/records/${encodeURIComponent(record.dataset.key)}${more}?scope=${record.dataset.scope}`;

// ---------------------------------------------------------------- what is done with it

/** Put a text back over what stands there now, whichever version that is. */
export async function put(whole, said) {
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
    const named = record.dataset.title;
    toastLater(`${named} is archived`, { path: path("/restore"), body: {}, told: `${named} is back` });
    location.href = `${door}/memories`;
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
keys({ "#": archive, 1: () => tab(1), 2: () => tab(2), 3: () => tab(3) });
