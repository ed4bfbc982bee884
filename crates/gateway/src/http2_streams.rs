//! HTTP/2 streams that can be reset individually. hyper polls a response body only when its client can receive more,
//! so the body cannot detect a client that does not read: instead the task that sends it is ended, and dropping it
//! resets the stream.

use super::now;
use hivemind_core::Timestamp;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

tokio::task_local! {
    static CURRENT: Rc<Http2Stream>;
}

/// Runs each stream on the thread where it arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamTasks;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for StreamTasks {
    fn execute(&self, task: F) {
        let stream = Rc::<Http2Stream>::default();
        let followed = Rc::clone(&stream);
        let mut task = Box::pin(task);
        tokio::task::spawn_local(CURRENT.scope(stream, async move {
            poll_fn(|cx| if followed.is_reset(cx) { Poll::Ready(()) } else { task.as_mut().poll(cx) }).await;
        }));
    }
}

/// One stream.
#[derive(Default)]
pub(super) struct Http2Stream {
    is_reset: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// When the current part began to wait for the client.
    untaken_since: Cell<Option<Timestamp>>,
    most: Cell<Duration>,
}

impl Http2Stream {
    /// The stream of the current task, if there is one.
    pub(super) fn current() -> Option<Rc<Self>> {
        CURRENT.try_with(Rc::clone).ok()
    }

    fn is_reset(&self, cx: &Context<'_>) -> bool {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.is_reset.get()
    }

    /// Sets how long the client may not read the response.
    pub(super) fn set_timeout(&self, most: Duration) {
        self.most.set(most);
    }

    /// Records that the response was polled, and whether it had data.
    pub(super) fn record_poll(&self, was_given: bool) {
        self.untaken_since.set(was_given.then(now));
    }

    /// Records the end of the response.
    pub(super) fn mark_ended(&self) {
        self.untaken_since.set(None);
    }

    /// Resets the stream if its client has not read for too long.
    pub(super) fn check(&self, now: Timestamp) {
        if self.untaken_since.get().is_some_and(|since| now.since(since) >= self.most.get()) {
            self.reset();
        }
    }

    fn reset(&self) {
        self.is_reset.set(true);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body::{Body, Frame};
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use std::convert::Infallible;
    use std::pin::Pin;

    const MOST: Duration = Duration::from_secs(60);

    /// An endless response.
    struct Endless(Rc<Http2Stream>);

    impl Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.record_poll(true);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 16 << 10])))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unread_stream_is_reset_and_others_continue() {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let streams = Rc::<RefCell<Vec<Rc<Http2Stream>>>>::default();
        let served = Rc::clone(&streams);
        let service = service_fn(move |_: Request<Incoming>| {
            let served = Rc::clone(&served);
            // The call runs in the connection's task, the body in the stream's task.
            async move {
                let stream = Http2Stream::current().expect("a stream is served");
                stream.set_timeout(MOST);
                served.borrow_mut().push(Rc::clone(&stream));
                Ok::<_, Infallible>(Response::new(Endless(stream)))
            }
        });
        let test = async {
            let connection = hyper::server::conn::http2::Builder::new(StreamTasks)
                .serve_connection(TokioIo::new(ours), service);
            tokio::task::spawn_local(connection);
            let client = hyper::client::conn::http2::Builder::new(crate::local_tasks::LocalTasks);
            let (mut sender, connection) = client.handshake(TokioIo::new(theirs)).await.unwrap();
            tokio::task::spawn_local(connection);
            let ask = || Request::new(Empty::<Bytes>::new());
            let mut stalled = sender.send_request(ask()).await.unwrap();
            // Until the client's window is full, and the server waits.
            tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>()).await.unwrap_err();
            let first = Rc::clone(&streams.borrow()[0]);
            let since = first.untaken_since.get().expect("it waits for the client");
            first.check(since.saturating_add(MOST / 2));
            assert!(!first.is_reset.get());
            first.check(since.saturating_add(MOST));
            let ended = loop {
                match stalled.body_mut().frame().await {
                    Some(Ok(_)) => {}
                    other => break other,
                }
            };
            assert!(matches!(ended, Some(Err(_))), "the stalled answer is reset, not ended");
            let mut second = sender.send_request(ask()).await.unwrap();
            assert!(second.body_mut().frame().await.unwrap().is_ok());
        };
        tokio::time::timeout(MOST, tokio::task::LocalSet::new().run_until(test)).await.expect("it ends");
    }
}
