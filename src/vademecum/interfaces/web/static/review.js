// Review: yes, no or edit, by button or by y, n and e; each decision can be taken back.
import { Problem, call, currentRow, fail, keys, moveTo, refresh, toast, undoRun } from "./base.js";

const items = () => [...document.querySelectorAll(".item")];
const here = () => currentRow() ?? items()[0];

async function decide(item, yes, keep) {
  if (!item || item.classList.contains("deciding")) return;
  item.classList.add("deciding");
  const list = items(), next = list[list.indexOf(item) + 1] ?? list[list.indexOf(item) - 1];
  const name = item.querySelector("h2").textContent;
  try {
    const told = await call("POST", "/review", { body: { ids: [item.dataset.id], yes, ...(keep && { keep }) } });
    const [result] = told.decided ?? [];
    if (result && !result.done) throw new Problem(409, { detail: `${name}: ${result.why}` });
    toast(`${yes ? "Yes" : "No"} to ${name}`, { undo: told.run ? undoRun(told.run) : undefined });
    item.remove();
    if (next) moveTo(next);
  } catch (error) {
    item.classList.remove("deciding");
    fail(error);
  }
  refresh();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-decide]");
  if (button) decide(button.closest(".item"), button.dataset.decide !== "no", button.dataset.decide === "both" ? "both" : "");
});
keys({
  y: () => decide(here(), true),
  n: () => decide(here(), false),
  b: () => here()?.querySelector("[data-decide=both]")?.click(),
  e: () => here()?.querySelector("[data-edit]")?.click(),
});
