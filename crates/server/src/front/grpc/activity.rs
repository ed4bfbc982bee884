//! Activity of a connection: decides whether it may stay open.

use std::cell::Cell;
use std::rc::Rc;

/// Maximum bytes of unfinished messages per connection; complete messages are never buffered.
const MOST_GATHERED: usize = 2 << 20;

/// The activity of a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: Cell<u64>,
    /// Calls that are not answered yet, or whose response was not read.
    calls: Cell<u64>,
    /// Streams, which end only when the client ends them.
    streams: Cell<u64>,
    /// Whether the call that is being polled is a stream.
    pub(super) is_stream: Cell<bool>,
    gathered: Cell<usize>,
}

impl Activity {
    pub(super) fn call_begun(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// The number of calls so far.
    pub(super) fn begun(&self) -> u64 {
        self.begun.get()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.get() > 0
    }

    pub(super) fn is_busy(&self) -> bool {
        self.has_calls() || self.streams.get() > 0
    }

    /// Records a waiting call; it ends when the returned guard is dropped.
    pub(super) fn opened(self: &Rc<Self>, is_stream: bool) -> Open {
        let open = Open { activity: Rc::clone(self), is_stream };
        open.count().set(open.count().get() + 1);
        open
    }

    /// Records that a call buffers `now` bytes instead of `before`; returns whether the total is within its limit.
    pub(super) fn gather(&self, before: usize, now: usize) -> bool {
        self.gathered.set(self.gathered.get() + now - before);
        self.gathered.get() <= MOST_GATHERED
    }
}

/// A waiting call.
pub(super) struct Open {
    activity: Rc<Activity>,
    is_stream: bool,
}

impl Open {
    fn count(&self) -> &Cell<u64> {
        if self.is_stream { &self.activity.streams } else { &self.activity.calls }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.count().set(self.count().get() - 1);
    }
}
