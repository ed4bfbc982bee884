//! Activity of a connection: decides whether it may stay open.

use hivemind_tls::connections::ConnectionPermit;
use std::cell::Cell;
use std::rc::{Rc, Weak};

/// Maximum bytes of unfinished messages per connection; complete messages are never buffered.
const MAX_BUFFERED: usize = 2 << 20;

/// The activity of a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    call_count: Cell<u64>,
    /// Calls that are not answered yet, or whose response was not read.
    calls: Cell<u64>,
    /// Streams, which end only when the client ends them.
    streams: Cell<u64>,
    /// Whether the call that is being polled is a stream.
    pub(super) is_stream: Cell<bool>,
    buffered: Cell<usize>,
    /// Whether a call was authenticated; without API keys, whether one was answered successfully.
    is_authenticated: Cell<bool>,
    /// Weak, because a waiting call may outlast its connection.
    permit: Weak<ConnectionPermit>,
}

impl Activity {
    pub(super) fn new(permit: &Rc<ConnectionPermit>) -> Self {
        Self { permit: Rc::downgrade(permit), ..Self::default() }
    }

    pub(super) fn record_call(&self) {
        self.call_count.set(self.call_count.get() + 1);
        // Authenticated connections keep their place, so they pay for no clock.
        if !self.is_authenticated.get() {
            self.with_permit(ConnectionPermit::record_call);
        }
    }

    #[inline]
    pub(super) fn record_authenticated(&self) {
        if !self.is_authenticated.get() {
            self.is_authenticated.set(true);
            self.with_permit(ConnectionPermit::record_authenticated);
        }
    }

    #[cold]
    fn with_permit(&self, record: impl FnOnce(&ConnectionPermit)) {
        if let Some(permit) = self.permit.upgrade() {
            record(&permit);
        }
    }

    /// The number of calls so far.
    pub(super) fn call_count(&self) -> u64 {
        self.call_count.get()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.get() > 0
    }

    pub(super) fn is_busy(&self) -> bool {
        self.has_calls() || self.streams.get() > 0
    }

    /// Records a waiting call; it ends when the returned guard is dropped.
    pub(super) fn track(self: &Rc<Self>, is_stream: bool) -> OpenCall {
        if !self.is_busy() {
            self.with_permit(ConnectionPermit::record_call_start);
        }
        let open = OpenCall { activity: Rc::clone(self), is_stream };
        open.count().set(open.count().get() + 1);
        open
    }

    /// Records that a call buffers `after` bytes instead of `before`; returns whether the total is within its limit.
    pub(super) fn replace_buffered(&self, before: usize, after: usize) -> bool {
        self.buffered.set(self.buffered.get() + after - before);
        self.buffered.get() <= MAX_BUFFERED
    }
}

/// A waiting call.
pub(super) struct OpenCall {
    activity: Rc<Activity>,
    is_stream: bool,
}

impl OpenCall {
    fn count(&self) -> &Cell<u64> {
        if self.is_stream { &self.activity.streams } else { &self.activity.calls }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.count().set(self.count().get() - 1);
        if !self.activity.is_busy() {
            self.activity.with_permit(ConnectionPermit::record_call_end);
        }
    }
}
