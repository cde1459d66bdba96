// The hub's page: edit, settle, verify and revoke; every change is sent with the page's secret.
import { call, fail, refresh, toast } from "./base.js";

const about = (item) => ({
  stream: item.closest("[data-stream]").dataset.stream,
  doc: item.closest("[data-doc]").dataset.doc,
  entry: item.dataset.entry,
  was: item.dataset.was,
});

async function change(path, body, told, item) {
  item?.classList.add("deciding");
  try {
    await call("POST", path, { body });
    toast(told);
    await refresh();
    return true;
  } catch (error) {
    fail(error);
    item?.removeAttribute("data-keep");
    if (error.status === 409) await refresh(); // by now it says something else
    return false;
  } finally { item?.classList.remove("deciding"); }
}

/** Open or close the editor of an item; what was `typed` before stays, beside what the item says now. */
function edit(item, open, typed = false) {
  const form = item.querySelector("[data-editing]"), shown = item.querySelector("[data-shown]"), buttons = item.querySelector("[data-buttons]");
  if (open && !typed) form.reset();
  form.hidden = !open;
  if (shown) shown.hidden = open && !typed;
  buttons.hidden = open;
  item.toggleAttribute("data-keep", open); // what is typed stays while others change the page
  if (open) form.elements.text.focus();
}

async function leave() {
  try {
    await call("POST", "/leave", { body: {} });
    try { localStorage.removeItem("vade-door"); } catch { /* nothing was kept */ }
    location.assign("/");
  } catch (error) { fail(error); }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const item = button.closest("[data-entry]"), { dataset } = button;
  if (button.id === "leave") leave();
  else if ("edit" in dataset) edit(item, true);
  else if ("cancel" in dataset) edit(item, false);
  else if ("remove" in dataset) change("/entries", { ...about(item), text: "" }, "Removed, for everybody after their next sync", item);
  else if (dataset.vouch) change("/vouches", { ...about(item), yes: dataset.vouch === "yes" }, dataset.vouch === "yes" ? "Verified" : "Withdrawn", item);
  else if (dataset.keepVersion) change("/conflicts", { ...about(item), keep: dataset.keepVersion }, "Decided", item);
  else if (dataset.twoPerson) change("/rules", { two_person: dataset.twoPerson === "on" }, "Rule changed");
  else if (dataset.revoke) change("/revoke", { id: dataset.revoke }, "Revoked");
});

document.addEventListener("submit", async (event) => {
  const form = event.target, item = form.closest("[data-entry]");
  if (form.id === "add") {
    event.preventDefault();
    const { stream, doc } = form.dataset, box = form.elements.text;
    if (box.value.trim() && await change("/entries", { stream, doc, entry: "", was: "", text: box.value }, "Added")) box.value = "";
  } else if (item && form.matches("[data-editing]")) {
    event.preventDefault();
    const settles = "conflict" in item.dataset, text = form.elements.text.value;
    item.removeAttribute("data-keep");
    const done = await change(settles ? "/conflicts" : "/entries", { ...about(item), ...(settles ? { keep: "" } : {}), text }, "Saved", item);
    if (!done && item.isConnected) edit(item, true, true);
  }
});
