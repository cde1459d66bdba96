// What every page runs: remembers its door for addresses that come without one.
const door = document.querySelector("meta[name=vade-door]").content;
if (door) localStorage.setItem("vade-door", door);
