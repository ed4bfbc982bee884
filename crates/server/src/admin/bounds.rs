//! How much of what is costly goes on at once, whoever asks for it: bytes of bodies that are held, copies of the ring of
//! decisions, simulations. So the most that all askers together can take is known, and small beside what decides.

use super::reply::{self, no_question, not_now};
use axum::body::{Body, Bytes};
use axum::response::Response;
use bytes::BytesMut;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// All bodies that are held, together.
const MOST_HELD: usize = 32 << 20;
/// At 100,000 decisions a copy has 42 MB.
const MOST_COPIES: usize = 2;

/// As often as much as is taken is read and passed over: whoever sends all before it reads can then read that it was too much,
/// where its connection would break.
pub(super) const PASSED_OVER: usize = 4;

/// Who has a place waits for nobody; it is free again when this is dropped.
pub(super) type Held = OwnedSemaphorePermit;

/// Places for what is costly.
pub(crate) struct Bounds {
    /// One for each byte.
    bodies: Arc<Semaphore>,
    pub(super) copies: Places,
    /// For the one simulation that runs: a second would take another core from those who decide.
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

/// Places for one kind of thing.
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Semaphore::new(most)))
    }

    /// A place as soon as one is free; or, if none is for so long, when to come again.
    pub(super) async fn take(&self, within: Duration) -> Result<Held, Response> {
        let place = timeout(within, Arc::clone(&self.0).acquire_owned()).await;
        let full = || not_now("Others ask for the same, which takes a while; ask again in a moment.");
        // Nobody closes the semaphore.
        place.ok().and_then(Result::ok).ok_or_else(full)
    }
}

/// Why a body is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    TooLarge,
    NoRoom,
    /// Whoever sent it has gone.
    Broken,
}

impl NotTaken {
    /// What whoever sent it is told; `too_large` says how much may be sent.
    pub(super) fn answer(self, too_large: &str) -> Response {
        match self {
            Self::TooLarge => reply::too_large(too_large),
            Self::NoRoom => not_now("Others send so much that there is no room; ask again in a moment."),
            Self::Broken => no_question("The body: it breaks off before its end."),
        }
    }
}

impl Bounds {
    /// All of a body, and its place in memory. Who sends slowly holds what came and no more, so that a few of them keep
    /// nobody out.
    pub(super) async fn gather(
        &self,
        mut body: Body,
        most: usize,
    ) -> Result<(Bytes, Option<Held>), NotTaken> {
        let (mut gathered, mut held, mut sent) = (BytesMut::new(), None::<Held>, 0_usize);
        while let Some(frame) = body.frame().await {
            // What is no data is what follows it, and nobody here reads that.
            let Ok(data) = frame.map_err(|_| NotTaken::Broken)?.into_data() else { continue };
            sent = sent.saturating_add(data.len());
            if sent > most {
                (gathered, held) = (BytesMut::new(), None);
                if sent > most.saturating_mul(PASSED_OVER) {
                    return Err(NotTaken::TooLarge);
                }
                continue;
            }
            let bytes = u32::try_from(data.len()).map_err(|_| NotTaken::TooLarge)?;
            let place =
                Arc::clone(&self.bodies).try_acquire_many_owned(bytes).map_err(|_| NotTaken::NoRoom)?;
            match &mut held {
                None => held = Some(place),
                Some(held) => held.merge(place),
            }
            gathered.extend_from_slice(&data);
        }
        if sent > most { Err(NotTaken::TooLarge) } else { Ok((gathered.freeze(), held)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    fn bounds(bytes: usize) -> Bounds {
        Bounds { bodies: Arc::new(Semaphore::new(bytes)), ..Bounds::default() }
    }

    // Seen failing on: bodies that are read whatever others hold.
    #[tokio::test]
    async fn no_more_bytes_of_bodies_are_held_at_once_than_there_is_room_for() {
        let bounds = bounds(10);
        let (bytes, first) = bounds.gather(Body::from("123456"), 8).await.unwrap();
        assert_eq!(&*bytes, b"123456");
        assert_eq!(bounds.gather(Body::from("12345"), 8).await.unwrap_err(), NotTaken::NoRoom);
        let (_, second) = bounds.gather(Body::from("1234"), 8).await.unwrap();
        assert!(first.is_some() && second.is_some());
        drop(first);
        assert!(bounds.gather(Body::from("12345"), 8).await.is_ok());
        assert_eq!(bounds.gather(Body::from("123456789"), 8).await.unwrap_err(), NotTaken::TooLarge);
        assert_eq!(bounds.gather(Body::empty(), 8).await.unwrap().0, Bytes::new());
        drop(second);
        assert_eq!(bounds.bodies.available_permits(), 10);
    }

    // Seen failing on: places without a bound.
    #[tokio::test(start_paused = true)]
    async fn whoever_finds_no_place_for_a_while_is_told_to_come_again() {
        let places = Places::new(1);
        let place = places.take(Duration::from_secs(5)).await.unwrap();
        let late = places.take(Duration::from_secs(5)).await.unwrap_err();
        assert_eq!(late.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(late.headers().contains_key("retry-after"));
        let (waited, ()) = tokio::join!(places.take(Duration::from_secs(5)), async { drop(place) });
        assert!(waited.is_ok());
    }
}
