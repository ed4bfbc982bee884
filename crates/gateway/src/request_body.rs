//! Request bodies: forwarded at the speed of the upstream, with limits on size, idle time and data rate.

use super::body_pace::BodyPace;
use super::failure::Failure;
use super::hop_by_hop;
use super::idle_timeout::IdleTimeout;
use super::now;
use super::unread_body::RecoverableBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Notify;

/// The shared state of a body, for the task that waits for the response. The connection to the upstream reads the
/// body in its own task, on the same thread.
#[derive(Default)]
pub(super) struct Upload {
    moves: AtomicU32,
    trouble: AtomicU8,
    /// Whether the client, and not the upstream, is awaited.
    waits_for_client: AtomicBool,
    /// Whether the minimum data rate no longer applies.
    may_trickle: AtomicBool,
    ended: Notify,
}

const TOO_LARGE: u8 = 1;
const TOO_SLOW: u8 = 2;
const BROKEN: u8 = 3;
const ENDED: u8 = 4;
const LEFT: u8 = 5;

impl Upload {
    /// Progress counter: parts forwarded of the body and of the response.
    pub(super) fn moves(&self) -> u32 {
        self.moves.load(Ordering::Relaxed)
    }

    /// Records a forwarded part, in either direction.
    pub(super) fn moved(&self) {
        self.moves.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the minimum data rate, because the upstream has responded; it still applies within gRPC messages.
    pub(super) fn may_trickle(&self) {
        self.may_trickle.store(true, Ordering::Relaxed);
    }

    pub(super) fn waits_for_client(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed)
    }

    /// Whether more of it may follow.
    pub(super) fn is_under_way(&self) -> bool {
        self.trouble.load(Ordering::Relaxed) == 0
    }

    /// Waits for its end.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Records that the body is not read any more.
    pub(super) fn mark_abandoned(&self) {
        if self.is_under_way() {
            self.ends(LEFT);
        }
    }

    /// Why the body was aborted, if it was.
    pub(super) fn failure(&self) -> Option<Failure> {
        match self.trouble.load(Ordering::Relaxed) {
            TOO_LARGE => Some(Failure::BodyTooLarge),
            TOO_SLOW => Some(Failure::ClientTooSlow),
            BROKEN => Some(Failure::Unreadable),
            _ => None,
        }
    }

    fn ends(&self, how: u8) {
        self.trouble.store(how, Ordering::Relaxed);
        self.ended.notify_one();
    }
}

/// An aborted body; its [`Upload`] contains the reason.
#[derive(Debug, thiserror::Error)]
#[error("the request body was aborted")]
pub(super) struct BodyAborted;

/// The body of a request.
pub(super) struct RequestBody(Option<Box<Streaming>>);

struct Streaming {
    inner: RecoverableBody,
    left: Option<u64>,
    idle_timeout: IdleTimeout,
    pace: BodyPace,
    upload: Arc<Upload>,
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.upload.mark_abandoned();
    }
}

impl RequestBody {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Wraps a body with a maximum size, and returns its shared state; `None` for an empty body. A gRPC body is a
    /// conversation, which may pause for long.
    pub(super) fn of(
        inner: RecoverableBody,
        most: Option<u64>,
        idle: Duration,
        is_conversation: bool,
    ) -> Result<(Self, Option<Arc<Upload>>), Failure> {
        if inner.is_end_stream() {
            return Ok((Self::none(), None));
        }
        if most.is_some_and(|most| inner.size_hint().lower() > most) {
            return Err(Failure::BodyTooLarge);
        }
        let upload = Arc::<Upload>::default();
        let pace = if is_conversation { BodyPace::of_messages(idle) } else { BodyPace::new(idle) };
        let idle_timeout = IdleTimeout::new(idle);
        let streaming = Streaming { inner, left: most, idle_timeout, pace, upload: Arc::clone(&upload) };
        Ok((Self(Some(Box::new(streaming))), Some(upload)))
    }
}

/// Removes trailers that only have a meaning in the head.
fn cleared(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        hop_by_hop::remove_from_trailers(trailers);
    }
    frame
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyAborted>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = Pin::new(&mut body.inner).poll_frame(cx);
        body.upload.waits_for_client.store(polled.is_pending(), Ordering::Relaxed);
        if polled.is_pending() {
            body.pace.record_wait(now());
            if body.idle_timeout.poll_end(cx, body.upload.moves()).is_ready() {
                body.upload.ends(TOO_SLOW);
                return Poll::Ready(Some(Err(BodyAborted)));
            }
            return Poll::Pending;
        }
        body.idle_timeout.renew();
        body.upload.moved();
        let outcome = match ready!(polled) {
            None => {
                body.upload.ends(ENDED);
                return Poll::Ready(None);
            }
            Some(Err(_)) => Err(BROKEN),
            Some(Ok(frame)) => {
                let data = frame.data_ref().map(Bytes::as_ref).unwrap_or_default();
                let size = data.len() as u64;
                let may_trickle =
                    !body.pace.is_of_messages() && body.upload.may_trickle.load(Ordering::Relaxed);
                let is_too_slow = body.pace.record_bytes(data, now()) && !may_trickle;
                match body.left.map(|left| left.checked_sub(size)) {
                    Some(None) => Err(TOO_LARGE),
                    _ if is_too_slow => Err(TOO_SLOW),
                    left => {
                        body.left = left.flatten();
                        Ok(cleared(frame))
                    }
                }
            }
        };
        if outcome.is_ok() && body.inner.is_end_stream() {
            body.upload.ends(ENDED);
        }
        Poll::Ready(Some(outcome.map_err(|trouble| {
            body.upload.ends(trouble);
            BodyAborted
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|body| body.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.inner.size_hint())
    }
}
