// The door of this browser's session, kept where only pages of this very port can read it: an address
// without a door, such as a bookmark, finds its way by it.
const KEY = "vade-door";
const door = document.body.dataset.door;
if (door) {
  localStorage.setItem(KEY, door);
} else {
  const known = localStorage.getItem(KEY);
  localStorage.removeItem(KEY); // once: where it no longer opens, the next look shows this page
  if (known) location.replace(known + location.pathname + location.search + location.hash);
}
