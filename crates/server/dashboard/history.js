// Rates out of counters. Five minutes are kept and no more, of so many series and no more.

const KEPT = 300;
const MOST_SERIES = 200;
/** A rate is that of the last seconds: one that jumps each second cannot be read. */
const SMOOTHED_OVER = 5;

const points = [];
let snapshots = [];
const series = new Map();

export const nameOf = (domain, key) => JSON.stringify([domain, key ?? null]);

/** Takes what the server counted so far. */
export function record(stats) {
  const last = snapshots.at(-1);
  // It was started anew: its counters begin at nothing, and a rate across that would be a lie.
  if (last && (stats.uptime_ms < last.uptime_ms || stats.totals.ok < last.totals.ok)) snapshots = [];
  if (last && stats.t_ms <= last.t_ms && snapshots.length > 0) return;
  const before = snapshots.at(-1);
  snapshots.push({ ...stats, byName: byName(stats) });
  if (snapshots.length > SMOOTHED_OVER + 1) snapshots.shift();
  if (!before) {
    points.push({ t: stats.t_ms, isGap: true });
  } else {
    const seconds = (stats.t_ms - before.t_ms) / 1_000;
    const each = field => (stats.totals[field] - before.totals[field]) / seconds;
    points.push({ t: stats.t_ms, ok: each("ok"), refused: each("over_limit"), errors: each("errors"), p50: latency(0.5), p99: latency(0.99) });
    recordSeries(before, snapshots.at(-1), seconds);
  }
  if (points.length > KEPT) points.splice(0, points.length - KEPT);
}

function byName(stats) {
  const all = new Map();
  for (const domain of stats.domains ?? []) all.set(nameOf(domain.domain), domain);
  for (const rule of stats.rules ?? []) all.set(nameOf(rule.domain, rule.key), rule);
  return all;
}

function recordSeries(before, now, seconds) {
  for (const [name, counted] of now.byName) {
    const refused = counted.over_limit - (before.byName.get(name)?.over_limit ?? 0);
    let kept = series.get(name);
    if (!kept) {
      // Who is never refused needs no line.
      if (refused <= 0 || series.size >= MOST_SERIES) continue;
      kept = [];
      series.set(name, kept);
    }
    kept.push({ t: now.t_ms, refused: refused / seconds });
    if (kept.length > KEPT) kept.shift();
    if (kept.every(point => point.refused <= 0)) series.delete(name);
  }
}

/** The time that such a share of the last seconds' requests did not pass, in milliseconds; null where there were none. */
export function latency(part, name = null) {
  const [first, last] = [snapshots[0], snapshots.at(-1)];
  const edges = last?.latency_ms?.edges;
  const of = snapshot => (name === null ? snapshot?.latency_ms : snapshot?.byName.get(name))?.counts;
  if (!edges || first === last || !of(last)) return null;
  const counts = of(last).map((count, index) => count - (of(first)?.[index] ?? 0));
  const rank = part * counts.reduce((sum, count) => sum + count, 0);
  let [below, lower] = [0, 0];
  for (let index = 0; index < edges.length; index += 1) {
    if (counts[index] > 0 && below + counts[index] >= rank) return lower + ((edges[index] - lower) * (rank - below)) / counts[index];
    below += counts[index];
    lower = edges[index];
  }
  return rank > 0 ? lower : null;
}

/** The last five minutes, in seconds. */
export const minutes = () => points;

/** The refusals of one domain or rule in that time. */
export const refusalsOf = name => series.get(name) ?? [];

/** Since when somebody is refused without a pause longer than some seconds; null where nobody is. */
export function refusedSince(list) {
  let since = null;
  let last = null;
  for (const point of list) {
    if (point.refused > 0) {
      if (since === null || point.t - last > 15_000) since = point.t;
      last = point.t;
    }
  }
  const newest = list.at(-1)?.t ?? 0;
  return last !== null && newest - last <= 15_000 ? { since, isOlder: since === list[0].t } : null;
}

/** Requests and refusals a second, of all or of one; null until there are two counts. */
export function rates(name = null) {
  const [first, last] = [snapshots[0], snapshots.at(-1)];
  if (!first || first === last) return null;
  const seconds = (last.t_ms - first.t_ms) / 1_000;
  const of = snapshot => (name === null ? snapshot.totals : snapshot.byName.get(name)) ?? { ok: 0, over_limit: 0 };
  const refused = Math.max(0, of(last).over_limit - of(first).over_limit) / seconds;
  const ok = Math.max(0, of(last).ok - of(first).ok) / seconds;
  return { requests: ok + refused, refused };
}
