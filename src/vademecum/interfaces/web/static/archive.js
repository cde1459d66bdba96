// Bring an archived record back: from the list of the archive, and from the record's own address.
import { call, door, fail, refresh, toast, toastLater } from "./base.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-bring-back]");
  if (!button) return;
  const { bringBack: key, scope, version, title, then } = button.dataset;
  const path = `/records/${encodeURIComponent(key)}`;
  button.disabled = true;
  try {
    const back = await call("POST", `${path}/restore?scope=${scope}`, { body: { version } });
    const now = `/records/${encodeURIComponent(back.id ?? key)}?scope=${back.scope ?? scope}`;
    if (then !== undefined) {
      toastLater(`${title} is restored`);
      location.href = door + now;
      return;
    }
    toast(`${title} is restored`, {
      stays: true,
      link: { path: now, text: "Open" },
      undo: async () => {
        const text = await call("GET", `${path}/text?scope=${scope}`);
        await call("DELETE", `${path}?scope=${scope}`, { etag: text.etag });
        return `${title} is archived again`;
      },
    });
    refresh();
  } catch (error) { button.disabled = false; fail(error); }
});
