// What needs somebody's attention, worst first. Nothing here is guessed: each line is something the server said.

import { live } from "./live.js";
import { overflowed, rates } from "./history.js";
import { exact, visible } from "./format.js";

/** `{ kind: "bad" | "warn", text, view }`. */
export function matters() {
  const all = [];
  const say = (kind, text, view) => all.push({ kind, text, view });
  const { config, version, peers, stats } = live;
  if (config?.rules?.last_error) say("bad", "The rules on disk have mistakes; the ones before them stay in force.", "configuration");
  if (config?.config?.last_error) say("bad", "The configuration on disk has mistakes; the one before it stays in force.", "configuration");
  for (const [name, component] of Object.entries(config?.components ?? {})) {
    if (component.state === "failed") say("bad", `${visible(name)}: ${visible(component.reason ?? "failed", 200)}`, "configuration");
    if (component.state === "degraded" && name !== "mesh") say("warn", `${visible(name)}: ${visible(component.reason ?? "degraded", 200)}`, "configuration");
  }
  if (rates()?.errors > 0) say("bad", "Requests come in that cannot be decided: there are no rules, storage is away, or callers may not ask. The log says why.", "configuration");
  const lost = (peers?.peers ?? []).filter(peer => peer.state !== "alive");
  for (const peer of lost.slice(0, 5)) say(peer.state === "suspect" ? "warn" : "bad", `The peer ${visible(peer.name)} is ${peer.state}.`, "mesh");
  if (lost.length > 5) say("bad", `And ${lost.length - 5} more peers are not alive.`, "mesh");
  if (stats?.is_counted === false) say("warn", "Requests are not counted here, because nobody reads metrics: rates stay empty.", "configuration");
  if (config?.config?.needs_restart?.length > 0) say("warn", "What was changed in the configuration is not all in force: some of it needs a restart.", "configuration");
  if (version?.enabled === false) say("bad", "Limiting is switched off: every request is allowed.", "configuration");
  if (version?.shadow_mode) say("warn", "Shadow mode: requests are counted, and none is refused.", "configuration");
  if (overflowed() > 0) say("bad", `${exact(overflowed())} requests of the last minutes shared a counter for want of room: clients are refused early. Raise rate_limiting.max_keys.`, "keys");
  const isFull = stats?.max_keys > 0 && stats.keys_in_memory >= 0.9 * stats.max_keys;
  const then = version?.storage === "mesh" ? "each node will soon count new ones for itself" : "new ones will soon share a counter";
  if (isFull) say("warn", `${exact(stats.keys_in_memory)} of ${exact(stats.max_keys)} keys are in memory: ${then}.`, "keys");
  return all.sort((one, other) => (one.kind === other.kind ? 0 : one.kind === "bad" ? -1 : 1));
}
