//! Metrics of dropped traces.

use crate::family::Family;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of dropped traces: a check with all its spans, or a round of the mesh, counts as one.
#[derive(Debug, Default)]
pub struct TraceMetrics {
    /// Dropped because the queue was full.
    pub queue_full: AtomicU64,
    /// Dropped because the receiver did not accept them.
    pub not_sent: AtomicU64,
}

impl TraceMetrics {
    pub fn family(&self) -> Family {
        let name = "hivemind_traces_dropped_total";
        Family::counter(name, "Checks and rounds of the mesh that were sampled and not exported.")
            .with([("reason", "queue_full")], self.queue_full.load(Ordering::Relaxed))
            .with([("reason", "not_sent")], self.not_sent.load(Ordering::Relaxed))
    }
}
