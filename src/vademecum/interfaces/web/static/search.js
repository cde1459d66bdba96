// Search as you type: the same page, asked for again, put in place of what is shown.
import { fail, morph } from "./base.js";

const box = document.getElementById("find");
const results = document.getElementById("results");
let running = null, waiting = 0;

async function look() {
  running?.abort();
  running = new AbortController();
  const url = new URL(location.href);
  url.searchParams.delete("limit");
  if (box.value.trim()) url.searchParams.set("q", box.value); else url.search = "";
  results.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(url, { signal: running.signal, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("results");
    if (fresh) {
      morph(results, document.importNode(fresh, true));
      history.replaceState(null, "", url);
      document.title = page.title;
    }
    results.setAttribute("aria-busy", "false");
  } catch (error) { if (error.name !== "AbortError") { results.setAttribute("aria-busy", "false"); fail(error); } }
}

box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 110); });
box.form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); look(); });
box.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") { event.preventDefault(); document.querySelector("[data-row] [data-open]")?.focus(); }
});
if (!box.value) box.focus();
