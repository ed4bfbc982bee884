// Inline bootstrap: applies the theme before the first paint, and loads all other scripts after it. Loading them
// earlier would delay the first paint.
"use strict";
try {
  // The theme is not a secret, so it may be in browser storage.
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage the theme of the system is used.
}
let isBegun = false;
const begin = () => {
  if (isBegun) return;
  isBegun = true;
  document.head.append(document.getElementById("modules").content);
  import("/assets/app.js");
};
// Only after the whole page has arrived: browsers may paint a part of it.
addEventListener("DOMContentLoaded", () => {
  requestAnimationFrame(() => setTimeout(begin));
  // Hidden pages are not painted.
  setTimeout(begin, 500);
});
