//! Metrics of the shared store; all zero with counters in memory.

use super::family::{Family, MetricType};

/// Limits that were decided without the shared store since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fallbacks {
    pub open: u64,
    pub closed: u64,
    pub local: u64,
    /// By this node alone, before the store was available.
    pub start: u64,
}

/// Metrics of the shared store.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedStoreMetrics {
    /// Whether it is reachable; true without a shared store.
    pub is_up: bool,
    pub script_calls: u64,
    pub commands: u64,
    pub timeouts: u64,
    pub errors: u64,
    pub breaker_openings: u64,
    pub connections: u64,
    pub over_cache_hits: u64,
    pub lease_hits: u64,
    pub fallbacks: Fallbacks,
    /// Requests refused because an operator blocked one of their keys.
    pub blocked: u64,
}

impl SharedStoreMetrics {
    pub(super) fn families(&self) -> Vec<Family> {
        let counters = [
            ("script_calls", "Calls of the script that decides.", self.script_calls),
            ("commands", "Commands sent to the shared store.", self.commands),
            ("timeouts", "Commands given up because no reply came in time.", self.timeouts),
            ("errors", "Commands that failed otherwise.", self.errors),
            ("breaker_openings", "Times that it was given up for a while.", self.breaker_openings),
            ("connections", "Connections to it that were made.", self.connections),
            (
                "over_cache_hits",
                "Refusals known from the last one, without a round trip.",
                self.over_cache_hits,
            ),
            ("lease_hits", "Decisions from a leased budget, without a round trip.", self.lease_hits),
        ];
        let up =
            Family::new("hivemind_store_up", MetricType::Gauge, "Whether the shared store can be reached.");
        let mut families = vec![up.plain(u64::from(self.is_up))];
        families.extend(counters.map(|(name, help, value)| {
            Family::counter(format!("hivemind_store_{name}_total"), help).plain(value)
        }));
        let Fallbacks { open, closed, local, start } = self.fallbacks;
        let fallbacks =
            [("open", open), ("closed", closed), ("local", local), ("start", start)].into_iter().fold(
                Family::counter(
                    "hivemind_store_fallbacks_total",
                    "Limits decided without the shared store, by policy.",
                ),
                |family, (policy, count)| family.with([("policy", policy)], count),
            );
        families.push(fallbacks);
        families.push(
            Family::counter(
                "hivemind_blocked_total",
                "Requests refused because an operator has blocked a key.",
            )
            .plain(self.blocked),
        );
        families
    }
}
