// Problems reported by the server, worst first.

import { live } from "./live.js";
import { overflowed, rates } from "./history.js";
import { exact, visible } from "./format.js";

/** `{ kind: "bad" | "warn", text, view }`. */
export function problems() {
  const all = [];
  const say = (kind, text, view) => all.push({ kind, text, view });
  const { config, version, peers, stats } = live;
  if (config?.rules?.last_error) say("bad", "The rules on disk are invalid; the previous rules stay active.", "configuration");
  if (config?.config?.last_error) say("bad", "The configuration on disk is invalid; the previous one stays active.", "configuration");
  for (const [name, component] of Object.entries(config?.components ?? {})) {
    if (component.state === "failed") say("bad", `${visible(name)}: ${visible(component.reason ?? "failed", 200)}`, "configuration");
    if (component.state === "degraded" && name !== "mesh") say("warn", `${visible(name)}: ${visible(component.reason ?? "degraded", 200)}`, "configuration");
  }
  if (rates()?.errors > 0) say("bad", "Some requests cannot be decided: rules are missing, storage is unreachable, or callers are not authorized. The log has the cause.", "configuration");
  const lost = (peers?.peers ?? []).filter(peer => peer.state !== "alive");
  for (const peer of lost.slice(0, 5)) say(peer.state === "suspect" ? "warn" : "bad", `The peer ${visible(peer.name)} is ${peer.state}.`, "mesh");
  if (lost.length > 5) say("bad", `And ${lost.length - 5} more peers are not alive.`, "mesh");
  if (stats?.is_counted === false) say("warn", "Requests are not counted, because metrics are disabled: rates stay empty.", "configuration");
  if (config?.config?.needs_restart?.length > 0) say("warn", "Some configuration changes need a restart to take effect.", "configuration");
  if (version?.enabled === false) say("bad", "Rate limiting is disabled: every request is allowed.", "configuration");
  if (version?.shadow_mode) say("warn", "Shadow mode: requests are counted, but not refused.", "configuration");
  if (overflowed() > 0) say("bad", `${exact(overflowed())} requests of the last minutes shared a counter because the table is full: clients are refused early. Raise rate_limiting.max_keys.`, "keys");
  const isFull = stats?.max_keys > 0 && stats.keys_in_memory >= 0.9 * stats.max_keys;
  const then = version?.storage === "mesh" ? "each node will soon count new ones for itself" : "new ones will soon share a counter";
  if (isFull) say("warn", `${exact(stats.keys_in_memory)} of ${exact(stats.max_keys)} keys are in memory: ${then}.`, "keys");
  return all.sort((one, other) => (one.kind === other.kind ? 0 : one.kind === "bad" ? -1 : 1));
}
