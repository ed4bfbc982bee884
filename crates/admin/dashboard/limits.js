// Active limits of the gateway: effective values, the level that sets each field, and caps.

import { get, query, why } from "./api.js";
import { mayOpen } from "./credential.js";
import { button, el, hide, setText } from "./dom.js";
import { exact, limit, value } from "./format.js";
import { live, on } from "./live.js";
import { once, table } from "./table.js";

const PAGE = 200;
const MOST = 1_000;
const KINDS = { http: "requests", ws_connection: "WebSockets opened", ws_message: "messages of a WebSocket", ws_open: "WebSockets open at once", ip_guard: "requests of an address, regardless of identity" };
/** Labels of a limit's fields, and the levels, nearest first. */
const FIELDS = { requests: "requests", window: "window", burst: "burst", algorithm: "algorithm", mode: "mode", dry_run: "dry run" };
const LEVELS = { endpoint: "endpoint", service: "service", platform: "platform", built_in: "built in" };

/** `sought()` returns the search text. `read()` loads and shows the limits, `end()` stops updates. */
export function limitsPanel(sought) {
  const list = limitsTable();
  const state = el("p", { class: "quiet-text", role: "status", tabindex: "-1" });
  const more = button("More", () => read(true), { hidden: true });
  let most = PAGE;
  let asked = 0;

  async function read(isMore = false) {
    most = isMore ? Math.min(most + PAGE, MOST) : PAGE;
    const own = (asked += 1);
    // A text that must not be part of a URL matches none.
    if (mayOpen(sought())) {
      list.setEmptyText("Not searched.");
      list.update([], true);
      setText(state, "");
      hide(more, true, state);
      return;
    }
    try {
      const { items, next } = await get(`/limits${query({ q: sought(), limit: most })}`);
      // A late response to an earlier request is ignored.
      if (own !== asked) return;
      list.setEmptyText(sought() ? "No gateway limit matches." : "No gateway runs here: all limits are in the rules.");
      list.update(items, true);
      setText(state, next === null ? "" : most === MOST ? `${exact(items.length)} shown; hivemind ctl limits has all of them.` : `${exact(items.length)} shown, there are more`);
      hide(more, next === null || most === MOST, state);
    } catch (error) {
      if (own !== asked) return;
      list.setEmptyText("Not read.");
      setText(state, why(error));
    }
  }
  // Configuration updates arrive repeatedly and are mostly equal.
  let seen = live.config?.config?.loaded_ms;
  const end = on("config", config => {
    const loaded = config?.config?.loaded_ms;
    if (loaded === seen) return;
    seen = loaded;
    read();
  });
  return { box: el("section", { class: "panel" }, list.box, el("div", { class: "actions" }, more, state)), read, end };
}

/** Which level sets which fields: `requests, burst: service`. */
function said(from) {
  const of = level => Object.keys(FIELDS).filter(name => from[name] === level).map(name => FIELDS[name]);
  const lines = Object.entries(LEVELS).map(([level, name]) => [name, of(level)]).filter(([, fields]) => fields.length > 0);
  return el("ul", { class: "descriptors" }, lines.map(([name, fields]) => el("li", {}, el("strong", {}, name), `: ${fields.join(", ")}`)));
}

function endpoint({ endpoint: one }) {
  if (one === null) return el("span", { class: "quiet-text" }, "all others");
  return el("code", {}, value([one.methods.join(","), one.path].filter(Boolean).join(" "), 80));
}

function activeLimit(one) {
  const tags = [one.dry_run ? "dry run" : null, one.delay_after === null ? null : `delays after ${exact(one.delay_after)}`].filter(Boolean);
  return el("span", {}, limit(one.limit), one.capped ? [" ", el("span", { class: "tag warn" }, "capped"), el("small", {}, ` instead of ${limit(one.configured)}`)] : null,
    tags.map(tag => [" ", el("span", { class: "tag" }, tag)]).flat());
}

function limitsTable() {
  return table({ caption: "Effective limits", empty: "", keyOf: one => JSON.stringify(one), columns: [
    { head: "Service", cell: once(one => (one.service === null ? el("span", { class: "quiet-text" }, "all others") : value(one.service, 40))) },
    { head: "Endpoint", cell: once(endpoint) },
    { head: "Counts", cell: once(one => el("span", {}, KINDS[one.kind] ?? value(one.kind, 40))) },
    { head: "Allows", cell: once(activeLimit) },
    { head: "Said by", cell: once(one => said(one.from)) },
  ] });
}
