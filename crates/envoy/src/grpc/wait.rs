//! State of a call that has left the fast path: its deadline, and the bytes it buffers.

use super::activity::Activity;
use hivemind_core::{Clock, SystemClock, Timestamp};
use std::future::{Pending, pending};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Timeout, timeout};
use tonic::Status;

/// A waiting call.
pub(super) struct CallWait {
    activity: Rc<Activity>,
    /// The bytes of its message that it buffers.
    buffered: usize,
    started: Timestamp,
    pub(super) deadline: Timestamp,
    pub(super) timer: Pin<Box<Timeout<Pending<()>>>>,
}

impl CallWait {
    pub(super) fn new(activity: &Rc<Activity>, time_limit: Duration) -> Self {
        let started = SystemClock.now();
        Self {
            activity: Rc::clone(activity),
            buffered: 0,
            started,
            deadline: started.saturating_add(time_limit),
            // A timeout of a pending future is a timer: whichever ends first, the call or this, ends the wait.
            timer: Box::pin(timeout(time_limit, pending())),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        SystemClock.now().since(self.started)
    }

    pub(super) fn set_buffered(&mut self, bytes: usize) -> Result<(), Status> {
        let is_within_limit = self.activity.replace_buffered(self.buffered, bytes);
        self.buffered = bytes;
        let limit_error = || Status::resource_exhausted("too many unfinished messages on one connection");
        is_within_limit.then_some(()).ok_or_else(limit_error)
    }
}

impl Drop for CallWait {
    fn drop(&mut self) {
        self.activity.replace_buffered(self.buffered, 0);
    }
}
