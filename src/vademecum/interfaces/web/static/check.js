// Check and tidy: apply a pass, and take a run back.
import { ask, call, fail, refresh, refreshFrom, toast, undoRun } from "./base.js";

// What a clean-up would do is found by comparing all records: changes made elsewhere do not ask for it again.
const tidy = document.querySelector("[data-live=tidy]");
if (tidy) refreshFrom(() => `${location.pathname}?show=runs`);
const again = () => refresh(location.href);

document.addEventListener("click", async (event) => {
  const apply = event.target.closest("[data-apply]"), undo = event.target.closest("[data-undo-run]");
  const button = apply ?? undo;
  if (!button || button.disabled) return;
  button.disabled = true;
  try {
    if (apply) await applyPass(apply);
    else {
      toast(await undoRun(undo.dataset.undoRun)());
      await refresh();
    }
  } catch (error) { fail(error); }
  button.disabled = false;
});

async function applyPass(button) {
  const { apply: pass, count } = button.dataset, large = "large" in button.dataset;
  if (large) {
    document.getElementById("sure-title").textContent = `Apply all ${count}?`;
    document.getElementById("sure-text").textContent = "This is much at once. It can be undone as a whole.";
    if (!(await ask(document.getElementById("sure")))) return;
  }
  let told;
  try {
    told = await call("POST", "/runs", { body: { what: pass, apply: true, large }, etag: button.dataset.etag });
  } catch (error) {
    if (error.status === 409) await again(); // what is proposed now
    throw error;
  }
  const done = (told.files ?? []).filter((each) => each.done).length, left = (told.files ?? []).filter((each) => !each.done);
  const said = left.length ? `, but for ${left.length}: ${left[0].why}` : "";
  if (told.run) toast(`Changed ${done} file${done === 1 ? "" : "s"}${said}`, { undo: async () => { const said = await undoRun(told.run)(); await again(); return said; } });
  else toast(`Nothing was changed${said}`, { tone: "" });
  await again();
}
