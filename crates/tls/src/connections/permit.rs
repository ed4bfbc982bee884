//! Permit of one connection: reports its calls to the table of its listener, and whether it has to close.

use super::limit::ConnectionLimit;
use super::permit_state::PermitState;
use super::table::Slot;
use hivemind_core::{Clock, MonotonicClock};
use std::sync::Arc;
use std::task::{Context, Poll};

/// The permit of a connection; returned on drop.
#[derive(Debug)]
pub struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    state: Arc<PermitState>,
    slot: Slot,
}

impl ConnectionPermit {
    pub(super) const fn new(limit: Arc<ConnectionLimit>, slot: Slot, state: Arc<PermitState>) -> Self {
        Self { limit, state, slot }
    }

    /// Records an authenticated call: the connection is no longer closed for others. Only the first one takes the lock
    /// of the table.
    pub fn record_authenticated(&self) {
        if self.state.record_authenticated() {
            self.limit.record_authenticated(self.slot);
        }
    }

    /// Records an unauthenticated call that was answered immediately.
    pub fn record_call(&self) {
        self.state.record_last_call(MonotonicClock.now());
    }

    /// Records the start of an unauthenticated call; [`Self::record_call_end`] must follow.
    pub fn record_call_start(&self) {
        self.state.record_call_start();
    }

    pub fn record_call_end(&self) {
        if self.state.record_call_end(MonotonicClock.now()) {
            self.limit.record_idle(self.slot);
        }
    }

    /// Whether the connection has to close for another one.
    pub fn is_evicted(&self) -> bool {
        self.state.is_evicted()
    }

    /// Ready when the connection has to close for another one. Only the task of the first poll is woken.
    pub fn poll_evicted(&self, cx: &Context<'_>) -> Poll<()> {
        self.state.set_waker(cx.waker());
        if self.state.is_evicted() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until the connection has to close for another one. Only the task of the first poll is woken.
    pub async fn evicted(&self) {
        std::future::poll_fn(|cx| self.poll_evicted(cx)).await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limit.release(self.slot);
    }
}
