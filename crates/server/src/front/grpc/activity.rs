//! What happens on a connection, for those who decide whether it may stay.

use std::cell::Cell;
use std::rc::Rc;

/// What a connection's unfinished messages may hold together; whole ones are never held.
const MOST_GATHERED: usize = 2 << 20;

/// What happens on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: Cell<u64>,
    /// Calls that are not answered yet, or whose answer has not been taken.
    calls: Cell<u64>,
    /// Those that end when the client says so, and not by themselves.
    streams: Cell<u64>,
    /// Whether the call that is being polled is one of the latter.
    pub(super) is_stream: Cell<bool>,
    gathered: Cell<usize>,
}

impl Activity {
    pub(super) fn call_begun(&self) {
        self.begun.set(self.begun.get() + 1);
    }

    /// How many calls have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun.get()
    }

    pub(super) fn has_calls(&self) -> bool {
        self.calls.get() > 0
    }

    pub(super) fn is_busy(&self) -> bool {
        self.has_calls() || self.streams.get() > 0
    }

    /// Notes a call that waits; it is over when what this gives back is dropped.
    pub(super) fn opened(self: &Rc<Self>, is_stream: bool) -> Open {
        let open = Open { activity: Rc::clone(self), is_stream };
        open.count().set(open.count().get() + 1);
        open
    }

    /// Notes that a call holds `now` bytes where it held `before`; says whether that is bearable.
    pub(super) fn gather(&self, before: usize, now: usize) -> bool {
        self.gathered.set(self.gathered.get() + now - before);
        self.gathered.get() <= MOST_GATHERED
    }
}

/// A call that waits.
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
