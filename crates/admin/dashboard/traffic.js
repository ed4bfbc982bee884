// Overview: refusals, affected keys and their start first, then all other statistics.

import { chart, spark } from "./chart.js";
import { el, keep, set, show, setText } from "./dom.js";
import { clock, count, entries, exact, millis, rate, share, value } from "./format.js";
import { latency, minutes, nameOf, rates, refusalsOf, refusedSince, rulesOf, slowestKnown } from "./history.js";
import { inspect, keyLink } from "./keys.js";
import { rateOf, reasonOf } from "./refusals.js";
import { live, on } from "./live.js";
import { problems } from "./problems.js";
import { once, table } from "./table.js";

const SPAN_MS = 5 * 60_000;
const MOST_ROWS = 50;

export const title = "Overview";

export function mount(place, go) {
  const headline = el("p", { class: "headline" }, "Waiting for the first data…");
  const attention = el("ul", { class: "problems" });
  const tiles = tilesOf();
  const traffic = chart({ title: "Requests per second", isStacked: true, format: rate, series: [
    { name: "refused", kind: "refused", of: point => point.refused },
    { name: "allowed", kind: "allowed", of: point => point.ok },
    { name: "not decided", kind: "undecided", of: point => point.errors },
  ] });
  const delays = chart({ title: "Time to decide", format: delay, ofAxis: millis, series: [
    { name: "p99", kind: "slow", of: point => point.p99 },
    { name: "p50", kind: "usual", of: point => point.p50 },
  ] });
  const refused = refusedTable(go);
  const domains = seriesTable("Domains", "No requests for any domain yet.", domain => nameOf(domain.domain), [
    { head: "Domain", cell: once(domain => value(domain.domain)) },
  ], [
    { head: "p50", class: "number", cell: domain => delay(latency(0.5, nameOf(domain.domain))) },
    { head: "p99", class: "number", cell: domain => delay(latency(0.99, nameOf(domain.domain))) },
  ], false);
  const rules = seriesTable("Rules", "No rule has matched a request yet.", rule => rule.name, [
    { head: "Rule", cell: once(rule => (rule.path ? entries(rule.path) : value(rule.key, 60))) },
    { head: "Domain", cell: once(rule => value(rule.domain, 40)) },
  ], [], true);
  const moreRules = el("p", { class: "note", hidden: true });
  show(place, el("h1", { tabindex: "-1" }, title), headline, attention, tiles.box,
    el("div", { class: "columns wide-first" }, traffic.figure, delays.figure),
    el("section", { class: "panel" }, refused.box),
    el("div", { class: "columns" }, el("section", { class: "panel" }, domains.box), el("section", { class: "panel" }, rules.box, moreRules)));

  const tick = () => {
    if (document.hidden || !live.stats) return;
    tiles.update(live.stats);
    const to = live.stats.t_ms;
    const from = shownFrom();
    traffic.draw(minutes(), from, to);
    delays.draw(minutes(), from, to);
    domains.update(busiest(live.stats.domains, domain => nameOf(domain.domain)).slice(0, MOST_ROWS));
    const met = busiest(rulesOf(live.stats), rule => rule.name);
    rules.update(met.slice(0, MOST_ROWS));
    renderMore(moreRules, Math.max(0, met.length - MOST_ROWS) + (live.stats.rules_left_out ?? 0));
    renderHeadline(headline);
    renderProblems(attention);
  };
  const others = () => {
    refused.update(live.top?.denied?.keys?.slice(0, 8));
    renderProblems(attention);
  };
  tick();
  others();
  const ends = [on("stats", tick), on("top", others), on("peers", others), on("config", others), on("version", others)];
  return () => ends.forEach(end => end());
}

function tilesOf() {
  const tile = (name, more) => {
    const number = el("dd", {}, "–");
    const note = el("dd", { class: "note" }, more ?? "");
    return { number, note, box: el("div", { class: "tile" }, el("dt", {}, name), number, note) };
  };
  const all = { requests: tile("Requests", "per second"), refused: tile("Refused", "per second"), share: tile("Share refused"), undecided: tile("Not decided", "per second"), p50: tile("Latency p50", "half are faster"), p99: tile("Latency p99", "99 of 100 are faster"), keys: tile("Keys in memory") };
  all.refused.box.classList.add("of-refused");
  all.share.box.classList.add("of-refused");
  all.undecided.box.classList.add("of-refused");
  return {
    box: el("dl", { class: "tiles", "aria-live": "off" }, Object.values(all).map(one => one.box)),
    update(stats) {
      const now = rates();
      setText(all.requests.number, rate(now?.requests));
      setText(all.refused.number, rate(now?.refused));
      setText(all.undecided.number, rate(now?.errors));
      all.undecided.box.classList.toggle("on", now?.errors > 0);
      setText(all.share.number, now?.requests > 0 ? share(now.refused, now.requests) : "–");
      setText(all.share.note, `${count(stats.totals.over_limit)} of ${count(stats.totals.ok + stats.totals.over_limit)} since the start`);
      setText(all.p50.number, delay(latency(0.5)));
      setText(all.p99.number, delay(latency(0.99)));
      // Redis counts its own keys.
      const isHere = stats.keys_in_memory > 0 || ["memory", "mesh"].includes(live.version?.storage);
      setText(all.keys.number, isHere ? count(stats.keys_in_memory) : "–");
      setText(all.keys.note, isHere && stats.max_keys ? `of at most ${count(stats.max_keys)}` : "in this node");
      const isRefusing = now?.refused > 0;
      for (const one of [all.refused, all.share]) one.box.classList.toggle("on", isRefusing);
    },
  };
}

/** A latency; values beyond the histogram are shown as a lower bound. */
const delay = value => (value !== null && value !== undefined && value >= slowestKnown() ? `≥${millis(value)}` : millis(value));

/** A new page shows one minute, and grows to five. */
function shownFrom() {
  const to = live.stats.t_ms;
  return Math.max(to - SPAN_MS, Math.min(minutes()[0]?.t ?? to, to - 60_000));
}

/** Headline: share of refused requests, and since when. */
function renderHeadline(headline) {
  const only = text => {
    delete headline.dataset.text;
    setText(headline, text);
  };
  if (live.stats.is_counted === false) {
    only("Requests are not counted: request and refusal rates are unknown.");
    return;
  }
  const now = rates();
  if (!now) return;
  const failing = now.errors > 0 ? `${rate(now.errors)} requests a second cannot be decided. ` : "";
  const since = refusedSince(minutes());
  if (!since) {
    only(failing.trim() || (now.requests > 0 ? "No requests are refused." : "No requests arrive."));
    return;
  }
  const began = since.isOlder ? `since ${clock(since.since)} at the latest` : `since ${clock(since.since)}`;
  const names = (live.stats.domains ?? []).map(domain => [domain.domain, rates(nameOf(domain.domain))?.refused ?? 0]).sort((one, other) => other[1] - one[1]);
  const worst = names[0]?.[1] > 0 ? [", most of it in ", value(names[0][0], 40)] : [];
  const text = `${failing}${share(now.refused, now.requests)} of all requests are refused, ${began}`;
  const whole = text + (worst[1]?.textContent ?? "");
  // Rebuilt only if the text changed, because it may be selected.
  if (headline.dataset.text === whole) return;
  headline.dataset.text = whole;
  show(headline, text, ...worst, ".");
}

function renderProblems(list) {
  const all = problems();
  list.hidden = all.length === 0;
  keep(list, all, () => all.map(one => el("li", { class: one.kind }, el("span", { class: "sign", "aria-hidden": "true" }, one.kind === "bad" ? "✕" : "!"), el("a", { href: `#/${one.view}` }, one.text))));
}

function refusedTable(go) {
  return table({
    caption: "Refused keys and reasons",
    empty: "No requests were refused in the last minutes.",
    keyOf: key => JSON.stringify([key.domain, key.entries, key.is_cut ?? false]),
    columns: [
      { head: "Key", cell: once(key => keyLink(key, () => {
        inspect(key);
        go("keys");
      }, 40)) },
      { head: "Domain", cell: once(key => value(key.domain, 40)) },
      { head: "Limit", cell: key => reasonOf(key) },
      { head: "Per second", class: "number", cell: key => rate(rateOf(key)) },
      { head: "Refused", class: "number", cell: key => (key.error > 0 ? `≤${exact(key.count)}` : exact(key.count)) },
    ],
  });
}

/** Most refusing first, then busiest. */
function busiest(list, name) {
  // Entries without requests are omitted.
  const rated = (list ?? []).filter(one => one.ok + one.over_limit > 0).map(one => ({ ...one, now: rates(name(one)) }));
  rated.sort((one, other) => (other.now?.refused ?? 0) - (one.now?.refused ?? 0) || (other.now?.requests ?? 0) - (one.now?.requests ?? 0) || other.over_limit - one.over_limit);
  return rated;
}

/** Number of matched rules without a row. */
function renderMore(note, more) {
  set(note, "hidden", more === 0);
  setText(note, more === 0 ? "" : `${exact(more)} more ${more === 1 ? "rule" : "rules"} matched requests`);
}

function seriesTable(caption, empty, name, first, last, hasSums) {
  return table({ caption, empty, keyOf: name, columns: [
    ...first,
    { head: "Requests/s", class: "number", cell: one => rate(one.now?.requests) },
    { head: "Refused/s", class: "number", cell: one => rate(one.now?.refused) },
    { head: "Share", class: "number", cell: one => share(one.now?.refused, one.now?.requests) },
    { head: "Refused", class: "wide", cell: one => spark(refusalsOf(name(one)), shownFrom(), live.stats.t_ms) },
    ...last,
    ...(hasSums ? [{ head: "Refused in total", class: "number", cell: one => count(one.over_limit) }] : []),
  ] });
}
