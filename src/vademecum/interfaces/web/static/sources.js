// Attach and detach folders; a detached one comes back from the note that tells of it.
import { call, fail, refresh, toast } from "./base.js";

const form = document.getElementById("attach");

const attach = (body) => call("POST", "/sources", { body });
const detach = (name) => call("POST", `/sources/${encodeURIComponent(name)}/remove`, { body: {} });

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = new FormData(form);
  const button = form.querySelector("[type=submit]");
  button.disabled = true;
  try {
    const made = await attach({ path: given.get("path"), name: given.get("name") || null, scope: given.get("scope"), inject: given.has("inject") });
    form.reset();
    toast(`Attached ${made.name}: ${made.files} Markdown file${made.files === 1 ? "" : "s"}`, { undo: () => detach(made.name) });
    await refresh();
  } catch (error) { fail(error); } finally { button.disabled = false; }
});

document.addEventListener("click", async (event) => {
  const row = event.target.closest("[data-detach]")?.closest("[data-row]");
  if (!row) return;
  const { name, path, scope, inject } = row.dataset;
  try {
    await detach(name);
    toast(`Detached ${name}; its files are as they were`, { undo: () => attach({ path, name, scope, inject: Boolean(inject) }) });
    await refresh();
  } catch (error) { fail(error); }
});
