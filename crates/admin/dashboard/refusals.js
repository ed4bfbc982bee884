// Refusal rates of the most refused keys, and the limits that refuse them.

import { get, post, query, Refused, why } from "./api.js";
import { clock, limit } from "./format.js";
import { on, onRules } from "./live.js";
import { limits, where } from "./rules.js";

const MOST = 64;
/** Reasons are requested again after this time, because blocks begin and end. */
const TRUE_FOR_MS = 60_000;
/** Longer gaps between counts give no rate; counts arrive every two seconds. */
const LONGEST_GAP_MS = 5_000;
/** Pause between requests, so that changing keys do not cause bursts of requests. */
const BETWEEN_MS = 1_000;
/** Truncated keys may be equal; their rules distinguish them. */
const keyOf = key => JSON.stringify([key.domain, key.entries, key.is_cut ? key.rule : null]);

/** Counts of the last seconds of the listed keys. */
let counts = new Map();
/** `{ text, at }`: the limit of a key, until the rules change. */
const reasons = new Map();
/** Keys whose limit is not known yet. */
const unknown = new Map();
let isAsking = false;

on("top", top => {
  const now = Date.now();
  const next = new Map();
  for (const key of top?.denied?.keys ?? []) {
    const id = keyOf(key);
    // Equal keys cannot be distinguished, and their order may change, so they have no rate.
    if (next.has(id)) {
      next.set(id, []);
      continue;
    }
    const before = counts.get(id) ?? [];
    const isNear = now - (before.at(-1)?.t ?? 0) <= LONGEST_GAP_MS;
    const seen = [...(isNear ? before : []), { t: now, count: key.count }].slice(-3);
    // A decreased count belongs to a new period.
    next.set(id, seen.at(-2)?.count > key.count ? seen.slice(-1) : seen);
  }
  counts = next;
});
onRules(() => reasons.clear());

/** Refusals per second; null until there are two counts, and for indistinguishable keys. */
export function rateOf(key) {
  const seen = counts.get(keyOf(key)) ?? [];
  const [first, last] = [seen[0], seen.at(-1)];
  return seen.length < 2 ? null : (1_000 * (last.count - first.count)) / (last.t - first.t);
}

/** The limit as text with its place, as far as known. */
export function reasonOf(key) {
  // A lookup of a truncated key would return another key's limit; its rule may be known.
  if (key.is_cut && typeof key.rule !== "number") return "unknown: its key is truncated";
  const id = keyOf(key);
  const known = reasons.get(id);
  if (!known || Date.now() - known.at > TRUE_FOR_MS) {
    unknown.set(id, key);
    askNext();
  }
  return known?.text ?? "…";
}

/** Sends one request at a time. */
async function askNext() {
  if (isAsking || unknown.size === 0) return;
  isAsking = true;
  const [[id, key]] = unknown;
  unknown.delete(id);
  if (reasons.size >= MOST) reasons.clear();
  try {
    reasons.set(id, { text: await reason(key), at: Date.now() });
  } catch (error) {
    // An error response would be repeated.
    if (error instanceof Refused) reasons.set(id, { text: why(error), at: Date.now() });
  }
  setTimeout(() => {
    isAsking = false;
    // Displayed keys request their limits again.
    if (counts.has(unknown.keys().next().value)) askNext();
    else unknown.clear();
  }, BETWEEN_MS);
}

const describe = rule => `${limits(rule)} (${where(rule).split("/").at(-1)})`;

async function reason(key) {
  if (key.is_cut) {
    const { items } = await get(`/rules${query({ id: key.rule, limit: 1 })}`);
    return items.length > 0 ? describe(items[0]) : ENDS.no_match;
  }
  const asked = { domain: key.domain, entries: key.entries.map(({ key: name, value }) => ({ key: name, value: value ?? "" })) };
  const found = await post("/keys/lookup", asked);
  if (found.blocked_until_ms) return `blocked until ${clock(found.blocked_until_ms)}`;
  // The gateway's limits are not in rule files; their domains begin with a colon, which rule files cannot use.
  if (key.domain.startsWith(":")) return found.limits.length > 0 ? `the gateway's limit: ${found.limits.map(limit).join(", and ")}` : "a gateway limit that no longer exists";
  const { end } = await post("/explain", asked);
  return end.rule ? describe(end.rule) : (ENDS[end.kind] ?? "no current rule");
}

const ENDS = {
  no_limit: "its current rule has no limit: the request had its own, or the rule has changed",
  no_match: "no current rule: the request had its own limit, or the rule was removed",
  unknown_domain: "no current rules for its domain: the request had its own limit, or they were removed",
};
