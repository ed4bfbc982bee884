// Light or dark, before anything is painted. The choice is no secret, so the browser may keep it.
"use strict";
try {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows what its system has.
}
