// One session: fold and unfold tools by key, go from page to page, and export it.
import { call, currentRow, fail, keys, toast } from "./base.js";

keys({
  o: () => {
    const folds = [...(currentRow()?.querySelectorAll("details.fold") ?? [])];
    const open = folds.some((each) => !each.open);
    for (const each of folds) each.open = open;
  },
  n: () => document.getElementById("older")?.click(),
  p: () => document.getElementById("newer")?.click(),
});

const KINDS = { html: "text/html", md: "text/markdown", jsonl: "application/jsonl" };
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-export]");
  if (!button) return;
  button.disabled = true;
  try {
    const { export: kind, session } = button.dataset;
    const told = await call("GET", `/sessions/${encodeURIComponent(session)}/export?kind=${kind}`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([told.text], { type: KINDS[kind] }));
    link.download = told.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    toast(`Exported as ${told.name}`);
  } catch (error) { fail(error); }
  button.disabled = false;
});

const target = location.hash && document.getElementById(location.hash.slice(1));
const current = document.querySelector(".turn[aria-current]");
(target || current)?.scrollIntoView({ block: "center" });
