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

// All that was heard in the session of an item is accepted together.
async function acceptSession(item) {
  const session = item?.dataset.session;
  if (!session) return;
  const same = items().filter((each) => each.dataset.session === session && !each.classList.contains("deciding"));
  same.forEach((each) => each.classList.add("deciding"));
  try {
    const told = await call("POST", "/review", { body: { ids: same.map((each) => each.dataset.id), yes: true } });
    const done = (told.decided ?? []).filter((each) => each.done).length;
    toast(`Yes to ${done} of this session`, { undo: told.run ? undoRun(told.run) : undefined });
  } catch (error) {
    fail(error);
  }
  same.forEach((each) => each.classList.remove("deciding"));
  refresh();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-decide]");
  if (button?.dataset.decide === "session") acceptSession(button.closest(".item"));
  else if (button) decide(button.closest(".item"), button.dataset.decide !== "no", button.dataset.decide === "both" ? "both" : "");
});
keys({
  y: () => decide(here(), true),
  n: () => decide(here(), false),
  b: () => here()?.querySelector("[data-decide=both]")?.click(),
  h: () => acceptSession(here()),
  e: () => here()?.querySelector("[data-edit]")?.click(),
});
