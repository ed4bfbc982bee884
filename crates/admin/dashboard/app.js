// Application shell: shows one view at a time, selected by the fragment of the URL.

import { hasToken, onUnauthorised, useToken } from "./api.js";
import * as config from "./config.js";
import * as decisions from "./decisions.js";
import { el, set, show, setText } from "./dom.js";
import * as explain from "./explain.js";
import { clock, keepTime, value } from "./format.js";
import { record } from "./history.js";
import * as keys from "./keys.js";
import { connect, live, on } from "./live.js";
import { problems } from "./problems.js";
import * as mesh from "./mesh.js";
import * as rules from "./rules.js";
import { notAllowed, tokenForm } from "./token.js";
import * as traffic from "./traffic.js";
import * as whatif from "./whatif.js";

const VIEWS = { overview: traffic, keys, decisions, mesh, rules, explain, "what-if": whatif, configuration: config };
const content = document.getElementById("content");
const views = document.getElementById("views");
const menu = document.getElementById("menu");
let leave = null;
let current = null;

const isShut = () => live.link === "unauthorised" || live.link === "forbidden";

function route(isMoved) {
  if (isShut()) return;
  const name = location.hash.replace(/^#\//, "");
  const known = Object.hasOwn(VIEWS, name) ? name : "overview";
  leave?.();
  current = known;
  const view = VIEWS[known];
  document.title = `${view.title} · Hivemind`;
  for (const link of views.querySelectorAll("a")) set(link, "aria-current", link.hash === `#/${known}` ? "page" : null);
  set(menu, "aria-expanded", "false");
  leave = view.mount(content, go);
  if (isMoved) {
    content.querySelector("h1")?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function go(name) {
  if (current === name) route(true);
  else location.hash = `#/${name}`;
}

/** Shows the connection state in the bar; a lost connection turns the page gray. */
function renderLink() {
  document.body.dataset.link = live.link;
  const texts = { connecting: "Connecting…", live: "Live", lost: `Disconnected since ${clock(live.since)}`, unauthorised: "Not authorised", forbidden: "Not allowed" };
  setText(document.getElementById("link-text"), texts[live.link] + (live.link === "lost" && live.reason ? `: ${live.reason}` : ""));
  set(document.getElementById("retry"), "hidden", live.link !== "lost");
  set(document.getElementById("sign-out"), "hidden", isShut() || !hasToken());
  if (isShut()) {
    leave?.();
    leave = null;
    current = null;
    document.title = `${live.link === "forbidden" ? "Not allowed" : "Not authorised"} · Hivemind`;
    (live.link === "forbidden" ? notAllowed : tokenForm)(content);
  } else if (live.link === "live" && current === null) {
    route(true);
  }
}

function renderNode() {
  const { version } = live;
  if (version) show(document.getElementById("node"), version.node ? [value(version.node, 40), " · "] : null, `${version.storage} · ${version.version}`);
}

/** Shows the number of problems next to the view that describes them. */
function renderProblems() {
  const all = problems();
  for (const link of views.querySelectorAll("a")) {
    const own = all.filter(one => `#/${one.view}` === link.hash);
    const badge = link.querySelector(".badge");
    if (own.length === 0) badge?.remove();
    else if (badge) setText(badge.firstChild, String(own.length));
    else link.append(el("span", { class: "badge" }, el("span", {}, String(own.length)), el("span", { class: "hidden" }, " problems")));
  }
}

// The accessible name starts with the visible text, for voice control.
const THEMES = [["", "Auto", "Auto: theme of the system"], ["light", "Light", "Light theme"], ["dark", "Dark", "Dark theme"]];

function renderTheme() {
  const [, text, label] = THEMES.find(([name]) => name === (document.documentElement.dataset.theme ?? ""));
  const control = document.getElementById("theme");
  setText(control, text);
  set(control, "aria-label", label);
}

function nextTheme() {
  const now = THEMES.findIndex(([name]) => name === (document.documentElement.dataset.theme ?? ""));
  const [name] = THEMES[(now + 1) % THEMES.length];
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem("theme", name);
  } catch {
    // Without storage the theme lasts until the page is closed.
  }
  renderTheme();
}

// Asks for the token again after it was changed on the server.
onUnauthorised(() => live.link === "live" && connect());
on("stats", keepTime);
on("stats", record);
on("link", renderLink);
on("version", renderNode);
for (const kind of ["stats", "config", "version", "peers"]) on(kind, renderProblems);
addEventListener("hashchange", () => location.hash !== "#content" && route(true));
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("retry").addEventListener("click", connect);
document.getElementById("sign-out").addEventListener("click", () => {
  useToken(null);
  // Also removes displayed data: keys, notices, edited rules.
  location.reload();
});
document.getElementById("skip").addEventListener("click", event => {
  event.preventDefault();
  content.focus();
});
menu.addEventListener("click", () => set(menu, "aria-expanded", String(menu.getAttribute("aria-expanded") !== "true")));

renderTheme();
route(false);
connect();
