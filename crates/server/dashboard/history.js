// Rates out of counters. Five minutes are kept and no more, of so many series and no more.

const KEPT = 300;
const MOST_SERIES = 200;
/** A rate is that of the last seconds: one that jumps each second cannot be read. */
const SMOOTHED_OVER = 5;
/** Counts that are further apart say nothing about any second between them. */
const LONGEST_GAP_MS = 5_000;
/** Whoever is refused again within so long was never let go. */
const PAUSE_MS = 15_000;
/** A process began when it began, but for what rounding and a clock that is set make of it. */
const SAME_START_MS = 2_000;

let points = [];
let snapshots = [];
const series = new Map();

export const nameOf = (domain, key) => JSON.stringify([domain, key ?? null]);

/** Takes what the server counted so far. */
export function record(stats) {
  if (!stats) return;
  const now = { ...stats, byName: byName(stats) };
  const last = snapshots.at(-1);
  if (last && now.t_ms === last.t_ms) return;
  if (last && now.t_ms < last.t_ms) forgetAfter(now.t_ms);
  if (last && !followsOn(last, now)) snapshots = [];
  const before = snapshots.at(-1);
  snapshots.push(now);
  if (snapshots.length > SMOOTHED_OVER + 1) snapshots.shift();
  if (before && stats.is_counted !== false) {
    const seconds = (now.t_ms - before.t_ms) / 1_000;
    const each = field => (now.totals[field] - before.totals[field]) / seconds;
    keep(points, { t: now.t_ms, ok: each("ok"), refused: each("over_limit"), errors: each("errors"), overflowed: now.keys_overflowed - before.keys_overflowed, p50: latency(0.5), p99: latency(0.99) });
    recordSeries(before, now, seconds);
  } else {
    keep(points, { t: now.t_ms, isGap: true });
    for (const kept of series.values()) keep(kept, { t: now.t_ms, refused: 0, isGap: true });
  }
}

function keep(list, point) {
  list.push(point);
  if (list.length > KEPT) list.splice(0, list.length - KEPT);
}

/** Whether both are of one process, close together, and nothing was set back: a rate across anything else would be a lie. */
function followsOn(last, now) {
  const started = one => one.t_ms - one.uptime_ms;
  const fell = (one, before) => before !== undefined && ["ok", "over_limit", "errors"].some(field => one[field] < before[field]);
  return now.t_ms > last.t_ms && now.t_ms - last.t_ms <= LONGEST_GAP_MS && Math.abs(started(now) - started(last)) <= SAME_START_MS
    && !fell(now.totals, last.totals) && ![...now.byName].some(([name, one]) => fell(one, last.byName.get(name)));
}

/** The server's clock was set back: nothing is kept of times that are yet to come. */
function forgetAfter(moment) {
  points = points.filter(point => point.t < moment);
  for (const [name, kept] of series) series.set(name, kept.filter(point => point.t < moment));
}

function byName(stats) {
  const all = new Map();
  for (const domain of stats.domains ?? []) all.set(nameOf(domain.domain), domain);
  for (const rule of rulesOf(stats)) all.set(rule.name, rule);
  return all;
}

/** Each rule by itself, with its name; where the server knows no rules of a domain, as for a gateway's limits, each of its keys. */
export function rulesOf(stats) {
  const each = (stats.each_rule ?? []).map(rule => ({ ...rule, name: nameOf(rule.domain, JSON.stringify(rule.path)) }));
  const domains = new Set(each.map(rule => rule.domain));
  const keys = (stats.rules ?? []).filter(rule => !domains.has(rule.domain));
  return [...each, ...keys.map(rule => ({ ...rule, name: nameOf(rule.domain, rule.key) }))];
}

/** Whether it was left out of what was told then. The server tells the rules that refused most so far: one that comes among them has counted before. */
function isUnknown(snapshot, name) {
  return snapshot.rules_left_out > 0 && !snapshot.byName.has(name) && snapshots.at(-1).byName.get(name)?.path !== undefined;
}

/** The first and the last of the counts in which it is known. */
const spanOf = name => [snapshots.find(one => !isUnknown(one, name)), snapshots.at(-1)];

function recordSeries(before, now, seconds) {
  for (const name of series.keys()) if (!now.byName.has(name)) series.delete(name);
  for (const [name, counted] of now.byName) {
    if (isUnknown(before, name)) continue;
    const refused = counted.over_limit - (before.byName.get(name)?.over_limit ?? 0);
    let kept = series.get(name);
    if (!kept) {
      // Who is never refused needs no line.
      if (refused <= 0) continue;
      if (series.size >= MOST_SERIES) series.delete(leastRefused());
      kept = [];
      series.set(name, kept);
    }
    keep(kept, { t: now.t_ms, refused: refused / seconds });
    if (kept.every(point => point.refused <= 0)) series.delete(name);
  }
}

function leastRefused() {
  const sums = [...series].map(([name, kept]) => [name, kept.reduce((sum, point) => sum + point.refused, 0)]);
  return sums.reduce((least, one) => (one[1] < least[1] ? one : least))[0];
}

/** The time that such a share of the last seconds' requests did not pass, in milliseconds; null where there were none. */
export function latency(part, name = null) {
  const [first, last] = spanOf(name);
  const edges = last?.latency_ms?.edges;
  const of = snapshot => (name === null ? snapshot?.latency_ms : snapshot?.byName.get(name))?.counts;
  if (!edges || first === last || !of(last)) return null;
  const counts = of(last).map((count, index) => Math.max(0, count - (of(first)?.[index] ?? 0)));
  const rank = part * counts.reduce((sum, count) => sum + count, 0);
  let [below, lower] = [0, 0];
  for (let index = 0; index < edges.length; index += 1) {
    if (counts[index] > 0 && below + counts[index] >= rank) return lower + ((edges[index] - lower) * (rank - below)) / counts[index];
    below += counts[index];
    lower = edges[index];
  }
  return rank > 0 ? lower : null;
}

/** Of what takes longer than this it is not known how much longer. */
export const slowestTold = () => snapshots.at(-1)?.latency_ms?.edges?.at(-1) ?? Infinity;

/** The last five minutes, in seconds. */
export const minutes = () => points;

/** Requests of that time which shared a counter for want of room. */
export const overflowed = () => points.reduce((sum, point) => sum + Math.max(0, point.overflowed || 0), 0);

/** The refusals of one domain or rule in that time. */
export const refusalsOf = name => series.get(name) ?? [];

/** Since when somebody is refused without a pause longer than some seconds; null where nobody is. It `isOlder` where nothing was heard before that. */
export function refusedSince(list) {
  let [heard, before, last, found] = [null, null, null, null];
  for (const { t, refused } of list.filter(point => !point.isGap)) {
    if (before === null || t - before > PAUSE_MS) heard = t;
    before = t;
    if (!(refused > 0)) continue;
    if (last === null || t - last > PAUSE_MS) found = { since: t, isOlder: t - heard <= PAUSE_MS };
    last = t;
  }
  return last !== null && before - last <= PAUSE_MS ? found : null;
}

/** Requests a second, of all or of one: how many, and how many of them are refused or cannot be decided; null until two counts are known. */
export function rates(name = null) {
  const [first, last] = spanOf(name);
  if (!first || first === last || last.is_counted === false) return null;
  const seconds = (last.t_ms - first.t_ms) / 1_000;
  const of = snapshot => (name === null ? snapshot.totals : snapshot.byName.get(name)) ?? {};
  const each = field => Math.max(0, (of(last)[field] ?? 0) - (of(first)[field] ?? 0)) / seconds;
  const [ok, refused, errors] = [each("ok"), each("over_limit"), each("errors")];
  return { requests: ok + refused + errors, refused, errors };
}
