// Memories: rows that load as you scroll.
import { fail, refreshFrom } from "./base.js";

const list = document.querySelector("ol.rows");
const more = document.getElementById("more");

// ---------------------------------------------------------------- more rows, as they come into sight

let loading = false;
async function load() {
  const link = more?.querySelector("a");
  if (!link || more.hidden || loading) return;
  loading = true;
  try {
    const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const row of page.querySelectorAll("ol.rows > [data-row]")) if (!document.getElementById(row.id)) list.append(row);
    const next = page.querySelector("#more a");
    more.hidden = page.getElementById("more")?.hidden ?? true;
    if (next) link.href = next.href;
  } catch (error) { fail(error); } finally { loading = false; }
}
if (more && list) {
  new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) load(); }, { rootMargin: "600px" }).observe(more);
  more.addEventListener("click", (event) => { if (event.target.closest("a")) { event.preventDefault(); load(); } });
  // What changed elsewhere is asked for as far as rows are shown, up to what one page may hold.
  refreshFrom(() => {
    const url = new URL(location.href);
    if (list.children.length > 60) url.searchParams.set("limit", Math.min(list.children.length, 500));
    return url.href;
  });
}

