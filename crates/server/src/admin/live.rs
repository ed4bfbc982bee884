//! Those who listen to what happens. One task makes what is told, once for all of them, and nothing while nobody listens.
//! Whoever reads slowly misses rounds, and is shown out in the end: nothing is kept for anybody but a few rounds, which
//! all share.

mod stays;
#[cfg(test)]
mod tests;

use stays::Stay;
pub(crate) use stays::Stays;

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
/// No round takes longer. The page takes six silent seconds for a dead link: one round that hangs must not be that long.
const LONGEST_MADE: Duration = Duration::from_secs(3);
/// What waits for one that reads slowly.
const MOST_ROUNDS: usize = 4;
/// Who has missed so many in a row does not read.
const MOST_MISSED: u32 = 30;

/// Numbers that change with the keys and tokens in force.
type Generations = [u64; 2];

/// Those who listen.
#[derive(Debug, Default)]
pub(crate) struct Live {
    hall: Mutex<Hall>,
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Hall {
    listeners: Vec<Listener>,
    /// Whether nothing is told any more.
    is_over: bool,
}

#[derive(Debug)]
struct Listener {
    rounds: mpsc::Sender<Bytes>,
    /// Whether it was told what it is told first.
    has_begun: Arc<AtomicBool>,
    missed: u32,
    /// What let it in.
    opened_by: Generations,
    /// While it listens, its connection is not idle.
    _stay: Stay,
}

/// Why nobody is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    Full,
    Over,
}

/// A place of one who was told nothing yet: what is told first is made only where there is one.
#[derive(Debug)]
pub(super) struct Place {
    rounds: mpsc::Sender<Bytes>,
    events: mpsc::Receiver<Bytes>,
    has_begun: Arc<AtomicBool>,
}

impl Place {
    /// Tells it this, and from here on what all are told.
    pub(super) fn told(self, first: Bytes) -> Events {
        let _ = self.rounds.try_send(first); // It is empty, and so there is room.
        self.has_begun.store(true, Ordering::Release);
        Events(self.events)
    }
}

/// What one of them is told, as the body of its answer.
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
    /// More than these are no people.
    pub(super) const MOST: usize = 32;

    fn hall(&self) -> MutexGuard<'_, Hall> {
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes another one, let in by these.
    pub(super) fn listen(&self, opened_by: Generations, stays: &Stays) -> Result<Place, NotTaken> {
        let mut hall = self.hall();
        if hall.is_over {
            return Err(NotTaken::Over);
        }
        // Whoever has gone is noticed at the next round only.
        hall.listeners.retain(|listener| !listener.rounds.is_closed());
        if hall.listeners.len() >= Self::MOST {
            return Err(NotTaken::Full);
        }
        let (rounds, events) = mpsc::channel(MOST_ROUNDS);
        let has_begun = Arc::<AtomicBool>::default();
        let place = Place { rounds: rounds.clone(), events, has_begun: Arc::clone(&has_begun) };
        hall.listeners.push(Listener { rounds, has_begun, missed: 0, opened_by, _stay: stays.stay() });
        self.wanted.notify_one();
        Ok(place)
    }

    /// Has rounds made and tells them to all, until told to end. With each round come the keys and tokens in force:
    /// whoever was let in by others has to ask again.
    pub(super) async fn run<F>(&self, mut make: impl FnMut(u64) -> F, mut closed: watch::Receiver<bool>)
    where
        F: Future<Output = (Bytes, Generations)>,
    {
        // Also if what is told cannot be made: whoever listened then would wait for ever.
        let _over = Over(self);
        let rounds = async {
            let mut round = 0;
            loop {
                self.wanted.notified().await;
                let mut ticks = interval(ROUND);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                // The first comes at once, and who has just come was told everything.
                ticks.tick().await;
                while !self.hall().listeners.is_empty() {
                    ticks.tick().await;
                    // What hangs is not waited for: the next one may be better.
                    if let Ok((told, in_force)) = timeout(LONGEST_MADE, make(round)).await {
                        self.hall().tell(&told, in_force);
                    }
                    round += 1;
                }
            }
        };
        tokio::select! { biased;
            // A sender that is gone has closed everything too.
            _ = closed.wait_for(|closed| *closed) => {}
            () = rounds => {}
        }
    }
}

/// Nothing is told any more when it is dropped.
struct Over<'a>(&'a Live);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        *self.0.hall() = Hall { listeners: Vec::new(), is_over: true };
    }
}

impl Hall {
    fn tell(&mut self, round: &Bytes, in_force: Generations) {
        self.listeners.retain_mut(|listener| {
            // First of all: what opened it may have been withdrawn since the round before.
            if listener.opened_by != in_force {
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
