//! Runs the calls of one connection in batches: the connection first reads all that
//! has come, then every new call is polled once in the connection's own task, then
//! the connection writes all their answers together. Only a call that has to wait
//! becomes a task of its own.

use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// A call that nobody has polled yet.
pub(super) type Call = Pin<Box<dyn Future<Output = ()>>>;

/// The calls that a connection has begun and nobody has polled yet.
#[derive(Clone, Default)]
pub(super) struct Batch(Rc<RefCell<Vec<Call>>>);

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for Batch {
    fn execute(&self, call: F) {
        self.0.borrow_mut().push(Box::pin(call));
    }
}

impl Batch {
    /// Polls every new call once; says whether there were any. `emptied` is an empty
    /// list that is used again, so that no batch has to allocate one.
    pub(super) fn run(&self, emptied: &mut Vec<Call>) -> bool {
        std::mem::swap(emptied, &mut *self.0.borrow_mut());
        let any = !emptied.is_empty();
        for call in emptied.drain(..) {
            run(call);
        }
        any
    }
}

fn run(mut call: Call) {
    // Nobody has to be woken: what is not ready is polled again, by the task that it becomes.
    let mut context = Context::from_waker(Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context).is_pending())) {
        Ok(true) => drop(tokio::task::spawn_local(call)),
        Ok(false) => {}
        // Its stream is reset as it is dropped here; the connection and its other calls go on.
        Err(_) => tracing::error!("a call ended in a panic; its caller sees a reset stream"),
    }
}
