//! Circuit breaker: after several consecutive failures, only the monitor calls Redis, in the background. A request
//! then costs one load of an atomic. Invariant: only the monitor closes the breaker, after a response.

use crate::metrics::Counts;
use hivemind_core::{Clock, SystemClock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// Consecutive failures that open the breaker, if the first one is at least one timeout ago: a short pause of Redis
/// fails all concurrent requests at once and should not open it.
const FAILURES: u32 = 5;

/// Whether Redis responds.
///
/// ```
/// use hivemind_redis::{Availability, RedisOptions, RedisStore};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let store = RedisStore::start(RedisOptions::new("redis+unix:///nowhere.sock"), runtime.handle())?;
/// let mut availability = store.availability();
/// assert_eq!(*availability.borrow_and_update(), Availability::Connecting);
/// runtime.block_on(availability.changed())?;
/// assert!(matches!(&*availability.borrow(), Availability::Down { .. })); // The socket does not exist.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// No response so far.
    Connecting,
    /// It responds.
    Up,
    /// It no longer responds, or did not respond to the first call.
    Down {
        /// The cause, without secrets.
        reason: Arc<str>,
    },
}

#[derive(Debug)]
pub(crate) struct Breaker {
    closed: AtomicBool,
    failures: AtomicU32,
    /// The time of the first one in nanoseconds.
    failing_since: AtomicU64,
    patience: Duration,
    /// Number of openings: connections of an earlier generation are not used again.
    generation: AtomicU64,
    availability: watch::Sender<Availability>,
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
            availability: watch::Sender::new(Availability::Connecting),
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
        self.availability.subscribe()
    }

    /// Why calls are not sent.
    pub(crate) fn reason(&self) -> String {
        match &*self.availability.borrow() {
            Availability::Down { reason } => reason.to_string(),
            Availability::Connecting => "no connection has been made yet".to_owned(),
            Availability::Up => "the connection was closed a moment ago".to_owned(),
        }
    }

    /// Records a response.
    pub(crate) fn record_response(&self) {
        // Written only if necessary: the value stays in every core's cache.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Records a failure.
    pub(crate) fn record_failure(&self, reason: &str) {
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

    /// Opens the breaker until the monitor gets a response.
    pub(crate) fn open(&self, reason: &str) {
        let mut was_closed = false;
        // Inside the watch's lock, so that concurrent changes keep state and availability equal.
        self.availability.send_if_modified(|availability| {
            was_closed = self.closed.swap(false, Ordering::AcqRel);
            self.generation.fetch_add(u64::from(was_closed), Ordering::AcqRel);
            let is_new = !matches!(availability, Availability::Down { .. });
            if is_new {
                *availability = Availability::Down { reason: reason.into() };
            }
            is_new
        });
        if was_closed {
            self.counts.breaker_openings.one();
            self.opened.notify_one();
        }
    }

    /// Closes the breaker after a response to the monitor.
    pub(crate) fn close(&self) {
        self.availability.send_if_modified(|availability| {
            self.failures.store(0, Ordering::Relaxed);
            self.closed.store(true, Ordering::Release);
            let is_new = *availability != Availability::Up;
            *availability = Availability::Up;
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
            (1..FAILURES).for_each(|_| breaker.record_failure("no answer"));
            assert!(breaker.is_closed());
            breaker.record_response();
        }
        (0..FAILURES).for_each(|_| breaker.record_failure("no answer"));
        assert!(!breaker.is_closed());
        assert_eq!(*breaker.availability().borrow(), Availability::Down { reason: "no answer".into() });
        breaker.record_response(); // A late one.
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
        (0..1_000).for_each(|_| breaker.record_failure("no answer"));
        assert!(breaker.is_closed());
    }
}
