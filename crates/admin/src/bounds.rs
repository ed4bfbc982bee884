//! Limits on expensive work for all callers together: buffered request bodies, copies of the decision ring,
//! simulations. They keep the cost of the admin API small compared with the request path.

use super::reply::{self, no_question, not_now};
use axum::body::{Body, Bytes};
use axum::response::Response;
use bytes::BytesMut;
use http_body::Body as _;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// All buffered bodies together.
const MOST_HELD: usize = 32 << 20;
/// With 100,000 decisions, a copy takes 42 MB.
const MOST_COPIES: usize = 2;

/// An oversized body is read up to this multiple of its limit and discarded. A client that writes its whole body
/// before it reads then gets the 413, instead of a broken connection.
pub(super) const PASSED_OVER: usize = 4;

/// A permit; returned on drop.
pub(super) type Held = OwnedSemaphorePermit;

/// Permits for expensive work.
pub struct Bounds {
    /// One permit per byte.
    bodies: Arc<Semaphore>,
    pub(super) copies: Places,
    /// For the one running simulation: a second one would take another core from the request path.
    pub(super) simulation: Places,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            bodies: Arc::new(Semaphore::new(MOST_HELD)),
            copies: Places::new(MOST_COPIES),
            simulation: Places::new(1),
        }
    }
}

/// Permits for one kind of work.
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Waits for a permit; after the time limit, returns a 503 with `Retry-After`.
    pub(super) async fn take(&self, within: Duration) -> Result<Held, Response> {
        let place = timeout(within, Arc::clone(&self.0).acquire_owned()).await;
        let full = || not_now("Too many of these requests are running; retry in a moment.");
        // The semaphore is never closed.
        place.ok().and_then(Result::ok).ok_or_else(full)
    }
}

/// Why a body was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    NoRoom,
    /// The client disconnected.
    Broken,
}

impl BodyError {
    /// The error response; `too_large` describes the size limit.
    pub(super) fn answer(self, too_large: &str) -> Response {
        match self {
            Self::TooLarge => reply::too_large(too_large),
            Self::NoRoom => not_now("The buffer for request bodies is full; retry in a moment."),
            Self::Broken => no_question("The body is incomplete."),
        }
    }
}

impl Bounds {
    /// Collects a body, and holds permits for its bytes. A slow client holds only what it has sent, so a few slow
    /// clients cannot lock others out.
    pub(super) async fn gather(
        &self,
        mut body: Body,
        most: usize,
    ) -> Result<(Bytes, Option<Held>), BodyError> {
        // With the declared length, so that the buffer need not grow. Bytes that never arrive take no memory.
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(most).min(most);
        let (mut gathered, mut held, mut sent) = (BytesMut::with_capacity(declared), None::<Held>, 0_usize);
        while let Some(frame) = body.frame().await {
            // Trailers are ignored.
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            sent = sent.saturating_add(data.len());
            if sent > most {
                (gathered, held) = (BytesMut::new(), None);
                if sent > most.saturating_mul(PASSED_OVER) {
                    return Err(BodyError::TooLarge);
                }
                continue;
            }
            let bytes = u32::try_from(data.len()).map_err(|_| BodyError::TooLarge)?;
            let place =
                Arc::clone(&self.bodies).try_acquire_many_owned(bytes).map_err(|_| BodyError::NoRoom)?;
            match &mut held {
                None => held = Some(place),
                Some(held) => held.merge(place),
            }
            gathered.extend_from_slice(&data);
        }
        if sent > most { Err(BodyError::TooLarge) } else { Ok((gathered.freeze(), held)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    fn bounds(bytes: usize) -> Bounds {
        Bounds { bodies: Arc::new(Semaphore::new(bytes)), ..Bounds::default() }
    }

    // Fails when bodies are read regardless of the memory that others hold.
    #[tokio::test]
    async fn buffered_body_bytes_stay_below_the_total_limit() {
        let bounds = bounds(10);
        let (bytes, first) = bounds.gather(Body::from("123456"), 8).await.unwrap();
        assert_eq!(&*bytes, b"123456");
        assert_eq!(bounds.gather(Body::from("12345"), 8).await.unwrap_err(), BodyError::NoRoom);
        let (_, second) = bounds.gather(Body::from("1234"), 8).await.unwrap();
        assert!(first.is_some() && second.is_some());
        drop(first);
        assert!(bounds.gather(Body::from("12345"), 8).await.is_ok());
        assert_eq!(bounds.gather(Body::from("123456789"), 8).await.unwrap_err(), BodyError::TooLarge);
        assert_eq!(bounds.gather(Body::empty(), 8).await.unwrap().0, Bytes::new());
        drop(second);
        assert_eq!(bounds.bodies.available_permits(), 10);
    }

    // Fails without a limit on permits.
    #[tokio::test(start_paused = true)]
    async fn missing_permit_returns_503_with_retry_after() {
        let places = Places::new(1);
        let place = places.take(Duration::from_secs(5)).await.unwrap();
        let late = places.take(Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(late.headers().contains_key("retry-after"));
        let (waited, ()) = tokio::join!(places.take(Duration::from_secs(5)), async { drop(place) });
        assert!(waited.is_ok());
    }
}
