//! Event stream subscribers. One task creates each event once for all of them, and idles without subscribers. A slow
//! subscriber misses rounds and is finally disconnected: the queue is a few rounds long, and all share their bytes.

mod open_streams;
#[cfg(test)]
mod tests;

use open_streams::Stay;
pub use open_streams::Stays;

use axum::body::Bytes;
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

const ROUND: Duration = Duration::from_secs(1);
/// A round that takes longer is skipped. The page treats six silent seconds as a dead link, so one hanging round must
/// stay below that.
const LONGEST_MADE: Duration = Duration::from_secs(3);
/// Queue length of a slow subscriber.
const MOST_ROUNDS: usize = 4;
/// A subscriber that misses this many rounds in a row is disconnected.
const MOST_MISSED: u32 = 30;

/// Generations of the active keys and tokens.
type Generations = [u64; 2];

/// The subscribers.
#[derive(Debug, Default)]
pub struct Live {
    hall: Mutex<Hall>,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Hall {
    listeners: Vec<Listener>,
    /// Whether publishing has ended.
    is_over: bool,
}

#[derive(Debug)]
struct Listener {
    rounds: mpsc::Sender<Bytes>,
    /// Whether the first snapshot was sent.
    has_begun: Arc<AtomicBool>,
    missed: u32,
    /// The generations under which it was authorized.
    opened_by: Generations,
    /// While it is subscribed, its connection is not idle.
    _stay: Stay,
}

/// Why a subscription was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubscribeError {
    Full,
    Over,
}

/// A subscription without its first snapshot, which is only created when there is room.
#[derive(Debug)]
pub(super) struct PendingSubscription {
    rounds: mpsc::Sender<Bytes>,
    events: mpsc::Receiver<Bytes>,
    has_begun: Arc<AtomicBool>,
}

impl PendingSubscription {
    /// Sends the first snapshot; from here on the subscriber receives all rounds.
    pub(super) fn into_events(self, first: Bytes) -> Events {
        let _ = self.rounds.try_send(first); // The queue is empty, so there is room.
        self.has_begun.store(true, Ordering::Release);
        Events(self.events)
    }
}

/// The stream of one subscriber, as a response body.
#[derive(Debug)]
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|round| round.map(|round| Ok(Frame::data(round))))
    }
}

impl Live {
    /// More dashboards than people would open.
    pub(super) const MOST: usize = 32;

    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber that was authorized under these generations.
    pub(super) fn listen(
        &self,
        opened_by: Generations,
        stays: &Stays,
    ) -> Result<PendingSubscription, SubscribeError> {
        let mut hall = self.hall();
        if hall.is_over {
            return Err(SubscribeError::Over);
        }
        // Disconnected subscribers are otherwise removed only in the next round.
        hall.listeners.retain(|listener| !listener.rounds.is_closed());
        if hall.listeners.len() >= Self::MOST {
            return Err(SubscribeError::Full);
        }
        let (rounds, events) = mpsc::channel(MOST_ROUNDS);
        let has_begun = Arc::<AtomicBool>::default();
        let place = PendingSubscription { rounds: rounds.clone(), events, has_begun: Arc::clone(&has_begun) };
        hall.listeners.push(Listener { rounds, has_begun, missed: 0, opened_by, _stay: stays.stay() });
        self.wanted.notify_one();
        Ok(place)
    }

    /// Creates and publishes rounds until shutdown. Each round carries the active generations: a subscriber that was
    /// authorized under others is disconnected, and must authenticate again.
    pub(super) async fn run<F>(&self, mut make: impl FnMut(u64) -> F, mut closed: watch::Receiver<bool>)
    where
        F: Future<Output = (Bytes, Generations)>,
    {
        // Also if creating a round panics: subscribers would otherwise wait forever.
        let _over = Over(self);
        let rounds = async {
            let mut round = 0;
            loop {
                self.wanted.notified().await;
                let mut ticks = interval(ROUND);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                // The first tick is immediate, and new subscribers have just received a snapshot.
                ticks.tick().await;
                while !self.hall().listeners.is_empty() {
                    ticks.tick().await;
                    // A hanging round is dropped; the next one may work.
                    if let Ok((events, active)) = timeout(LONGEST_MADE, make(round)).await {
                        self.hall().publish(&events, active);
                    }
                    round += 1;
                }
            }
        };
        tokio::select! { biased;
            // A dropped sender means shutdown too.
            _ = closed.wait_for(|closed| *closed) => {}
            () = rounds => {}
        }
    }
}

/// Ends publishing on drop.
struct Over<'a>(&'a Live);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *self.0.hall() = Hall { listeners: Vec::new(), is_over: true };
    }
}

impl Hall {
    fn publish(&mut self, round: &Bytes, active: Generations) {
        self.listeners.retain_mut(|listener| {
            // First of all: its key may have been withdrawn since the last round.
            if listener.opened_by != active {
                return false;
            }
            if !listener.has_begun.load(Ordering::Acquire) {
                return !listener.rounds.is_closed();
            }
            match listener.rounds.try_send(round.clone()) {
                Ok(()) => listener.missed = 0,
                Err(TrySendError::Full(_)) => listener.missed += 1,
                Err(TrySendError::Closed(_)) => return false,
            }
            listener.missed < MOST_MISSED
        });
    }
}
