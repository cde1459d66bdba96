// What every view shares: calls with the page's secret, toasts with undo, the keyboard, and changes made elsewhere.

const meta = (name) => document.querySelector(`meta[name="vade-${name}"]`)?.content ?? "";
export let door = meta("door"); // with the project (/@ID) that the page is of, if it is not the served one
let secret = meta("page");
try { if (door) localStorage.setItem("vade-door", door.split("/@")[0]); } catch { /* a bookmark then asks for a new link */ }

// On a phone a button opens the menu.
const menu = document.getElementById("menu"), opener = document.getElementById("menu-open");
opener.addEventListener("click", () => {
  const open = menu.classList.toggle("open");
  opener.setAttribute("aria-expanded", open);
  if (open) (menu.querySelector("a[aria-current]") ?? menu.querySelector("a"))?.focus();
});
menu.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && menu.classList.contains("open")) { opener.click(); opener.focus(); }
});

// ---------------------------------------------------------------- calls

export class Problem extends Error {
  constructor(status, told) {
    super([told.detail ?? told.title ?? "The server did not answer", told.hint].filter(Boolean).join(" · "));
    this.status = status;
    this.told = told;
  }
}

/** One call of the API: JSON in, JSON out; `etag` of the answer is kept beside it. */
export async function call(method, path, { body, etag, signal } = {}) {
  const headers = { "Vade-Page": secret, Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (etag) headers["If-Match"] = etag;
  let answer;
  try {
    answer = await fetch(`${door}/api/v1${path}`, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server is gone", hint: document.body.dataset.gone ?? "start it again with `vade serve`" });
  }
  const kind = answer.headers.get("Content-Type") ?? "";
  const told = kind.includes("json") ? await answer.json() : { detail: await answer.text() };
  if (!answer.ok || answer.status === 202) throw new Problem(answer.status, told); // 202: it waits for review
  return Object.assign(told ?? {}, { etag: answer.headers.get("ETag") ?? undefined });
}

// ---------------------------------------------------------------- toasts

const toasts = document.getElementById("toasts");
const shape = document.getElementById("parts-of-script").content.querySelector(".toast");
let newest = null;

/** Say what was done; with `undo`, `u` or the button takes it back. */
export function toast(text, { undo, link, tone = "good", stays = false } = {}) {
  const made = shape.cloneNode(true);
  made.dataset.tone = tone;
  made.querySelector("p").textContent = text;
  if (link) {
    const way = document.createElement("a");
    way.href = door + link.path;
    way.textContent = link.text;
    made.querySelector("p").append(" ", way);
  }
  const gone = () => { made.remove(); if (newest === made) newest = null; };
  const button = made.querySelector("[data-undo]");
  if (undo) {
    button.hidden = false;
    made.takeBack = async () => {
      if (button.disabled) return;
      button.disabled = true;
      try {
        const told = await undo();
        gone();
        toast(typeof told === "string" ? told : "Undone");
        refresh();
      } catch (error) { gone(); fail(error); }
    };
    button.addEventListener("click", made.takeBack);
    newest = made;
  }
  made.querySelector("[data-close]").addEventListener("click", gone);
  toasts.append(made);
  while (toasts.children.length > 4) toasts.firstElementChild.remove();
  if (stays) return made; // until the next page
  let left = setTimeout(gone, undo ? 20000 : tone === "bad" ? 12000 : 6000);
  made.addEventListener("pointerenter", () => clearTimeout(left));
  made.addEventListener("pointerleave", () => { left = setTimeout(gone, 6000); });
  return made;
}

export function fail(error) {
  if (error.name === "AbortError") return;
  toast(error instanceof Problem ? error.message : `Something went wrong on this page: ${error.message}`, { tone: "bad" });
  if (!(error instanceof Problem)) console.error(error);
}

/** Say something on the page that comes next, with an undo that stays until the page after it. */
export function toastLater(text, undo) {
  try { sessionStorage.setItem("vade-later", JSON.stringify({ text, undo })); } catch { /* it is done, and not said */ }
}

// ---------------------------------------------------------------- a session that has ended

const SESSION_ENDED = [401, 403];
/** Where a session has ended (the server was started again), let its new link go on with this very page. */
export async function enterAgain(error) {
  const dialog = document.getElementById("again");
  if (!dialog || !SESSION_ENDED.includes(error.status) || error.told?.kind) return false;
  const box = document.getElementById("again-link"), told = document.getElementById("again-told");
  told.textContent = "";
  box.value = "";
  while (await ask(dialog)) {
    try {
      await takeLink(box.value.trim());
      return true;
    } catch (wrong) { told.textContent = wrong.message; }
  }
  return false;
}

async function takeLink(link) {
  const url = new URL(link, location.href);
  if (url.origin !== location.origin) throw new Error(`that link is of ${url.origin}, this page of ${location.origin}`);
  const page = new DOMParser().parseFromString(await (await fetch(`/enter${url.search}`)).text(), "text/html");
  const prefix = page.body.dataset.door;
  if (!prefix) throw new Error("this link was used already, or is too old");
  const status = new DOMParser().parseFromString(await (await fetch(`${prefix}/status`, { headers: { Accept: "text/html" } })).text(), "text/html");
  const before = door.split("/@")[0];
  secret = status.querySelector("meta[name=vade-page]").content;
  door = prefix + door.slice(before.length);
  for (const name of ["href", "action"]) {
    for (const each of document.querySelectorAll(`[${name}^="${CSS.escape(before)}/"]`)) each.setAttribute(name, prefix + each.getAttribute(name).slice(before.length));
  }
  history.replaceState(null, "", prefix + location.pathname.slice(before.length) + location.search + location.hash);
  try { localStorage.setItem("vade-door", prefix); } catch { /* a bookmark then asks for a new link */ }
  follow();
}

/** Undo of a run or a review, by its name. */
export const undoRun = (run) => async () => {
  const told = await call("POST", `/runs/${encodeURIComponent(run)}/undo`, { body: {} });
  const left = (told.files ?? []).filter((each) => !each.done);
  return left.length ? `Undone, but for ${left.length}: ${left[0].why}` : "Undone";
};

/** Ask before something large; resolves to whether the person agreed. */
export function ask(dialog) {
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

// ---------------------------------------------------------------- keyboard

const bound = new Map();
/** Bind keys of a view: { e: () => … }; they rest while something is typed or a dialog is open. */
export function keys(more) { for (const [key, action] of Object.entries(more)) bound.set(key, action); }

const typing = (target) => target.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
const rowsOf = () => [...document.querySelectorAll("[data-row]")].filter((each) => each.offsetParent !== null);
export const currentRow = () => document.querySelector("[data-row].current") ?? document.activeElement?.closest?.("[data-row]");

export function moveTo(row) {
  document.querySelectorAll("[data-row].current").forEach((each) => each.classList.remove("current"));
  if (!row) return;
  row.classList.add("current");
  (row.querySelector("[data-open]") ?? row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

function step(by) {
  const rows = rowsOf();
  if (!rows.length) return;
  const at = rows.indexOf(currentRow());
  moveTo(rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)]);
}

keys({
  "/": () => { const box = document.getElementById("find"); box?.focus(); box?.select(); },
  "?": () => document.getElementById("help").showModal(),
  j: () => step(1),
  k: () => step(-1),
  u: () => (newest ? newest.takeBack() : toast("There is nothing to undo here", { tone: "" })),
});

let going = 0;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  const { target, key } = event;
  if (key === "Escape" && typing(target)) { target.blur(); return; }
  if (typing(target) || document.querySelector("dialog[open]")) return;
  if (going && Date.now() - going < 1500) {
    going = 0;
    const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (key === "g") { going = Date.now(); return; }
  if (key === "Enter" && target.matches("[data-row]")) { event.preventDefault(); target.querySelector("[data-open]")?.click(); return; }
  const action = bound.get(key);
  if (action) { event.preventDefault(); action(event); }
});
document.addEventListener("focusin", (event) => {
  const row = event.target.closest?.("[data-row]");
  document.querySelectorAll("[data-row].current").forEach((each) => { if (each !== row) each.classList.remove("current"); });
  row?.classList.add("current");
});

document.getElementById("help-open").addEventListener("click", () => document.getElementById("help").showModal());
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("vade-theme", root.dataset.theme); } catch { /* for this page only */ }
});

// ---------------------------------------------------------------- changes made elsewhere

const nameOf = (node) => (node.nodeType === 1 ? node.id || node.dataset.key || "" : "");

/** Make `old` look like `fresh` with as few changes as can be: what is the same stays, with its focus and its state. */
export function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return old;
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || nameOf(old) !== nameOf(fresh)) {
    old.replaceWith(fresh);
    return fresh;
  }
  if (old.nodeType !== 1) { old.nodeValue = fresh.nodeValue; return old; }
  if (old.hasAttribute("data-keep")) return old; // what a person is typing, or has open
  const own = old.classList.contains("current"), open = old.nodeName === "DETAILS" && old.open;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (own) old.classList.add("current");
  if (open) old.open = true;
  const named = new Map([...old.children].filter(nameOf).map((each) => [nameOf(each), each]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const known = nameOf(child) && named.get(nameOf(child));
    if (known) {
      if (known === at) at = at.nextSibling;
      else old.insertBefore(known, at);
      morph(known, child);
      named.delete(nameOf(child));
    } else if (at && !nameOf(at) && !nameOf(child) && at.nodeName === child.nodeName) {
      const next = at.nextSibling;
      morph(at, child);
      at = next;
    } else old.insertBefore(child, at);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
  return old;
}

let running = null;
const asked = new Set(); // what was asked for while another was under way
let dropped = false;
/** Fetch this page anew and put what changed into its living regions. */
export async function refresh(url = currentUrl()) {
  if (running) { asked.add(url); return running; }
  running = (async () => {
    try {
      const answer = await fetch(url, { headers: { Accept: "text/html" } });
      // Asked for again meanwhile: the answer may be older than what was just decided. Only one in a row is dropped.
      dropped = asked.has(url) && !dropped;
      if (!dropped && (answer.ok || answer.status === 404)) apply(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { state("off"); }
    running = null;
    for (const next of [...asked]) { asked.delete(next); await refresh(next); }
  })();
  return running;
}

let currentUrl = () => location.href;
/** A view whose address says less than it shows names the page to fetch instead. */
export function refreshFrom(url) { currentUrl = url; }

function apply(fresh) {
  const focused = document.activeElement?.closest?.("[data-row]")?.id;
  for (const region of document.querySelectorAll("[data-live]")) {
    const other = fresh.querySelector(`[data-live="${CSS.escape(region.dataset.live)}"]`);
    if (other) morph(region, document.importNode(other, true));
    else if (region.dataset.live.startsWith("count-")) region.remove();
  }
  if (focused && !document.activeElement?.closest?.("[data-row]")) moveTo(document.getElementById(focused));
  document.dispatchEvent(new CustomEvent("vade:fresh", { detail: fresh }));
}

function state(now) {
  const live = document.getElementById("live");
  live.dataset.state = now;
  live.firstElementChild.textContent = { on: "live", off: "reconnecting", wait: "connecting" }[now];
}

/** Follow what changes, for as long as the page is open; one in the background catches up when it is seen. */
function follow() {
  const events = new EventSource(`${door}/api/v1/events`);
  let lost = false;
  events.addEventListener("hello", () => { state("on"); if (lost) refresh(); lost = false; });
  events.addEventListener("error", () => { state("off"); lost = true; if (events.readyState === EventSource.CLOSED) events.close(); });
  events.addEventListener("change", (event) => {
    document.dispatchEvent(new CustomEvent("vade:change", { detail: JSON.parse(event.data) }));
    if (document.visibilityState === "visible") refresh();
    else stale = true;
  });
  addEventListener("pagehide", () => events.close());
}

let stale = false;
document.addEventListener("visibilitychange", () => { if (stale && document.visibilityState === "visible") { stale = false; refresh(); } });
if (secret) follow();

try {
  const later = JSON.parse(sessionStorage.getItem("vade-later") ?? "null");
  sessionStorage.removeItem("vade-later");
  if (later) toast(later.text, { stays: true, undo: later.undo && (async () => { await call("POST", later.undo.path, { body: later.undo.body, etag: later.undo.etag }); return later.undo.told; }) });
} catch { /* without storage nothing was to be said */ }
