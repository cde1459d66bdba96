// Settings: change one in the user's own file, or go back to its default; both can be taken back.
import { call, enterAgain, fail, refresh, toast } from "./base.js";

async function put(name, value) {
  const told = await call("PUT", `/settings/${encodeURIComponent(name)}`, { body: { value } });
  return told.settings[name];
}

async function change(form, value) {
  const name = form.dataset.setting, box = form.elements.value;
  const before = form.querySelector("[data-unset]") ? box.defaultValue : null;
  try {
    await put(name, value);
    form.closest("details").open = false;
    form.closest("details").removeAttribute("data-keep"); // the fresh page has the new value
    toast(value === null ? `${name} has its default again` : `${name} = ${value}`, { undo: async () => { await put(name, before); return `${name} is as it was`; } });
    refresh();
  } catch (error) { if (await enterAgain(error)) change(form, value); else fail(error); }
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-setting]")) return;
  event.preventDefault();
  change(event.target, event.target.elements.value.value);
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-unset]");
  if (button) change(button.form, null);
});
