// The journal: write a note of today, and turn the months.
import { call, fail, keys, refresh, toast } from "./base.js";

const form = document.getElementById("note"), box = document.getElementById("note-text");
keys({
  n: () => box.focus(),
  "[": () => document.getElementById("earlier").click(),
  "]": () => document.getElementById("later").click(),
});
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = box.value.trim(), button = form.querySelector("[type=submit]");
  if (!text || button.disabled) return;
  button.disabled = true;
  try {
    await call("POST", "/journal", { body: { text, scope: form.elements.scope.value } });
    box.value = "";
    toast("Added to today's journal");
    const today = new URL(location.href);
    if (today.search) location.assign(today.pathname);
    else await refresh();
  } catch (error) { fail(error); }
  button.disabled = false;
});
