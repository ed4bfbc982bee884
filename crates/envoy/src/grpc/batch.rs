//! Batched execution of calls: a connection first reads everything available, then polls each new call once in its
//! own task, then writes all responses together. Only a call that has to wait becomes a separate task, with a time
//! limit.

use super::activity::Activity;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::timeout;

/// A call that was not polled yet.
pub(super) type PendingCall = Pin<Box<dyn Future<Output = ()>>>;

/// The calls of a connection that were not polled yet.
#[derive(Clone)]
pub(super) struct CallBatch {
    calls: Rc<RefCell<Vec<PendingCall>>>,
    activity: Rc<Activity>,
    /// Time limit of a call, until its response is read.
    time_limit: Duration,
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for CallBatch {
    fn execute(&self, call: F) {
        self.calls.borrow_mut().push(Box::pin(call));
    }
}

impl CallBatch {
    pub(super) fn new(activity: Rc<Activity>, time_limit: Duration) -> Self {
        Self { calls: Rc::default(), activity, time_limit }
    }

    /// Polls every new call once, and returns whether there were any. `spare` is an empty list for reuse, so that
    /// no batch allocates one.
    pub(super) fn run(&self, spare: &mut Vec<PendingCall>) -> bool {
        std::mem::swap(spare, &mut *self.calls.borrow_mut());
        let has_calls = !spare.is_empty();
        for call in spare.drain(..) {
            self.poll_once(call);
        }
        has_calls
    }

    fn poll_once(&self, mut call: PendingCall) {
        // No waker is needed: a call that is not ready becomes a task, which polls it again.
        let mut context = Context::from_waker(Waker::noop());
        // A call sets this flag while it is polled.
        self.activity.is_stream.set(false);
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context).is_pending()));
        let is_stream = self.activity.is_stream.get();
        match polled {
            Ok(true) => drop(tokio::task::spawn_local(self.clone().finish(call, is_stream))),
            Ok(false) => {}
            // Dropping it resets its stream; the connection and its other calls continue.
            Err(_) => tracing::error!("a call panicked; its stream is reset"),
        }
    }

    async fn finish(self, call: PendingCall, is_stream: bool) {
        let _tracked = self.activity.track(is_stream);
        if is_stream {
            call.await;
        } else if timeout(self.time_limit, call).await.is_err() {
            tracing::debug!("a call timed out before its response was read");
        }
    }

    /// Drops calls that will not be polled: they hold the batch, and the batch holds them.
    pub(super) fn clear(&self) {
        self.calls.borrow_mut().clear();
    }
}
