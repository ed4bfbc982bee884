//! Runs the calls of one connection in batches: the connection first reads all that
//! has come, then every new call is polled once in the connection's own task, then
//! the connection writes all their answers together. Only a call that has to wait
//! becomes a task of its own, and that not for ever.

use super::activity::Activity;
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::time::timeout;

/// A call that nobody has polled yet.
pub(super) type Call = Pin<Box<dyn Future<Output = ()>>>;

/// The calls that a connection has begun and nobody has polled yet.
#[derive(Clone)]
pub(super) struct Batch {
    calls: Rc<RefCell<Vec<Call>>>,
    activity: Rc<Activity>,
    /// How long a call may take, until its answer is taken.
    longest: Duration,
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Batch {
    fn execute(&self, call: F) {
        self.calls.borrow_mut().push(Box::pin(call));
    }
}

impl Batch {
    pub(super) fn new(activity: Rc<Activity>, longest: Duration) -> Self {
        Self { calls: Rc::default(), activity, longest }
    }

    /// Polls every new call once; says whether there were any. `emptied` is an empty
    /// list that is used again, so that no batch has to allocate one.
    pub(super) fn run(&self, emptied: &mut Vec<Call>) -> bool {
        std::mem::swap(emptied, &mut *self.calls.borrow_mut());
        let any = !emptied.is_empty();
        for call in emptied.drain(..) {
            self.poll_once(call);
        }
        any
    }

    fn poll_once(&self, mut call: Call) {
        // Nobody has to be woken: what is not ready is polled again, by the task that it becomes.
        let mut context = Context::from_waker(Waker::noop());
        // What a call says of itself, it says as it is polled.
        self.activity.is_stream.set(false);
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context).is_pending()));
        let is_stream = self.activity.is_stream.get();
        match polled {
            Ok(true) => drop(tokio::task::spawn_local(self.clone().wait_for(call, is_stream))),
            Ok(false) => {}
            // Its stream is reset as it is dropped here; the connection and its other calls go on.
            Err(_) => tracing::error!("a call ended in a panic; its caller sees a reset stream"),
        }
    }

    async fn wait_for(self, call: Call, is_stream: bool) {
        let _open = self.activity.opened(is_stream);
        if is_stream {
            call.await;
        } else if timeout(self.longest, call).await.is_err() {
            tracing::debug!("a call ended because nobody took its answer");
        }
    }

    /// Drops what nobody will poll any more: these calls hold the batch, and the batch them.
    pub(super) fn clear(&self) {
        self.calls.borrow_mut().clear();
    }
}
