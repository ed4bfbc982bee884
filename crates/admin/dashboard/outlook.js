// Result of a what-if simulation: current and new rules on the same requests. Neither is the original decision.

import { chart } from "./chart.js";
import { el } from "./dom.js";
import { count, entries, exact, share, span, value } from "./format.js";
import { once, table } from "./table.js";

export function outlook(found) {
  const { now, then } = found;
  const plot = chart({ title: "Refused by the current and the new rules", format: count, columns: "From", series: [
    { name: "requests", kind: "usual", of: point => point.requests },
    { name: "by the current rules", kind: "allowed", of: point => point.limited_now },
    { name: "by the new rules", kind: "refused", of: point => point.limited_then },
  ] });
  const points = found.timeline.map(step => ({ ...step, t: step.t_ms + step.width_ms / 2 }));
  const first = found.timeline[0];
  const last = found.timeline.at(-1);
  const keys = keysTable();
  keys.update(found.keys.slice(0, 200));
  const box = el("div", {},
    el("section", { class: "panel" }, el("h2", {}, verdict(found)),
      found.partial ? el("p", { class: "warn" }, found.partial) : null,
      el("p", { class: "quiet-text" }, `${exact(found.requests)} requests of ${span(found.span_ms)} were decided again, under the current and under the new rules. Both start with nothing spent, and without blocks and shadow mode, so the current rules may decide differently than the original decision.`),
      comparison(now, then)),
    first ? plot.figure : null,
    el("section", { class: "panel" }, keys.box));
  if (first) queueMicrotask(() => plot.draw(points, first.t_ms, last.t_ms + last.width_ms));
  return box;
}

/** The result in one sentence. */
export function verdict({ newly_limited: more, newly_allowed: fewer, requests }) {
  if (requests === 0) return "No traffic to decide.";
  if (more === 0 && fewer === 0) return "Nothing would have been different.";
  const parts = [];
  if (more > 0) parts.push(`${exact(more)} more would have been refused`);
  if (fewer > 0) parts.push(`${exact(fewer)} more would have passed`);
  return `${parts.join(", and ")}.`;
}

function comparison(now, then) {
  // Requests without a limit count as allowed.
  const all = side => side.allowed + side.limited;
  const row = (name, field) => {
    const difference = (then[field] ?? 0) - (now[field] ?? 0);
    return el("tr", {}, el("th", { scope: "row" }, name),
      ...[now, then].map(side => el("td", { class: "number" }, exact(side[field] ?? 0), " ", el("small", {}, share(side[field] ?? 0, all(side))))),
      el("td", { class: "number" }, difference === 0 ? "±0" : `${difference > 0 ? "+" : "−"}${exact(Math.abs(difference))}`));
  };
  const head = ["", "Current rules", "New rules", "Difference"].map(name => el("th", { scope: "col", class: name ? "number" : null }, name || el("span", { class: "hidden" }, "Outcome")));
  return el("div", { class: "table" }, el("table", { class: "comparison" }, el("caption", { class: "hidden" }, "Current and new rules"), el("thead", {}, el("tr", {}, head)),
    el("tbody", {}, row("Refused", "limited"), row("Allowed", "allowed"), row("including without a limit", "unlimited"))));
}

function keysTable() {
  return table({ caption: "Affected keys", empty: "No requests are refused, neither by the current nor by the new rules.", keyOf: key => JSON.stringify([key.domain, key.entries]), columns: [
    { head: "Key", cell: once(key => entries(key.entries)) },
    { head: "Domain", cell: once(key => value(key.domain, 40)) },
    { head: "Requests", class: "number", cell: key => exact(key.requests) },
    { head: "Refused by the current rules", class: "number", cell: key => exact(key.limited_now) },
    { head: "by the new rules", class: "number", cell: key => exact(key.limited_then) },
    { head: "Change", class: "number", cell: key => {
      const change = key.limited_then - key.limited_now;
      return el("span", { class: change > 0 ? "bad" : change < 0 ? "good" : null }, change === 0 ? "±0" : `${change > 0 ? "+" : "−"}${exact(Math.abs(change))}`);
    } },
  ] });
}
