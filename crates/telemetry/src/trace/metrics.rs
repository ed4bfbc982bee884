//! What is counted of traces that were not told.

use crate::family::Family;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted of traces that were not told: a check with all its spans, or a round of the mesh, is one.
#[derive(Debug, Default)]
pub struct TraceMetrics {
    /// Those that found no room on their way out.
    pub queue_full: AtomicU64,
    /// Those that no receiver has taken.
    pub not_sent: AtomicU64,
}

impl TraceMetrics {
    pub fn family(&self) -> Family {
        let name = "hivemind_traces_dropped_total";
        Family::counter(name, "Checks and rounds of the mesh that were followed and not told.")
            .with([("reason", "queue_full")], self.queue_full.load(Ordering::Relaxed))
            .with([("reason", "not_sent")], self.not_sent.load(Ordering::Relaxed))
    }
}
