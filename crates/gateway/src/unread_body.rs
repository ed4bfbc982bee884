//! Unread request bodies: drained within bounds, or announced with `Connection: close`.
//!
//! hyper closes an HTTP/1 connection whose request body was not read, and does not announce it: the client loses its
//! next request, or even the response. A short body is therefore read to its end, which keeps the connection open.
//! After a longer one the response says `Connection: close`. Both are bounded in bytes and in time.

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Longer bodies end their connection: a new connection costs less than reading them.
const MAX_DRAINED: u64 = 64 << 10;
/// Time limit to read such a body.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How long a response waits for the end of a body of unknown length, because its head says what follows.
const END_WAIT: Duration = Duration::from_millis(250);
/// What is discarded of a longer body before its connection closes: closing a socket with unread bytes discards the
/// response.
const MAX_DISCARDED: u64 = 32 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(30);

/// A request body that returns to its [`BodyRemainder`] if it is dropped before its end.
pub struct RecoverableBody {
    inner: Option<Incoming>,
    has_failed: bool,
    has_ended: bool,
    shared: Option<Arc<RemainderCell>>,
}

/// What a handler leaves of a request body.
pub struct BodyRemainder(Option<Arc<RemainderCell>>);

#[derive(Default)]
struct RemainderCell {
    state: Mutex<RemainderState>,
    changed: Notify,
}

#[derive(Default)]
enum RemainderState {
    /// The handler still has the body.
    #[default]
    InUse,
    Unread(Incoming),
    /// It was read completely.
    Ended,
    /// It is not valid HTTP, or the client has disconnected.
    Failed,
}

impl RecoverableBody {
    /// The body for the handler, and what it will leave of it.
    pub fn new(inner: Incoming) -> (Self, BodyRemainder) {
        let shared = (!inner.is_end_stream()).then(Arc::<RemainderCell>::default);
        let body = Self { inner: Some(inner), has_failed: false, has_ended: false, shared: shared.clone() };
        (body, BodyRemainder(shared))
    }

    /// A body that needs no such care: streams of HTTP/2 end independently.
    pub fn of_http2(inner: Incoming) -> (Self, BodyRemainder) {
        let body = Self { inner: Some(inner), has_failed: false, has_ended: false, shared: None };
        (body, BodyRemainder(None))
    }
}

impl Drop for RecoverableBody {
    fn drop(&mut self) {
        let Some(shared) = self.shared.take() else { return };
        let state = match self.inner.take() {
            _ if self.has_failed => RemainderState::Failed,
            Some(inner) if !self.has_ended && !inner.is_end_stream() => RemainderState::Unread(inner),
            _ => RemainderState::Ended,
        };
        *shared.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        shared.changed.notify_one();
    }
}

impl Body for RecoverableBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let polled = Pin::new(inner).poll_frame(cx);
        match &polled {
            Poll::Ready(None) => self.has_ended = true,
            Poll::Ready(Some(Err(_))) => self.has_failed = true,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl BodyRemainder {
    /// Whether there was a body whose rest matters.
    pub const fn is_tracked(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the handler still has the body.
    pub fn is_in_use(&self) -> bool {
        let state = |shared: &Arc<RemainderCell>| {
            matches!(*shared.state.lock().unwrap_or_else(PoisonError::into_inner), RemainderState::InUse)
        };
        self.0.as_ref().is_some_and(state)
    }

    /// Decides how the connection continues after a response with these headers, and announces a close in them: if
    /// the rest must not be read (`must_close`), or if the client sent `Expect`, because it may omit its body then.
    pub async fn settle(
        self,
        headers: &mut HeaderMap,
        expects_continue: bool,
        must_close: bool,
    ) -> Option<BodyDrain> {
        let shared = self.0?;
        let state = std::mem::take(&mut *shared.state.lock().unwrap_or_else(PoisonError::into_inner));
        let mut body = match state {
            RemainderState::InUse if !must_close => return Some(BodyDrain(DrainTask::Later(shared))),
            RemainderState::Unread(body) => body,
            RemainderState::Ended => return None,
            RemainderState::InUse | RemainderState::Failed => {
                announce_close(headers);
                return None;
            }
        };
        if !(must_close || expects_continue || headers.get(CONNECTION).is_some_and(|value| value == "close"))
        {
            match body.size_hint().exact() {
                Some(length) if length <= MAX_DRAINED => return Some(BodyDrain(DrainTask::Short(body))),
                Some(_) => {}
                None => {
                    if timeout(END_WAIT, discard(&mut body, MAX_DRAINED)).await.unwrap_or(false) {
                        return None;
                    }
                }
            }
        }
        announce_close(headers);
        Some(BodyDrain(DrainTask::Closing(body)))
    }
}

fn announce_close(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

/// A body to read after its response; to be run next to the connection. If it is dropped, the connection closes.
pub struct BodyDrain(DrainTask);

enum DrainTask {
    Short(Incoming),
    Closing(Incoming),
    /// The response began while the handler still had the body.
    Later(Arc<RemainderCell>),
}

impl BodyDrain {
    /// Whether the response has announced the end of the connection.
    pub const fn is_closing(&self) -> bool {
        matches!(self.0, DrainTask::Closing(_))
    }

    /// Waits until the handler has left the body; `None` if it has read it.
    pub async fn ready(self) -> Option<Self> {
        let DrainTask::Later(shared) = self.0 else { return Some(self) };
        shared.changed.notified().await;
        let state = std::mem::take(&mut *shared.state.lock().unwrap_or_else(PoisonError::into_inner));
        let RemainderState::Unread(body) = state else { return None };
        Some(Self(DrainTask::Short(body)))
    }

    /// Reads the body to its end, or to the bounds.
    pub async fn run(self) {
        let (mut body, most, time) = match self.0 {
            DrainTask::Short(body) => (body, MAX_DRAINED, DRAIN_TIME),
            DrainTask::Closing(body) => (body, MAX_DISCARDED, DISCARD_TIME),
            DrainTask::Later(_) => return,
        };
        // After the time limit the body is dropped, which closes the connection.
        let _ = timeout(time, discard(&mut body, most)).await;
    }
}

/// Reads a body; returns whether it ended within `most` bytes.
async fn discard(body: &mut Incoming, most: u64) -> bool {
    let mut left = most;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        let Ok(frame) = frame else { return false };
        let size = frame.data_ref().map_or(0, Bytes::len) as u64;
        let Some(rest) = left.checked_sub(size) else { return false };
        left = rest;
    }
    true
}
