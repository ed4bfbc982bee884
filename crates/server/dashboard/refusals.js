// Of the keys that are refused most: how fast, and by which limit.

import { get, post, query, Refused, why } from "./api.js";
import { clock, limit } from "./format.js";
import { on, onRules } from "./live.js";
import { limits, where } from "./rules.js";

const MOST = 64;
/** Blocks come and go: what was true a minute ago is asked again. */
const TRUE_FOR_MS = 60_000;
/** Counts that are further apart say nothing about any second between them: one comes every two seconds. */
const LONGEST_GAP_MS = 5_000;
/** Twenty keys that change are no reason to ask twenty questions at once. */
const BETWEEN_MS = 1_000;
/** Of what is not kept whole, several may be one here: their rules tell them apart. */
const keyOf = key => JSON.stringify([key.domain, key.entries, key.is_cut ? key.rule : null]);

/** The counts of the last seconds, by key; who is not among the first is forgotten. */
let counts = new Map();
/** `{ text, at }`: what limits a key, until the rules are others. */
const reasons = new Map();
/** Keys of which it is not known. */
const unknown = new Map();
let isAsking = false;

on("top", top => {
  const now = Date.now();
  const next = new Map();
  for (const key of top?.denied?.keys ?? []) {
    const id = keyOf(key);
    // Which of several is which nobody knows, and the next time they may stand in another order: they have no rate.
    if (next.has(id)) {
      next.set(id, []);
      continue;
    }
    const before = counts.get(id) ?? [];
    const isNear = now - (before.at(-1)?.t ?? 0) <= LONGEST_GAP_MS;
    const seen = [...(isNear ? before : []), { t: now, count: key.count }].slice(-3);
    // A count that fell is of a new span of time.
    next.set(id, seen.at(-2)?.count > key.count ? seen.slice(-1) : seen);
  }
  counts = next;
});
onRules(() => reasons.clear());

/** Refusals a second; null until there are two counts, and where it is not known whose they are. */
export function rateOf(key) {
  const seen = counts.get(keyOf(key)) ?? [];
  const [first, last] = [seen[0], seen.at(-1)];
  return seen.length < 2 ? null : (1_000 * (last.count - first.count)) / (last.t - first.t);
}

/** The limit in words and where it is written, as far as it is known by now. */
export function reasonOf(key) {
  // Of a key that is not whole the answer would be another's; its rule is known, unless it was none.
  if (key.is_cut && typeof key.rule !== "number") return "not known: its key is not kept whole";
  const id = keyOf(key);
  const known = reasons.get(id);
  if (!known || Date.now() - known.at > TRUE_FOR_MS) {
    unknown.set(id, key);
    askNext();
  }
  return known?.text ?? "…";
}

/** One question after the other. */
async function askNext() {
  if (isAsking || unknown.size === 0) return;
  isAsking = true;
  const [[id, key]] = unknown;
  unknown.delete(id);
  if (reasons.size >= MOST) reasons.clear();
  try {
    reasons.set(id, { text: await reason(key), at: Date.now() });
  } catch (error) {
    // Who was refused an answer would be refused it again.
    if (error instanceof Refused) reasons.set(id, { text: why(error), at: Date.now() });
  }
  setTimeout(() => {
    isAsking = false;
    // Whoever is still shown asks again.
    if (counts.has(unknown.keys().next().value)) askNext();
    else unknown.clear();
  }, BETWEEN_MS);
}

const told = rule => `${limits(rule)} (${where(rule).split("/").at(-1)})`;

async function reason(key) {
  if (key.is_cut) {
    const { items } = await get(`/rules${query({ id: key.rule, limit: 1 })}`);
    return items.length > 0 ? told(items[0]) : ENDS.no_match;
  }
  const asked = { domain: key.domain, entries: key.entries.map(({ key: name, value }) => ({ key: name, value: value ?? "" })) };
  const found = await post("/keys/lookup", asked);
  if (found.blocked_until_ms) return `blocked until ${clock(found.blocked_until_ms)}`;
  // The gateway's own limits are in no file of rules, and no name of a domain in one begins like theirs.
  if (key.domain.startsWith(":")) return found.limits.length > 0 ? `the gateway's limit: ${found.limits.map(limit).join(", and ")}` : "a limit of the gateway that is gone";
  const { end } = await post("/explain", asked);
  return end.rule ? told(end.rule) : (ENDS[end.kind] ?? "no rule of now");
}

const ENDS = {
  no_limit: "its rule of now has no limit: the request brought one, or the rule was another",
  no_match: "no rule of now: the request brought a limit, or the rule is gone",
  unknown_domain: "no rules of now for its domain: the request brought a limit, or they are gone",
};
