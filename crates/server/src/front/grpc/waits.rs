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
pub(super) struct Waits {
    activity: Rc<Activity>,
    /// The bytes of its message that it buffers.
    gathered: usize,
    began: Timestamp,
    pub(super) deadline: Timestamp,
    pub(super) timer: Pin<Box<Timeout<Pending<()>>>>,
}

impl Waits {
    pub(super) fn new(activity: &Rc<Activity>, granted: Duration) -> Self {
        let began = SystemClock.now();
        Self {
            activity: Rc::clone(activity),
            gathered: 0,
            began,
            deadline: began.saturating_add(granted),
            // A timeout of a pending future is a timer: whichever ends first, the call or this, ends the wait.
            timer: Box::pin(timeout(granted, pending())),
        }
    }

    pub(super) fn until_now(&self) -> Duration {
        SystemClock.now().since(self.began)
    }

    pub(super) fn gather(&mut self, bytes: usize) -> Result<(), Status> {
        let bearable = self.activity.gather(self.gathered, bytes);
        self.gathered = bytes;
        let too_much = || Status::resource_exhausted("too many unfinished messages on one connection");
        bearable.then_some(()).ok_or_else(too_much)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.activity.gather(self.gathered, 0);
    }
}
