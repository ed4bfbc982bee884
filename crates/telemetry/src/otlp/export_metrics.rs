//! Metrics of the exporters.

use crate::family::Family;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the exports by signal.
#[derive(Debug, Default)]
pub struct ExportMetrics {
    pub metrics: Arc<SignalMetrics>,
    pub traces: Arc<SignalMetrics>,
}

/// Counters of the exports of one signal.
#[derive(Debug, Default)]
pub struct SignalMetrics {
    /// Messages that a receiver accepted.
    pub sent: AtomicU64,
    /// Messages that were not accepted.
    pub failed: AtomicU64,
}

impl ExportMetrics {
    pub fn families(&self) -> [Family; 2] {
        let mut sent =
            Family::counter("hivemind_otlp_exports_total", "Messages that a receiver of OTLP has taken.");
        let mut failed = Family::counter("hivemind_otlp_failures_total", "Messages that it has not taken.");
        for (signal, metrics) in [("metrics", &self.metrics), ("traces", &self.traces)] {
            sent = sent.with([("signal", signal)], metrics.sent.load(Ordering::Relaxed));
            failed = failed.with([("signal", signal)], metrics.failed.load(Ordering::Relaxed));
        }
        [sent, failed]
    }
}
