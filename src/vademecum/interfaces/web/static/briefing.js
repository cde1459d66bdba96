// What my agent is told: the form asks at once when something is chosen, and the block can be copied.
import { toast, fail } from "./base.js";

const form = document.querySelector("form.ask");
form?.addEventListener("change", (event) => {
  if (event.target.matches("select, input[type=checkbox]")) form.requestSubmit();
});
form?.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData]) if (value === "" && name !== "without") event.formData.delete(name);
});
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent);
    toast("Copied");
  } catch (error) { fail(error); }
});
