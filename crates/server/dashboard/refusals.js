// Of the keys that are refused most: how fast, and by which limit.

import { post } from "./api.js";
import { limits, where } from "./rules.js";
import { on, onRules } from "./live.js";

const MOST = 64;
const keyOf = key => JSON.stringify([key.domain, key.entries]);

/** The counts of the last seconds, by key; who is not among the first is forgotten. */
let counts = new Map();
/** What limits a key, until the rules are others. */
const reasons = new Map();

on("top", top => {
  const now = Date.now();
  const next = new Map();
  for (const key of top?.denied?.keys ?? []) {
    const id = keyOf(key);
    const seen = [...(counts.get(id) ?? []), { t: now, count: key.count }].slice(-4);
    // A count that fell is of a new span of time.
    next.set(id, seen.at(-2)?.count > key.count ? seen.slice(-1) : seen);
  }
  counts = next;
});
onRules(() => reasons.clear());

/** Refusals a second; null until there are two counts. */
export function rateOf(key) {
  const seen = counts.get(keyOf(key)) ?? [];
  const [first, last] = [seen[0], seen.at(-1)];
  return seen.length < 2 ? null : (1_000 * (last.count - first.count)) / (last.t - first.t);
}

/** The limit in words and where it is written; it is asked for once. */
export function reasonOf(key) {
  const id = keyOf(key);
  const known = reasons.get(id);
  if (known !== undefined) return known;
  if (reasons.size >= MOST) reasons.clear();
  reasons.set(id, "…");
  const asked = { domain: key.domain, entries: key.entries.map(({ key: name, value }) => ({ key: name, value: value ?? "" })) };
  post("/explain", asked)
    .then(({ end }) => reasons.set(id, end.rule ? `${limits(end.rule)} (${where(end.rule).split("/").at(-1)})` : "blocked, or by a rule that is gone"))
    .catch(() => reasons.delete(id));
  return "…";
}
