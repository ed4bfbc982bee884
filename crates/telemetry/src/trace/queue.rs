//! What is on its way out. A decision never waits for it: what finds no room is dropped and counted. Nor does it wake
//! anybody, until the queue is half full: whoever empties it comes by itself.

use super::figures::TraceFigures;
use super::record::Record;
use super::span::Span;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most that may be on its way: a check with all its spans, or a round of the mesh, is one.
pub(super) const MOST: usize = 2_048;

/// What is told.
#[derive(Debug)]
pub(super) enum Told {
    Check(Box<Record>),
    Span(Box<Span>),
}

/// The way in.
#[derive(Debug)]
pub(super) struct Queue {
    way: Sender<Told>,
    half_full: Notify,
    figures: Arc<TraceFigures>,
}

/// The way out.
#[derive(Debug)]
pub struct Outlet(Receiver<Told>);

impl Queue {
    pub(super) fn new(figures: Arc<TraceFigures>) -> (Self, Outlet) {
        let (way, out) = channel(MOST);
        (Self { way, half_full: Notify::new(), figures }, Outlet(out))
    }

    pub(super) fn push(&self, told: Told) {
        if self.way.try_send(told).is_err() {
            self.figures.queue_full.fetch_add(1, Ordering::Relaxed);
        } else if self.way.capacity() <= MOST / 2 {
            self.half_full.notify_one();
        }
    }

    /// Counts what no receiver has taken.
    pub(super) fn lost(&self, count: usize) {
        self.figures.not_sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) async fn half_full(&self) {
        self.half_full.notified().await;
    }
}

impl Outlet {
    /// What came next, if anything did.
    pub(super) fn take(&mut self) -> Option<Told> {
        self.0.try_recv().ok()
    }
}
