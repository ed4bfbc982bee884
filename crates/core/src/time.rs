//! Time, as an argument. A [`Timestamp`] is handed to every decision; this module
//! is the only one that reads a clock, so everything else can be replayed.
//!
//! The wall clock is read, not a monotonic one: windows are aligned to the Unix
//! epoch on every node, and a monotonic clock drifts away from it by seconds a
//! day. The algorithms bear a wall clock that steps (see [`STEP_BACK`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How far a clock may step back before a counter follows it.
///
/// Within this span a counter's time stands still, so that two threads whose
/// readings arrive in the wrong order earn nothing twice. Past it the clock was
/// set, and the counter goes on from the new time with what it held: waiting
/// for the old time to come back could take years.
pub const STEP_BACK: Duration = Duration::from_secs(60);

/// Nanoseconds since the Unix epoch; good until the year 2554.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last moment that can be told.
    pub const MAX: Self = Self(u64::MAX);

    /// A time given in nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A time given in milliseconds since the Unix epoch, at most [`Timestamp::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This time, `span` later, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// Where a limiter takes its time from.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The machine's wall clock.
///
/// A reading is carried on by the CPU's counter for up to a millisecond, because
/// asking the system costs more than all the rest of a decision. The clock is
/// therefore exact to the counter's drift in a millisecond (nanoseconds), and
/// follows a wall clock that was set within one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// How long a reading is carried on.
const CARRIED_NANOS: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Reading {
    ticks: u64,
    wall: Timestamp,
}

static COUNTER: LazyLock<quanta::Clock> = LazyLock::new(quanta::Clock::new);

thread_local! {
    static LAST: Cell<Option<Reading>> = const { Cell::new(None) };
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let ticks = COUNTER.raw();
        // A counter that went back was reset: the machine slept.
        if let Some(last) = LAST.get()
            && last.ticks <= ticks
        {
            let since = COUNTER.delta_as_nanos(last.ticks, ticks);
            if since < CARRIED_NANOS {
                return Timestamp(last.wall.0.saturating_add(since));
            }
        }
        let wall = wall_clock();
        LAST.set(Some(Reading { ticks, wall }));
        wall
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
#[cold]
fn wall_clock() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default(); // A clock before 1970 reads as the epoch.
    Timestamp::EPOCH.saturating_add(since_epoch)
}

/// A clock that stands until it is told to move: for tests, of this crate and of yours.
///
/// Clones share one time, so a test keeps one and hands the other to the limiter.
///
/// ```
/// use hivemind_core::{Clock, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::at(Timestamp::from_millis(1_000));
/// clock.advance(Duration::from_millis(500));
/// assert_eq!(clock.now(), Timestamp::from_millis(1_500));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// Moves the clock on by `span`.
    pub fn advance(&self, span: Duration) {
        self.set(self.now().saturating_add(span));
    }

    /// Sets the clock, back or forth.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}
