//! Time, as an argument. A [`Timestamp`] is handed to every decision; this module
//! is the only one that reads a clock, so everything else can be replayed.
//!
//! The wall clock is read, not a monotonic one: windows are aligned to the Unix
//! epoch on every node, and a monotonic clock drifts away from it by seconds a
//! day. The algorithms bear a wall clock that steps (see [`STEP_BACK`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How far a clock may step back before a counter follows it.
///
/// Within this span a counter's time stands still, so that two threads whose
/// readings arrive in the wrong order earn nothing twice. Past it the clock was
/// set, and the counter goes on from the new time with what it held: waiting
/// for the old time to come back could take years.
///
/// ```
/// use hivemind_core::algorithm::{Action, STEP_BACK, step};
/// use hivemind_core::{Cost, Limit, Period, Timestamp};
/// use std::time::Duration;
///
/// let limit = Limit::fixed_window(1, Period::SECOND);
/// let at = Timestamp::from_millis(100_000);
/// let spent = step(&limit, None, Action::Spend { count_refusal: false }, Cost::ONE, at).state;
/// let ends_in = |now| step(&limit, Some(spent), Action::Peek, Cost::ONE, now).verdict.reset_after;
/// // A second back the window still ends when it would have; past the span it is another window.
/// assert_eq!(ends_in(Timestamp::from_millis(99_000)), Duration::from_secs(2));
/// assert_eq!(ends_in(Timestamp::from_millis(99_000 - STEP_BACK.as_secs() * 1_000)), Duration::from_secs(1));
/// ```
pub const STEP_BACK: Duration = Duration::from_secs(60);

/// Nanoseconds since the Unix epoch; good until the year 2554.
///
/// ```
/// use hivemind_core::Timestamp;
/// use std::time::Duration;
///
/// let start = Timestamp::from_millis(1_000);
/// let later = start.saturating_add(Duration::from_millis(500));
/// assert_eq!(later.since(start), Duration::from_millis(500));
/// assert_eq!(start.since(later), Duration::ZERO); // A span is never negative.
/// assert_eq!(start.as_nanos(), 1_000_000_000);
/// assert_eq!(Timestamp::EPOCH, Timestamp::from_nanos(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);
    /// The last moment that can be told.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// assert_eq!(Timestamp::MAX.saturating_add(std::time::Duration::from_secs(1)), Timestamp::MAX);
    /// ```
    pub const MAX: Self = Self(u64::MAX);

    /// A time given in nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A time given in milliseconds since the Unix epoch, at most [`Timestamp::MAX`].
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// assert_eq!(Timestamp::from_millis(2).as_nanos(), 2_000_000);
    /// assert_eq!(Timestamp::from_millis(u64::MAX), Timestamp::MAX);
    /// ```
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
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// let (one, two) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
    /// assert_eq!(two.since(one).as_millis(), 1);
    /// assert!(one.since(two).is_zero());
    /// ```
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
///
/// ```
/// use hivemind_core::{Clock, Timestamp};
///
/// /// The time that stands in a log which is read again.
/// struct Logged(u64);
///
/// impl Clock for Logged {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_millis(self.0)
///     }
/// }
/// assert_eq!(Logged(5).now(), Timestamp::from_millis(5));
/// ```
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
/// therefore exact to the time that a reading may take (20 µs) and the
/// counter's drift in a millisecond, and follows a wall clock that was set within one.
/// Its very first reading calibrates the counter, which may take 200 ms: the limiters
/// make it when they are made.
///
/// ```
/// use hivemind_core::{Clock, SystemClock, Timestamp};
///
/// let in_2023 = Timestamp::from_millis(1_700_000_000_000);
/// assert!(SystemClock.now() > in_2023);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// How long a reading is carried on.
const CARRIED_NANOS: u64 = 1_000_000;
/// A reading that took longer is told, but not carried on: the thread was put aside
/// on the way, and nobody knows at which ticks the system looked at its clock.
const LONGEST_READING_NANOS: u64 = 20_000;

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
        match LAST.get().and_then(|last| last.carried_on(ticks, nanos_between)) {
            Some(now) => now,
            None => read_anew(ticks),
        }
    }
}

impl Reading {
    #[inline]
    fn carried_on(self, ticks: u64, nanos_between: impl Fn(u64, u64) -> u64) -> Option<Timestamp> {
        if ticks < self.ticks {
            return None; // A counter that went back was reset: the machine slept.
        }
        let since = nanos_between(self.ticks, ticks);
        (since < CARRIED_NANOS).then(|| Timestamp(self.wall.0.saturating_add(since)))
    }

    /// A reading of the wall clock that was made between two readings of the counter.
    fn between(
        before: u64,
        wall: Timestamp,
        after: u64,
        nanos_between: impl Fn(u64, u64) -> u64,
    ) -> Option<Self> {
        let was_quick = before <= after && nanos_between(before, after) <= LONGEST_READING_NANOS;
        was_quick.then_some(Self { ticks: before, wall })
    }
}

#[inline]
fn nanos_between(earlier: u64, later: u64) -> u64 {
    COUNTER.delta_as_nanos(earlier, later)
}

#[cold]
fn read_anew(before: u64) -> Timestamp {
    let wall = wall_clock();
    LAST.set(Reading::between(before, wall, COUNTER.raw(), nanos_between));
    wall
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn wall_clock() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default(); // A clock before 1970 reads as the epoch.
    let wall = Timestamp::EPOCH.saturating_add(since_epoch);
    Timestamp(wall.0.saturating_add_signed(WRONG_BY.load(Ordering::Relaxed)))
}

/// By how many nanoseconds the wall clock is read wrongly.
static WRONG_BY: AtomicI64 = AtomicI64::new(0);

impl SystemClock {
    /// Reads the wall clock wrongly by so many milliseconds from now on, in all of this process: for tests of nodes
    /// whose clocks differ, and for nothing else.
    #[doc(hidden)]
    pub fn set_error_millis(millis: i64) {
        WRONG_BY.store(millis.saturating_mul(1_000_000), Ordering::Relaxed);
        LAST.set(None);
    }
}

/// A clock that only ever goes on: nobody sets it, and it is worth nothing beyond this process.
///
/// For how long something took or may take. Its zero is the first time that it was read.
///
/// ```
/// use hivemind_core::{Clock, MonotonicClock};
///
/// let start = MonotonicClock.now();
/// let took = MonotonicClock.now().since(start);
/// assert_eq!(start.saturating_add(took).since(start), took);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
    fn now(&self) -> Timestamp {
        static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
        Timestamp::EPOCH.saturating_add(START.elapsed())
    }
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
    ///
    /// ```
    /// # use hivemind_core::{Clock, ManualClock, Timestamp};
    /// let clock = ManualClock::default();
    /// let handed_on = clock.clone();
    /// clock.advance(std::time::Duration::from_millis(3));
    /// assert_eq!(handed_on.now(), Timestamp::from_millis(3)); // The clones are one clock.
    /// ```
    pub fn advance(&self, span: Duration) {
        self.set(self.now().saturating_add(span));
    }

    /// Sets the clock, back or forth.
    ///
    /// ```
    /// # use hivemind_core::{Clock, ManualClock, Timestamp};
    /// let clock = ManualClock::at(Timestamp::from_millis(9));
    /// clock.set(Timestamp::EPOCH); // Somebody turned it back.
    /// assert_eq!(clock.now(), Timestamp::EPOCH);
    /// ```
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose counter ticks once in a nanosecond, and fast by one in 10,000.
    #[derive(Default)]
    struct Machine {
        ticks: u64,
        wall: u64,
        last: Option<Reading>,
    }

    impl Machine {
        fn passes(&mut self, nanos: u64) {
            self.ticks += nanos + nanos / 10_000;
            self.wall += nanos;
        }

        /// What the clock says, if asking the system takes `asking`, most of it before it looks.
        fn now(&mut self, asking: u64) -> u64 {
            let nanos = |earlier, later| later - earlier;
            let before = self.ticks;
            if let Some(now) = self.last.and_then(|last| last.carried_on(before, nanos)) {
                return now.as_nanos();
            }
            self.passes(asking);
            let wall = Timestamp::from_nanos(self.wall);
            self.last = Reading::between(before, wall, self.ticks, nanos);
            self.wall
        }
    }

    // Seen failing on: a slow reading is carried on.
    #[test]
    fn it_is_never_further_from_the_wall_clock_than_a_reading_takes_and_the_counter_drifts() {
        let mut machine = Machine { wall: 1_700_000_000_000_000_000, ..Machine::default() };
        let drift = CARRIED_NANOS / 10_000 + 1;
        for step in 0..200_000_u64 {
            machine.passes(step * 7_919 % 50_000);
            // Every third reading meets a thread that is put aside for up to 10 ms.
            let asking = if step % 3 == 0 { step * 104_729 % 10_000_000 } else { 40 };
            let told = machine.now(asking);
            let off = told.abs_diff(machine.wall);
            assert!(off <= LONGEST_READING_NANOS + drift, "{off} ns off at step {step}");
        }
    }

    #[test]
    fn a_clock_that_was_set_and_a_counter_that_was_reset_are_followed_within_a_millisecond() {
        let mut machine = Machine { wall: 1_700_000_000_000_000_000, ticks: 1 << 40, ..Machine::default() };
        for (set_to, ticks) in [(1_600_000_000_000_000_000, 1 << 41), (1_800_000_000_000_000_000, 5)] {
            machine.now(40);
            (machine.wall, machine.ticks) = (set_to, machine.ticks.min(ticks));
            machine.passes(CARRIED_NANOS);
            assert_eq!(machine.now(40), machine.wall);
        }
    }

    #[test]
    fn a_clock_that_nobody_sets_never_goes_back() {
        let mut before = MonotonicClock.now();
        for _ in 0..10_000 {
            let now = MonotonicClock.now();
            assert!(now >= before, "{now:?} is before {before:?}");
            before = now;
        }
        assert!(before < wall_clock(), "it does not begin at the epoch");
    }

    #[test]
    fn the_machines_clock_stays_beside_its_wall_clock() {
        // Far more than it may be off, since a system is free to slew its clock meanwhile.
        let bound = Duration::from_millis(5);
        for _ in 0..200_000 {
            let (before, told, after) = (wall_clock(), SystemClock.now(), wall_clock());
            assert!(told.saturating_add(bound) >= before, "{told:?} is behind {before:?}");
            assert!(after.saturating_add(bound) >= told, "{told:?} is ahead of {after:?}");
        }
    }
}
