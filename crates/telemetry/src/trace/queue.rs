//! What is on its way out. A decision never waits for it: what finds no room is dropped and counted. Nor does it wake
//! anybody, until the queue is half full: whoever empties it comes by itself.

use super::metrics::TraceMetrics;
use super::span::Span;
use super::span_record::SpanRecord;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most that may be on its way: a check with all its spans, or a round of the mesh, is one.
pub(super) const MOST: usize = 2_048;

/// One entry of the queue: a decision with all its spans, or a single span.
#[derive(Debug)]
pub(super) enum TraceItem {
    Decision(Box<SpanRecord>),
    Span(Box<Span>),
}

/// The way in.
#[derive(Debug)]
pub(super) struct TraceQueue {
    way: Sender<TraceItem>,
    half_full: Notify,
    metrics: Arc<TraceMetrics>,
}

/// The way out.
#[derive(Debug)]
pub struct TraceReceiver(Receiver<TraceItem>);

impl TraceQueue {
    pub(super) fn new(metrics: Arc<TraceMetrics>) -> (Self, TraceReceiver) {
        let (way, out) = channel(MOST);
        (Self { way, half_full: Notify::new(), metrics }, TraceReceiver(out))
    }

    pub(super) fn push(&self, told: TraceItem) {
        if self.way.try_send(told).is_err() {
            self.metrics.queue_full.fetch_add(1, Ordering::Relaxed);
        } else if self.way.capacity() <= MOST / 2 {
            self.half_full.notify_one();
        }
    }

    /// Counts what no receiver has taken.
    pub(super) fn lost(&self, count: usize) {
        self.metrics.not_sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) async fn half_full(&self) {
        self.half_full.notified().await;
    }
}

impl TraceReceiver {
    /// What came next, if anything did.
    pub(super) fn take(&mut self) -> Option<TraceItem> {
        self.0.try_recv().ok()
    }
}
