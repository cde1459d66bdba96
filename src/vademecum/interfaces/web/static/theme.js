// Before anything is painted: the theme that was chosen, if one was. A classic script, so that it does not wait.
{
  let chosen = null;
  try { chosen = localStorage.getItem("vade-theme"); } catch { /* storage is switched off: the system decides */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.documentElement.classList.add("js");
}
