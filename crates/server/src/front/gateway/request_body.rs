//! A request's body on its way to the upstream: passed on as it comes, no faster than the upstream takes
//! it, bounded in size and in how long it may be silent.

use super::failure::Failure;
use super::patience::Patience;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// What is seen of a body from outside: by who waits for the answer to it. The connection to the upstream
/// reads it in a task of its own, though always in the same thread.
#[derive(Default)]
pub(super) struct Upload {
    moves: AtomicU32,
    trouble: AtomicU8,
}

const TOO_LARGE: u8 = 1;
const TOO_SLOW: u8 = 2;
const BROKEN: u8 = 3;
const ENDED: u8 = 4;

impl Upload {
    /// How many parts have been passed on; it grows as long as the body does.
    pub(super) fn moves(&self) -> u32 {
        self.moves.load(Ordering::Relaxed)
    }

    /// Why the body was given up, if it was.
    pub(super) fn failure(&self) -> Option<Failure> {
        match self.trouble.load(Ordering::Relaxed) {
            TOO_LARGE => Some(Failure::BodyTooLarge),
            TOO_SLOW => Some(Failure::ClientTooSlow),
            BROKEN => Some(Failure::Unreadable),
            _ => None,
        }
    }

    /// Whether all of it was passed on.
    pub(super) fn is_whole(&self) -> bool {
        self.trouble.load(Ordering::Relaxed) == ENDED
    }

    fn ends(&self, how: u8) {
        self.trouble.store(how, Ordering::Relaxed);
    }
}

/// A body that was given up; why is known to its [`Upload`].
#[derive(Debug, thiserror::Error)]
#[error("the body of a request was given up")]
pub(super) struct GivenUp;

/// A request's body.
pub(super) struct RequestBody(Option<Box<Streaming>>);

struct Streaming {
    inner: Incoming,
    left: Option<u64>,
    patience: Patience,
    upload: Arc<Upload>,
}

impl RequestBody {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// This body, of at most so many bytes, and what is seen of it; nothing for one that is empty.
    pub(super) fn of(
        inner: Incoming,
        most: Option<u64>,
        idle: Duration,
    ) -> Result<(Self, Option<Arc<Upload>>), Failure> {
        if inner.is_end_stream() {
            return Ok((Self::none(), None));
        }
        if most.is_some_and(|most| inner.size_hint().lower() > most) {
            return Err(Failure::BodyTooLarge);
        }
        let upload = Arc::<Upload>::default();
        let streaming =
            Streaming { inner, left: most, patience: Patience::new(idle), upload: Arc::clone(&upload) };
        Ok((Self(Some(Box::new(streaming))), Some(upload)))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = GivenUp;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, GivenUp>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = Pin::new(&mut body.inner).poll_frame(cx);
        if polled.is_pending() {
            if body.patience.poll_end(cx).is_ready() {
                body.upload.ends(TOO_SLOW);
                return Poll::Ready(Some(Err(GivenUp)));
            }
            return Poll::Pending;
        }
        body.patience.renew();
        body.upload.moves.fetch_add(1, Ordering::Relaxed);
        let outcome = match ready!(polled) {
            None => {
                body.upload.ends(ENDED);
                return Poll::Ready(None);
            }
            Some(Err(_)) => Err(BROKEN),
            Some(Ok(frame)) => {
                let size = frame.data_ref().map_or(0, Bytes::len) as u64;
                match body.left.map(|left| left.checked_sub(size)) {
                    Some(None) => Err(TOO_LARGE),
                    left => {
                        body.left = left.flatten();
                        Ok(frame)
                    }
                }
            }
        };
        if outcome.is_ok() && body.inner.is_end_stream() {
            body.upload.ends(ENDED);
        }
        Poll::Ready(Some(outcome.map_err(|trouble| {
            body.upload.ends(trouble);
            GivenUp
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|body| body.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.inner.size_hint())
    }
}
