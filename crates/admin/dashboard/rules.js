// Rules view: active rules with their limits and places.

import { get, query, why } from "./api.js";
import { mayOpen } from "./credential.js";
import { button, el, field, hide, set, show, setText } from "./dom.js";
import { clock, count, entries, limit, now, value } from "./format.js";
import { limitsPanel } from "./limits.js";
import { live, onRules } from "./live.js";
import { once, table } from "./table.js";

export const title = "Rules";

const PAGE = 200;
const MOST = 5_000;
/** Maximum page size of the server. */
const MOST_AT_ONCE = 1_000;
const AGAIN_MS = 5_000;

export function mount(place) {
  const search = el("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const domain = el("input", { type: "search", autocomplete: "off", spellcheck: "false" });
  const list = rulesTable();
  const state = el("p", { class: "quiet-text", role: "status", tabindex: "-1" }, "Loading…");
  const more = button("More", () => read(true));
  const ofGateway = limitsPanel(() => search.value);
  let items = [];
  let next = null;
  let asked = 0;
  let waiting = 0;

  /** `most`: the number of displayed rules, when only their counts are updated. */
  async function read(isMore, most = PAGE, isAsked = true) {
    const own = (asked += 1);
    if (mayOpen(search.value)) {
      items = [];
      next = null;
      list.setEmptyText("Not searched.");
      list.update(items, true);
      setText(state, "Not sent: this looks like a credential. Search for its key.");
      hide(more, true, state);
      return;
    }
    waiting += 1;
    try {
      const page = await get(`/rules${query({ q: search.value, domain: domain.value, limit: most, cursor: isMore ? next : null })}`);
      if (own !== asked) return;
      items = isMore ? [...items, ...page.items].slice(0, MOST) : page.items;
      next = page.next;
      list.setEmptyText(search.value || domain.value ? "No rule matches." : "No rules: requests are not limited.");
      list.update(items, isAsked);
      // Long lists are not updated periodically.
      const counted = items.length > MOST_AT_ONCE ? `; counted at ${clock(now())}` : "";
      setText(state, (next ? `${items.length} shown, there are more` : `${items.length} ${items.length === 1 ? "rule" : "rules"}`) + counted);
      hide(more, next === null || items.length >= MOST, state);
    } catch (error) {
      if (own !== asked) return;
      setText(state, why(error));
      if (items.length === 0) list.setEmptyText("Not read.");
    } finally {
      waiting -= 1;
    }
  }
  const all = () => {
    read(false);
    ofGateway.read();
  };
  let pause = null;
  const form = el("form", { class: "panel filters", role: "search", "aria-label": "Rules", on: {
    submit: event => event.preventDefault(),
    input: () => {
      clearTimeout(pause);
      pause = setTimeout(all, 150);
    },
  } }, field("Search", search, "Sent in a URL, which proxies log: do not enter credentials"), field("Domain", domain), state);
  show(place, el("h1", { tabindex: "-1" }, title), form, el("section", { class: "panel" }, list.box, el("div", { class: "actions" }, more)), ofGateway.box);
  set(more, "hidden", true);
  all();
  // Shows the rules again after a reload.
  const end = onRules(() => read(false));
  const timer = setInterval(() => {
    if (document.hidden || live.link !== "live" || waiting > 0 || items.length > MOST_AT_ONCE) return;
    read(false, Math.max(PAGE, items.length), false);
  }, AGAIN_MS);
  return () => {
    clearTimeout(pause);
    clearInterval(timer);
    end();
    ofGateway.end();
  };
}

/** The limits of a rule. */
export function limits(rule) {
  if (rule.unlimited) return "unlimited";
  if (rule.limits.length === 0) return "no limit: admits";
  return rule.limits.map(limit).join(", and ");
}

export const where = rule => `${rule.file}:${rule.line}`;

// Rule numbers change at each load, so rows are identified by the rule's text.
function rulesTable() {
  return table({ caption: "Active rules", isCaptionHidden: true, empty: "", keyOf: rule => JSON.stringify({ ...rule, ok: 0, over_limit: 0 }), columns: [
    { head: "Rule", cell: once(rule => el("span", {}, entries(rule.path), rule.name ? [" ", el("span", { class: "tag" }, value(rule.name, 40))] : null)) },
    { head: "Domain", cell: once(rule => value(rule.domain, 40)) },
    { head: "Allows", cell: once(rule => el("span", {}, limits(rule), rule.mode && rule.mode !== "enforce" ? [" ", el("span", { class: "tag warn" }, rule.mode)] : null)) },
    { head: "Allowed", class: "number", cell: rule => count(rule.ok) },
    { head: "Refused", class: "number", cell: rule => count(rule.over_limit) },
    { head: "Written in", cell: once(rule => el("code", {}, value(where(rule), 80))) },
  ] });
}
