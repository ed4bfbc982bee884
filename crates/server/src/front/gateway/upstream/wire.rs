//! A connection of HTTP/1.1 to an upstream, driven by whoever waits for its answer. With a task of its own
//! it would be woken for the request, for the answer and for each part of it, and wake the other each time:
//! a small request would pay for four turns more than the two that it needs. Nobody drives one that is kept.
//! What happened to it meanwhile is seen by who sends on it next, before anything is sent.

use crate::front::gateway::brief::Brief;
use crate::front::gateway::dial::Stream;
use crate::front::gateway::request_body::RequestBody;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

type Connection = http1::Connection<TokioIo<Brief<Box<dyn Stream>>>, RequestBody>;

pub(in crate::front::gateway) struct Wire {
    sender: http1::SendRequest<RequestBody>,
    /// None once it has ended, or has a task of its own.
    connection: Option<Box<Connection>>,
    bell: Arc<Bell>,
    /// What the bell is rung by.
    cord: Waker,
}

/// Wakes whoever drives a connection, but not for what they do to it themselves: they look at it next anyhow,
/// and would be given another turn to find nothing.
#[derive(Default)]
struct Bell {
    driver: Mutex<Option<Waker>>,
    is_held: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_held.load(Ordering::Relaxed)
            && let Some(driver) = &*self.driver()
        {
            driver.wake_by_ref();
        }
    }
}

impl Bell {
    /// Only ever taken by the thread that the connection belongs to; but a waker is for all.
    fn driver(&self) -> MutexGuard<'_, Option<Waker>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_for(&self, waker: &Waker) {
        let mut driver = self.driver();
        if !driver.as_ref().is_some_and(|driver| driver.will_wake(waker)) {
            *driver = Some(waker.clone());
        }
    }

    /// Does something to a connection that is driven next.
    fn held<T>(&self, act: impl FnOnce() -> T) -> T {
        self.is_held.store(true, Ordering::Relaxed);
        let done = act();
        self.is_held.store(false, Ordering::Relaxed);
        done
    }
}

impl Wire {
    pub(in crate::front::gateway) fn new(
        sender: http1::SendRequest<RequestBody>,
        connection: Connection,
    ) -> Self {
        let bell = Arc::<Bell>::default();
        let cord = Waker::from(Arc::clone(&bell));
        Self { sender, connection: Some(Box::new(connection)), bell, cord }
    }

    /// Goes on with what is under way; says whether it was here to do so.
    fn drive(&mut self, waker: &Waker) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        self.bell.is_for(waker);
        if let Poll::Ready(ended) = Pin::new(&mut **connection).poll(&mut Context::from_waker(&self.cord)) {
            // As it goes, it gives back what it has not sent.
            self.connection = None;
            note(ended);
        }
        true
    }

    /// Whether whoever waits for an answer drives it.
    pub(super) const fn is_driven(&self) -> bool {
        self.connection.is_some()
    }

    /// Gives it a task of its own, for as long as it is open: for a body that goes on while nobody takes the
    /// answer to it.
    pub(super) fn runs_by_itself(&mut self) {
        if let Some(connection) = self.connection.take() {
            tokio::task::spawn_local(async move { note(connection.await) });
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        let mut sent = pin!(self.bell.held(|| self.sender.try_send_request(request)));
        poll_fn(|cx| {
            // Nothing but being driven brings the answer.
            if self.drive(cx.waker()) {
                sent.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            } else {
                sent.as_mut().poll(cx)
            }
        })
        .await
    }

    /// The next part of an answer.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let mut body = Pin::new(body);
        if !self.is_driven() {
            return body.poll_frame(cx);
        }
        let mut nobody = Context::from_waker(Waker::noop());
        // Asked for it, the connection hands over what it has, or reads on.
        let polled = self.bell.held(|| body.as_mut().poll_frame(&mut nobody));
        if polled.is_pending() && self.drive(cx.waker()) {
            return body.poll_frame(&mut nobody);
        }
        polled
    }

    /// Whether another request can be sent.
    pub(super) fn is_ready(&mut self) -> bool {
        // The last look at it may have been before it was through with the answer.
        self.sender.is_ready() || self.drive(Waker::noop()) && self.sender.is_ready()
    }

    /// Nobody drives it any more.
    pub(super) fn is_left(&self) {
        *self.bell.driver() = None;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

fn note(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!("a connection to an upstream ended: {error}");
    }
}
