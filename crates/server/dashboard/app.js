// The page: one view at a time, by what stands behind the `#` of the address.

import { hasToken, onUnauthorised, useToken } from "./api.js";
import * as config from "./config.js";
import * as decisions from "./decisions.js";
import { el, set, show, tell } from "./dom.js";
import * as explain from "./explain.js";
import { clock, keepTime, value } from "./format.js";
import { record } from "./history.js";
import * as keys from "./keys.js";
import { connect, live, on } from "./live.js";
import { matters } from "./matters.js";
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

/** Shut, open or lost: told in the bar, and by a grey page. */
function tellLink() {
  document.body.dataset.link = live.link;
  const texts = { connecting: "Connecting…", live: "Live", lost: `Disconnected since ${clock(live.since)}`, unauthorised: "Not authorised", forbidden: "Not allowed" };
  tell(document.getElementById("link-text"), texts[live.link] + (live.link === "lost" && live.reason ? `: ${live.reason}` : ""));
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

function tellNode() {
  const { version } = live;
  if (version) show(document.getElementById("node"), version.node ? [value(version.node, 40), " · "] : null, `${version.storage} · ${version.version}`);
}

/** How many things are the matter, beside the view that tells of them. */
function tellMatters() {
  const all = matters();
  for (const link of views.querySelectorAll("a")) {
    const own = all.filter(one => `#/${one.view}` === link.hash);
    const badge = link.querySelector(".badge");
    if (own.length === 0) badge?.remove();
    else if (badge) tell(badge.firstChild, String(own.length));
    else link.append(el("span", { class: "badge" }, el("span", {}, String(own.length)), el("span", { class: "hidden" }, " to look at")));
  }
}

// A name begins with what is seen: who speaks to their machine says that.
const THEMES = [["", "Auto", "Auto: the theme is as the system has it"], ["light", "Light", "Light theme"], ["dark", "Dark", "Dark theme"]];

function tellTheme() {
  const [, text, label] = THEMES.find(([name]) => name === (document.documentElement.dataset.theme ?? ""));
  const control = document.getElementById("theme");
  tell(control, text);
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
    // It holds until the page is closed.
  }
  tellTheme();
}

// A token that was changed meanwhile is asked for again.
onUnauthorised(() => live.link === "live" && connect());
on("stats", keepTime);
on("stats", record);
on("link", tellLink);
on("version", tellNode);
for (const kind of ["stats", "config", "version", "peers"]) on(kind, tellMatters);
addEventListener("hashchange", () => location.hash !== "#content" && route(true));
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("retry").addEventListener("click", connect);
document.getElementById("sign-out").addEventListener("click", () => {
  useToken(null);
  // What was seen goes with it: keys, notices, rules that were written.
  location.reload();
});
document.getElementById("skip").addEventListener("click", event => {
  event.preventDefault();
  content.focus();
});
menu.addEventListener("click", () => set(menu, "aria-expanded", String(menu.getAttribute("aria-expanded") !== "true")));

tellTheme();
route(false);
connect();
