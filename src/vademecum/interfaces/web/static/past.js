// The day as a slider: the same page, asked for again, put in place of what is shown.
import { fail, keys, morph } from "./base.js";

const slide = document.getElementById("slide");
const field = document.getElementById("at");
const past = document.getElementById("past");
const first = Date.parse(`${slide.dataset.first}T00:00:00Z`);
const DAY = 86400000;
const dayOf = (number) => new Date(first + number * DAY).toISOString().slice(0, 10);
let running = null, waiting = 0;

async function go(url) {
  running?.abort();
  running = new AbortController();
  past.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(url, { signal: running.signal, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("past");
    if (!answer.ok || !fresh) { location.href = url; return; }
    morph(past, document.importNode(fresh, true));
    field.value = past.querySelector("[data-day]").dataset.day;
    slide.value = page.getElementById("slide").value;
    slide.setAttribute("aria-valuetext", document.getElementById("past-day").textContent);
    history.replaceState(null, "", url);
    past.removeAttribute("aria-busy");
  } catch (error) { if (error.name !== "AbortError") { past.removeAttribute("aria-busy"); fail(error); } }
}

const to = (day) => { const url = new URL(location.href); url.search = new URLSearchParams({ at: day }).toString(); return url; };
function soon(day) { clearTimeout(waiting); waiting = setTimeout(() => go(to(day)), 90); }
function step(by) {
  slide.value = Number(slide.value) + by;
  soon(dayOf(Number(slide.value)));
}

slide.addEventListener("input", () => { field.value = dayOf(Number(slide.value)); soon(field.value); });
field.addEventListener("change", () => { if (field.value) soon(field.value); });
document.getElementById("travel").addEventListener("submit", (event) => { event.preventDefault(); if (field.value) go(to(field.value)); });
past.addEventListener("click", (event) => {
  const link = event.target.closest("[data-at]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.href);
});
keys({ "[": () => step(-1), "]": () => step(1) });
