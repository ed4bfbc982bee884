// The last decisions, newest first, from a ring that the server keeps in memory.

import { get, query, why } from "./api.js";
import { announcer, button, choice, el, field, hide, set, show, tell } from "./dom.js";
import { exact, time, value } from "./format.js";
import { inspect, keyLink } from "./keys.js";
import { live } from "./live.js";
import { hashed } from "./sha256.js";
import { once, table } from "./table.js";

export const title = "Decisions";

const PAGE = 100;
const MOST = 1_000;
const AGAIN_MS = 2_000;
/** Each question goes through all that is remembered: not one for each letter. */
const PAUSE_MS = 150;

export function mount(place, go) {
  const filters = { outcome: choice([["", "All"], ["denied", "Refused"], ["allowed", "Allowed"]], ""), domain: text(), key: text(), value: text() };
  const follow = el("input", { type: "checkbox", checked: true });
  const list = decisionsTable(go);
  const older = button("Older", () => read(true));
  const state = el("p", { class: "quiet-text", tabindex: "-1" }, "Loading…");
  // Who follows is not told every two seconds how many there are.
  const said = announcer();
  let items = [];
  let next = null;
  let asking = null;

  /** `isFollowing`: nobody asked for it, and rows may wait. */
  async function read(isMore, isFollowing = false) {
    // Who only follows does not take the place of a question.
    if (isFollowing && asking) return;
    asking?.abort();
    const own = (asking = new AbortController());
    try {
      const page = await get(`/decisions${query({ ...Object.fromEntries(Object.entries(filters).map(([name, control]) => [name, control.value])), value: hashed(filters.value.value), limit: PAGE, cursor: isMore ? next : null })}`, { signal: own.signal });
      // A slower answer to an older question must not win.
      if (own !== asking) return;
      items = isMore ? [...items, ...page.items].slice(0, MOST) : page.items;
      next = page.next;
      list.update(items, !isFollowing);
      const missed = page.missed > 0 ? `, and ${exact(page.missed)} were not kept, because others were written or read at that moment` : "";
      tell(state, items.length === 0 ? "" : `${exact(items.length)} shown${missed}`);
      list.tellEmpty(page.is_on === false ? "Decisions are not remembered here: that is switched off in the configuration." : "No decision fits. The server remembers the last ones only, and none from before it started.");
      if (!isFollowing) tell(said, state.textContent || "No decision fits.");
      hide(older, next === null || items.length >= MOST, state);
      // Who reads older ones does not want them swept away.
      if (isMore) follow.checked = false;
    } catch (error) {
      if (own !== asking) return;
      tell(state, why(error));
      if (items.length === 0) list.tellEmpty("Not read.");
      if (!isFollowing) tell(said, why(error));
    } finally {
      if (own === asking) asking = null;
    }
  }
  let pause = null;
  const form = el("form", { class: "panel filters", "aria-label": "Which decisions", on: {
    submit: event => event.preventDefault(),
    input: event => {
      if (event.target === follow) return;
      clearTimeout(pause);
      pause = setTimeout(() => read(false), PAUSE_MS);
    },
  } }, field("Outcome", filters.outcome), field("Domain", filters.domain), field("Key", filters.key), field("Value", filters.value, "Only its hash is sent. Of a text longer than 128 bytes, give the first 128: no more is kept. A credential is found by all of it"),
    el("div", { class: "field check" }, el("label", {}, follow, " Follow")), button("Refresh", () => read(false)));
  show(place, el("h1", { tabindex: "-1" }, title), form, el("section", { class: "panel" }, list.box, el("div", { class: "actions" }, older, state), said));
  set(older, "hidden", true);
  read(false);
  const timer = setInterval(() => follow.checked && !document.hidden && live.link === "live" && read(false, true), AGAIN_MS);
  return () => {
    clearInterval(timer);
    clearTimeout(pause);
    asking?.abort();
    asking = null;
  };
}

const text = () => el("input", { type: "search", autocomplete: "off", spellcheck: "false" });

// A server that was started anew counts its decisions from the beginning: their numbers alone are not theirs.
function decisionsTable(go) {
  return table({ caption: "Recent decisions", isCaptionHidden: true, empty: "", keyOf: decision => `${decision.t_ms}.${decision.id}`, columns: [
    { head: "Time", cell: once(decision => time(decision.t_ms)) },
    { head: "Outcome", cell: once(decision => el("span", { class: `tag ${decision.outcome === "denied" ? "bad" : "good"}` }, decision.outcome === "denied" ? "refused" : "allowed")) },
    { head: "Domain", cell: once(decision => value(decision.domain, 40)) },
    { head: "Descriptors", cell: once(decision => el("ul", { class: "descriptors" }, decision.descriptors.slice(0, 8).map(each => descriptor(decision, each, go)),
      decision.descriptors.length > 8 && el("li", { class: "quiet-text" }, `and ${decision.descriptors.length - 8} more`))) },
    { head: "Door", cell: once(decision => el("span", {}, decision.door)) },
  ] });
}

function descriptor({ domain, is_cut }, each, go) {
  const isOver = each.code === "OVER_LIMIT";
  const left = typeof each.remaining === "number" ? `${exact(each.remaining)} left` : each.rule === null ? "no rule" : "";
  return el("li", {}, keyLink({ domain, entries: each.entries, is_cut }, key => {
    inspect(key);
    go("keys");
  }),
    el("span", { class: isOver ? "bad" : "quiet-text" }, isOver ? " over its limit" : ` ${left}`), each.hits > 1 ? el("span", { class: "quiet-text" }, ` · ${exact(each.hits)} hits`) : null);
}
