//! Whether Redis is asked at all. After some calls in a row have failed nobody asks
//! it any more but the keeper, in the background: a dead Redis costs a request the
//! look at one number. Invariant: only the keeper closes it, after an answer.

use crate::metrics::Counts;
use hivemind_core::{Clock, SystemClock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// So many failures in a row, with no answer between them, open the breaker, if the first of
/// them is a time-out ago: a pause of Redis fails all requests under way at once, and is none.
const FAILURES: u32 = 5;

/// Whether Redis answers.
///
/// ```
/// use hivemind_redis::{Availability, RedisOptions, RedisStore};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let store = RedisStore::start(RedisOptions::new("redis+unix:///nowhere.sock"), runtime.handle())?;
/// let mut availability = store.availability();
/// assert_eq!(*availability.borrow_and_update(), Availability::Connecting);
/// runtime.block_on(availability.changed())?;
/// assert!(matches!(&*availability.borrow(), Availability::Down { .. })); // There is no such socket.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// It has not answered yet.
    Connecting,
    /// It answers.
    Up,
    /// It does not answer any more, or did not when first asked.
    Down {
        /// What was seen, with no secret in it.
        reason: Arc<str>,
    },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    closed: AtomicBool,
    failures: AtomicU32,
    /// When the first of them was, in nanoseconds.
    failing_since: AtomicU64,
    patience: Duration,
    /// How often it opened: connections of an earlier time are not used again.
    generation: AtomicU64,
    told: watch::Sender<Availability>,
    opened: Notify,
    counts: Arc<Counts>,
}

impl Breaker {
    pub(crate) fn new(counts: Arc<Counts>, patience: Duration) -> Self {
        Self {
            closed: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            failing_since: AtomicU64::new(0),
            patience,
            generation: AtomicU64::new(0),
            told: watch::Sender::new(Availability::Connecting),
            opened: Notify::new(),
            counts,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn availability(&self) -> watch::Receiver<Availability> {
        self.told.subscribe()
    }

    /// Why nobody asks.
    pub(crate) fn reason(&self) -> String {
        match &*self.told.borrow() {
            Availability::Down { reason } => reason.to_string(),
            Availability::Connecting => "no connection has been made yet".to_owned(),
            Availability::Up => "it was given up this moment".to_owned(),
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&self) {
        // Written only where there is something to forget: the number stays in every core's cache.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// A call failed.
    pub(crate) fn failed(&self, reason: &str) {
        let (earlier, now) = (self.failures.fetch_add(1, Ordering::Relaxed), SystemClock.now());
        if earlier == 0 {
            self.failing_since.store(now.as_nanos(), Ordering::Relaxed);
            return;
        }
        let since = Timestamp::from_nanos(self.failing_since.load(Ordering::Relaxed));
        if earlier + 1 >= FAILURES && now.since(since) >= self.patience {
            self.open(reason);
        }
    }

    /// Nobody asks until the keeper has an answer.
    pub(crate) fn open(&self, reason: &str) {
        let mut was_closed = false;
        // Both inside, where nobody opens and closes at once: what is told is what is done.
        self.told.send_if_modified(|told| {
            was_closed = self.closed.swap(false, Ordering::AcqRel);
            self.generation.fetch_add(u64::from(was_closed), Ordering::AcqRel);
            let is_new = !matches!(told, Availability::Down { .. });
            if is_new {
                *told = Availability::Down { reason: reason.into() };
            }
            is_new
        });
        if was_closed {
            self.counts.breaker_openings.one();
            self.opened.notify_one();
        }
    }

    /// The keeper has an answer.
    pub(crate) fn close(&self) {
        self.told.send_if_modified(|told| {
            self.failures.store(0, Ordering::Relaxed);
            self.closed.store(true, Ordering::Release);
            let is_new = *told != Availability::Up;
            *told = Availability::Up;
            is_new
        });
    }

    pub(crate) async fn opens(&self) {
        self.opened.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaker_opens_after_failures_and_only_monitor_closes_it() {
        let breaker = Breaker::new(Arc::default(), Duration::ZERO);
        assert!(!breaker.is_closed(), "before the first answer");
        breaker.close();
        for _ in 0..3 {
            (1..FAILURES).for_each(|_| breaker.failed("no answer"));
            assert!(breaker.is_closed());
            breaker.answered();
        }
        (0..FAILURES).for_each(|_| breaker.failed("no answer"));
        assert!(!breaker.is_closed());
        assert_eq!(*breaker.availability().borrow(), Availability::Down { reason: "no answer".into() });
        breaker.answered(); // A late one.
        assert!(!breaker.is_closed());
        breaker.close();
        assert!(breaker.is_closed() && *breaker.availability().borrow() == Availability::Up);
        assert_eq!(breaker.generation(), 1);
    }

    #[test]
    fn breaker_state_matches_availability_under_concurrency() {
        let breaker = Breaker::new(Arc::default(), Duration::ZERO);
        for _ in 0..5_000 {
            std::thread::scope(|scope| {
                scope.spawn(|| breaker.open("no answer"));
                breaker.close();
            });
            let is_up = *breaker.availability().borrow() == Availability::Up;
            assert_eq!(is_up, breaker.is_closed());
        }
    }

    #[test]
    fn breaker_stays_closed_when_one_pause_fails_many_requests() {
        let breaker = Breaker::new(Arc::default(), Duration::from_secs(3_600));
        breaker.close();
        (0..1_000).for_each(|_| breaker.failed("no answer"));
        assert!(breaker.is_closed());
    }
}
