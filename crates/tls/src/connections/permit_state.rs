//! State that a connection shares with the table of its listener: its activity, and whether it has to close.

use hivemind_core::Timestamp;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::task::Waker;

/// Set in `calls` when the table has filed the connection as busy and must be notified of the end of its calls.
const WATCHED: u32 = 1 << 31;

/// The shared state of one connection.
#[derive(Debug, Default)]
pub(super) struct PermitState {
    /// Calls in flight, and [`WATCHED`].
    calls: AtomicU32,
    /// When the last call ended, in nanoseconds; 0 before the first.
    last_call: AtomicU64,
    is_authenticated: AtomicBool,
    is_evicted: AtomicBool,
    /// A connection stays in one task, so its waker never changes.
    waker: OnceLock<Waker>,
}

impl PermitState {
    pub(super) fn record_call_start(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the end of a call; returns whether the table must be notified.
    pub(super) fn record_call_end(&self, now: Timestamp) -> bool {
        self.record_last_call(now);
        self.calls.fetch_sub(1, Ordering::AcqRel) == WATCHED | 1
    }

    pub(super) fn record_last_call(&self, now: Timestamp) {
        self.last_call.store(now.as_nanos(), Ordering::Release);
    }

    pub(super) fn last_call(&self) -> Timestamp {
        Timestamp::from_nanos(self.last_call.load(Ordering::Acquire))
    }

    /// Whether a call is in flight. If so, the end of the last call is reported to the table.
    pub(super) fn watch_if_busy(&self) -> bool {
        let is_busy = self.calls.fetch_or(WATCHED, Ordering::AcqRel) & !WATCHED > 0;
        if !is_busy {
            self.calls.fetch_and(!WATCHED, Ordering::AcqRel);
        }
        is_busy
    }

    /// Ends the watch, unless a new call has started.
    pub(super) fn unwatch_if_idle(&self) -> bool {
        self.calls.compare_exchange(WATCHED, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Records an authenticated call; returns whether it is the first one.
    pub(super) fn record_authenticated(&self) -> bool {
        !self.is_authenticated.load(Ordering::Relaxed) && !self.is_authenticated.swap(true, Ordering::Relaxed)
    }

    /// Orders the connection to close.
    pub(super) fn evict(&self) {
        self.is_evicted.store(true, Ordering::Release);
        // Either this sees the waker, or `set_waker` sees the flag.
        fence(Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }

    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Ordering::Acquire)
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        if self.waker.get().is_none() {
            self.waker.get_or_init(|| waker.clone());
            fence(Ordering::SeqCst);
        }
    }
}
