//! What is counted of the store that nodes share. All zeros where counters are in memory alone.

use super::exposition::head;
use crate::storage::Fallbacks;
use std::fmt::{self, Write};

/// What is counted of the store that nodes share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreFigures {
    /// Whether it can be reached; so it is where there is none to reach.
    pub(crate) is_up: bool,
    pub(crate) script_calls: u64,
    pub(crate) commands: u64,
    pub(crate) timeouts: u64,
    pub(crate) errors: u64,
    pub(crate) breaker_openings: u64,
    pub(crate) connections: u64,
    pub(crate) over_cache_hits: u64,
    pub(crate) lease_hits: u64,
    pub(crate) fallbacks: Fallbacks,
}

impl StoreFigures {
    pub(super) fn write(&self, page: &mut String) -> fmt::Result {
        for (name, kind, help, value) in [
            ("up", "gauge", "Whether the shared store can be reached.", u64::from(self.is_up)),
            ("script_calls", "counter", "Calls of the script that decides.", self.script_calls),
            ("commands", "counter", "Commands sent to the shared store.", self.commands),
            ("timeouts", "counter", "Commands given up because no reply came in time.", self.timeouts),
            ("errors", "counter", "Commands that failed otherwise.", self.errors),
            ("breaker_openings", "counter", "Times that it was given up for a while.", self.breaker_openings),
            ("connections", "counter", "Connections to it that were made.", self.connections),
            (
                "over_cache_hits",
                "counter",
                "Refusals known from the last one, without a round trip.",
                self.over_cache_hits,
            ),
            (
                "lease_hits",
                "counter",
                "Decisions from a leased budget, without a round trip.",
                self.lease_hits,
            ),
        ] {
            let name = format!("hivemind_store_{name}");
            head(page, &name, kind, help)?;
            writeln!(page, "{name} {value}")?;
        }
        let name = "hivemind_store_fallbacks";
        head(page, name, "counter", "Limits decided without the shared store, by policy.")?;
        let Fallbacks { open, closed, local, start } = self.fallbacks;
        for (policy, count) in [("open", open), ("closed", closed), ("local", local), ("start", start)] {
            writeln!(page, "{name}{{policy=\"{policy}\"}} {count}")?;
        }
        Ok(())
    }
}
