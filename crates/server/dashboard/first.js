// What comes before the rest, in the page itself: light or dark before anything is painted, and all other scripts once
// something is. Asked for earlier, they take the browser's time before it has shown anything.
"use strict";
try {
  // The choice is no secret, so the browser may keep it.
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing shows what its system has.
}
let isBegun = false;
const begin = () => {
  if (isBegun) return;
  isBegun = true;
  document.head.append(document.getElementById("modules").content);
  import("/assets/app.js");
};
// Not before all of the page is there: a browser may paint a part of it.
addEventListener("DOMContentLoaded", () => {
  requestAnimationFrame(() => setTimeout(begin));
  // A page that nobody sees is not painted.
  setTimeout(begin, 500);
});
