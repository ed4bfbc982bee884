//! Trace queue: spans to export. A decision never waits for it: entries that do not fit are dropped and counted. The
//! exporter polls the queue and is woken only when it is half full.

use super::metrics::TraceMetrics;
use super::span::Span;
use super::span_record::SpanRecord;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Capacity: a check with all its spans, or a round of the mesh, is one entry.
pub(super) const MOST: usize = 2_048;

/// One entry of the queue: a decision with all its spans, or a single span.
#[derive(Debug)]
pub(super) enum TraceItem {
    Decision(Box<SpanRecord>),
    Span(Box<Span>),
}

/// The sending side.
#[derive(Debug)]
pub(super) struct TraceQueue {
    way: Sender<TraceItem>,
    half_full: Notify,
    metrics: Arc<TraceMetrics>,
}

/// The receiving side.
#[derive(Debug)]
pub struct TraceReceiver(Receiver<TraceItem>);

impl TraceQueue {
    pub(super) fn new(metrics: Arc<TraceMetrics>) -> (Self, TraceReceiver) {
        let (way, out) = channel(MOST);
        (Self { way, half_full: Notify::new(), metrics }, TraceReceiver(out))
    }

    pub(super) fn push(&self, item: TraceItem) {
        if self.way.try_send(item).is_err() {
            self.metrics.queue_full.fetch_add(1, Ordering::Relaxed);
        } else if self.way.capacity() <= MOST / 2 {
            self.half_full.notify_one();
        }
    }

    /// Counts entries that the receiver did not accept.
    pub(super) fn lost(&self, count: usize) {
        self.metrics.not_sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) async fn half_full(&self) {
        self.half_full.notified().await;
    }
}

impl TraceReceiver {
    /// The next entry, if any.
    pub(super) fn take(&mut self) -> Option<TraceItem> {
        self.0.try_recv().ok()
    }
}
