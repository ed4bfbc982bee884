// Rates calculated from counters, for five minutes and a bounded number of series.

const KEPT = 300;
const MOST_SERIES = 200;
/** Rates are averaged over these seconds, so that they are readable. */
const SMOOTHED_OVER = 5;
/** Longer gaps between counts interrupt a series. */
const LONGEST_GAP_MS = 5_000;
/** Refusals with shorter pauses count as continuous. */
const PAUSE_MS = 15_000;
/** Tolerance for the start time of a process, because of rounding and clock changes. */
const SAME_START_MS = 2_000;

let points = [];
let snapshots = [];
const series = new Map();

export const nameOf = (domain, key) => JSON.stringify([domain, key ?? null]);

/** Records a snapshot of the server's counters. */
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

/** Whether both snapshots are from the same process, close together, and no counter decreased; otherwise a rate would be wrong. */
function followsOn(last, now) {
  const started = one => one.t_ms - one.uptime_ms;
  const fell = (one, before) => before !== undefined && ["ok", "over_limit", "errors"].some(field => one[field] < before[field]);
  return now.t_ms > last.t_ms && now.t_ms - last.t_ms <= LONGEST_GAP_MS && Math.abs(started(now) - started(last)) <= SAME_START_MS
    && !fell(now.totals, last.totals) && ![...now.byName].some(([name, one]) => fell(one, last.byName.get(name)));
}

/** Drops points in the future after the server's clock was set back. */
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

/** Each rule with its name; for domains without rules, such as a gateway's limits, each key. */
export function rulesOf(stats) {
  const each = (stats.each_rule ?? []).map(rule => ({ ...rule, name: nameOf(rule.domain, JSON.stringify(rule.path)) }));
  const domains = new Set(each.map(rule => rule.domain));
  const keys = (stats.rules ?? []).filter(rule => !domains.has(rule.domain));
  return [...each, ...keys.map(rule => ({ ...rule, name: nameOf(rule.domain, rule.key) }))];
}

/** Whether the rule was omitted from that snapshot. The server lists only the most refusing rules, so a newly listed rule has earlier counts. */
function isUnknown(snapshot, name) {
  return snapshot.rules_left_out > 0 && !snapshot.byName.has(name) && snapshots.at(-1).byName.get(name)?.path !== undefined;
}

/** The first and the last snapshot that include it. */
const spanOf = name => [snapshots.find(one => !isUnknown(one, name)), snapshots.at(-1)];

function recordSeries(before, now, seconds) {
  for (const name of series.keys()) if (!now.byName.has(name)) series.delete(name);
  for (const [name, counted] of now.byName) {
    if (isUnknown(before, name)) continue;
    const refused = counted.over_limit - (before.byName.get(name)?.over_limit ?? 0);
    let kept = series.get(name);
    if (!kept) {
      // Without refusals, a series needs no line.
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

/** The latency quantile of the last seconds' requests in milliseconds; null without requests. */
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

/** The last edge of the histogram; longer latencies are not distinguished. */
export const slowestKnown = () => snapshots.at(-1)?.latency_ms?.edges?.at(-1) ?? Infinity;

/** The points of the last five minutes, one per second. */
export const minutes = () => points;

/** Requests in that time that shared a counter because the table was full. */
export const overflowed = () => points.reduce((sum, point) => sum + Math.max(0, point.overflowed || 0), 0);

/** Refusals of one domain or rule in that time. */
export const refusalsOf = name => series.get(name) ?? [];

/** Start of the current series of refusals without longer pauses; null without refusals. `isOlder` if the data starts there. */
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

/** Rates of requests, refusals and errors, of all or of one series; null until there are two snapshots. */
export function rates(name = null) {
  const [first, last] = spanOf(name);
  if (!first || first === last || last.is_counted === false) return null;
  const seconds = (last.t_ms - first.t_ms) / 1_000;
  const of = snapshot => (name === null ? snapshot.totals : snapshot.byName.get(name)) ?? {};
  const each = field => Math.max(0, (of(last)[field] ?? 0) - (of(first)[field] ?? 0)) / seconds;
  const [ok, refused, errors] = [each("ok"), each("over_limit"), each("errors")];
  return { requests: ok + refused + errors, refused, errors };
}
