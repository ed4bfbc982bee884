// Decisions view: the most recent decisions, newest first, from the server's ring buffer.

import { get, query, why } from "./api.js";
import { announcer, button, choice, el, field, hide, set, show, setText } from "./dom.js";
import { exact, time, value } from "./format.js";
import { inspect, keyLink } from "./keys.js";
import { live } from "./live.js";
import { hashed } from "./sha256.js";
import { once, table } from "./table.js";

export const title = "Decisions";

const PAGE = 100;
const MOST = 1_000;
const AGAIN_MS = 2_000;
/** Delay after typing: each request scans the whole ring. */
const PAUSE_MS = 150;

export function mount(place, go) {
  const filters = { outcome: choice([["", "All"], ["denied", "Refused"], ["allowed", "Allowed"]], ""), domain: text(), key: text(), value: text() };
  const follow = el("input", { type: "checkbox", checked: true });
  const list = decisionsTable(go);
  const older = button("Older", () => read(true));
  const state = el("p", { class: "quiet-text", tabindex: "-1" }, "Loading…");
  // While following, the count is not announced every two seconds.
  const said = announcer();
  let items = [];
  let next = null;
  let asking = null;

  /** `isFollowing`: an automatic update, which may be delayed. */
  async function read(isMore, isFollowing = false) {
    // An automatic update does not replace a pending request.
    if (isFollowing && asking) return;
    asking?.abort();
    const own = (asking = new AbortController());
    try {
      const page = await get(`/decisions${query({ ...Object.fromEntries(Object.entries(filters).map(([name, control]) => [name, control.value])), value: hashed(filters.value.value), limit: PAGE, cursor: isMore ? next : null })}`, { signal: own.signal });
      // A late response to an earlier request is ignored.
      if (own !== asking) return;
      items = isMore ? [...items, ...page.items].slice(0, MOST) : page.items;
      next = page.next;
      list.update(items, !isFollowing);
      const missed = page.missed > 0 ? `, and ${exact(page.missed)} were not kept, because others were written or read at that moment` : "";
      setText(state, items.length === 0 ? "" : `${exact(items.length)} shown${missed}`);
      list.setEmptyText(page.is_on === false ? "Decisions are not recorded: recording is disabled in the configuration." : "No decision matches. The server records only the most recent ones, since its start.");
      if (!isFollowing) setText(said, state.textContent || "No decision matches.");
      hide(older, next === null || items.length >= MOST, state);
      // Older pages are not replaced by updates.
      if (isMore) follow.checked = false;
    } catch (error) {
      if (own !== asking) return;
      setText(state, why(error));
      if (items.length === 0) list.setEmptyText("Not read.");
      if (!isFollowing) setText(said, why(error));
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
  } }, field("Outcome", filters.outcome), field("Domain", filters.domain), field("Key", filters.key), field("Value", filters.value, "Only its hash is sent. For a text longer than 128 bytes, enter the first 128: the rest is not stored. A credential must be complete"),
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

// A restarted server numbers its decisions from the start, so the number alone does not identify one.
function decisionsTable(go) {
  return table({ caption: "Recent decisions", isCaptionHidden: true, empty: "", keyOf: decision => `${decision.t_ms}.${decision.id}`, columns: [
    { head: "Time", cell: once(decision => time(decision.t_ms)) },
    { head: "Outcome", cell: once(decision => el("span", { class: `tag ${decision.outcome === "denied" ? "bad" : "good"}` }, decision.outcome === "denied" ? "refused" : "allowed")) },
    { head: "Domain", cell: once(decision => value(decision.domain, 40)) },
    { head: "Descriptors", cell: once(decision => el("ul", { class: "descriptors" }, decision.descriptors.slice(0, 8).map(each => descriptor(decision, each, go)),
      decision.descriptors.length > 8 && el("li", { class: "quiet-text" }, `and ${decision.descriptors.length - 8} more`))) },
    { head: "Frontend", cell: once(decision => el("span", {}, decision.door)) },
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
