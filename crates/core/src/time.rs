//! Timestamps and clocks. Every decision takes a [`Timestamp`] as an argument; only this
//! module reads a clock, so everything else can be replayed.
//!
//! It reads the wall clock and not a monotonic one: windows are aligned to the Unix
//! epoch on every node, and a monotonic clock drifts from it by seconds per day. The
//! algorithms tolerate a wall clock that steps (see [`STEP_BACK`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// How far a clock may step back before a counter follows it.
///
/// Within this span a counter's time stands still, so that two threads whose readings
/// arrive in the wrong order earn nothing twice. Beyond it the clock was set, and the
/// counter continues from the new time with its current state: waiting until the clock
/// reaches the old time again could take years.
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
// After one second back the window's end is unchanged; beyond the span it is another window.
/// assert_eq!(ends_in(Timestamp::from_millis(99_000)), Duration::from_secs(2));
/// assert_eq!(ends_in(Timestamp::from_millis(99_000 - STEP_BACK.as_secs() * 1_000)), Duration::from_secs(1));
/// ```
pub const STEP_BACK: Duration = Duration::from_secs(60);

/// Nanoseconds since the Unix epoch; valid until the year 2554.
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
    /// The latest representable time.
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

    /// The span since `earlier`; zero if `earlier` is later.
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

    /// This time plus `span`, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// A source of time.
///
/// ```
/// use hivemind_core::{Clock, Timestamp};
///
/// /// The time of an entry in a replayed log.
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
    /// The current time.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

/// The system's wall clock.
///
/// A reading is extrapolated with the CPU's counter for up to a millisecond, because a
/// system call costs more than the rest of a decision. The clock's error is at most the
/// time of a reading (20 µs) plus the counter's drift in a millisecond, and it follows a
/// changed wall clock within a millisecond. The first reading calibrates the counter,
/// which may take 200 ms; limiters do it when they are created.
///
/// ```
/// use hivemind_core::{Clock, SystemClock, Timestamp};
///
/// let in_2023 = Timestamp::from_millis(1_700_000_000_000);
/// assert!(SystemClock.now() > in_2023);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// How long a reading is extrapolated.
const EXTRAPOLATION_NANOS: u64 = 1_000_000;
/// A reading that took longer is returned, but not extrapolated: the thread was
/// preempted, and the counter's value at the time of the reading is unknown.
const LONGEST_READING_NANOS: u64 = 20_000;

#[derive(Clone, Copy)]
struct ClockReading {
    ticks: u64,
    wall: Timestamp,
}

static COUNTER: LazyLock<quanta::Clock> = LazyLock::new(quanta::Clock::new);

thread_local! {
    static LAST: Cell<Option<ClockReading>> = const { Cell::new(None) };
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let ticks = COUNTER.raw();
        match LAST.get().and_then(|last| last.extrapolate(ticks, nanos_between)) {
            Some(now) => now,
            None => read_wall_clock(ticks),
        }
    }
}

impl ClockReading {
    #[inline]
    fn extrapolate(self, ticks: u64, nanos_between: impl Fn(u64, u64) -> u64) -> Option<Timestamp> {
        if ticks < self.ticks {
            return None; // The counter was reset: the machine was suspended.
        }
        let since = nanos_between(self.ticks, ticks);
        (since < EXTRAPOLATION_NANOS).then(|| Timestamp(self.wall.0.saturating_add(since)))
    }

    /// A reading of the wall clock between two readings of the counter.
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
fn read_wall_clock(before: u64) -> Timestamp {
    let wall = wall_clock();
    LAST.set(ClockReading::between(before, wall, COUNTER.raw(), nanos_between));
    wall
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn wall_clock() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default(); // A clock before 1970 reads as the epoch.
    let wall = Timestamp::EPOCH.saturating_add(since_epoch);
    Timestamp(wall.0.saturating_add_signed(ERROR_NANOS.load(Ordering::Relaxed)))
}

/// Error in nanoseconds that tests add to the wall clock.
static ERROR_NANOS: AtomicI64 = AtomicI64::new(0);

impl SystemClock {
    /// Adds an error in milliseconds to all later readings in this process. Only for tests of nodes with different
    /// clocks.
    #[doc(hidden)]
    pub fn set_error_millis(millis: i64) {
        ERROR_NANOS.store(millis.saturating_mul(1_000_000), Ordering::Relaxed);
        LAST.set(None);
    }
}

/// A clock that never goes back and is never set; its times are only valid in this process.
///
/// For durations and time-outs. Its zero is its first reading.
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

/// A clock that only moves when set, for tests of this crate and of yours.
///
/// Clones share one time: a test keeps one and gives the other to the limiter.
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

    /// Advances the clock by `span`.
    ///
    /// ```
    /// # use hivemind_core::{Clock, ManualClock, Timestamp};
    /// let clock = ManualClock::default();
    /// let clone = clock.clone();
    /// clock.advance(std::time::Duration::from_millis(3));
    /// assert_eq!(clone.now(), Timestamp::from_millis(3)); // Clones share one time.
    /// ```
    pub fn advance(&self, span: Duration) {
        self.set(self.now().saturating_add(span));
    }

    /// Sets the clock, backward or forward.
    ///
    /// ```
    /// # use hivemind_core::{Clock, ManualClock, Timestamp};
    /// let clock = ManualClock::at(Timestamp::from_millis(9));
    /// clock.set(Timestamp::EPOCH); // It may go back.
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

    /// A machine whose counter ticks every nanosecond, and is fast by one in 10,000.
    #[derive(Default)]
    struct Machine {
        ticks: u64,
        wall: u64,
        last: Option<ClockReading>,
    }

    impl Machine {
        fn advance(&mut self, nanos: u64) {
            self.ticks += nanos + nanos / 10_000;
            self.wall += nanos;
        }

        /// A reading of the clock whose system call takes `duration`, most of it before the system reads its clock.
        fn now(&mut self, duration: u64) -> u64 {
            let nanos = |earlier, later| later - earlier;
            let before = self.ticks;
            if let Some(now) = self.last.and_then(|last| last.extrapolate(before, nanos)) {
                return now.as_nanos();
            }
            self.advance(duration);
            let wall = Timestamp::from_nanos(self.wall);
            self.last = ClockReading::between(before, wall, self.ticks, nanos);
            self.wall
        }
    }

    // Fails when a slow reading is extrapolated.
    #[test]
    fn clock_error_is_bounded_by_reading_time_and_drift() {
        let mut machine = Machine { wall: 1_700_000_000_000_000_000, ..Machine::default() };
        let drift = EXTRAPOLATION_NANOS / 10_000 + 1;
        for step in 0..200_000_u64 {
            machine.advance(step * 7_919 % 50_000);
            // The thread is preempted for up to 10 ms at every third reading.
            let duration = if step % 3 == 0 { step * 104_729 % 10_000_000 } else { 40 };
            let reading = machine.now(duration);
            let off = reading.abs_diff(machine.wall);
            assert!(off <= LONGEST_READING_NANOS + drift, "{off} ns off at step {step}");
        }
    }

    #[test]
    fn clock_follows_set_wall_clock_within_a_millisecond() {
        let mut machine = Machine { wall: 1_700_000_000_000_000_000, ticks: 1 << 40, ..Machine::default() };
        for (set_to, ticks) in [(1_600_000_000_000_000_000, 1 << 41), (1_800_000_000_000_000_000, 5)] {
            machine.now(40);
            (machine.wall, machine.ticks) = (set_to, machine.ticks.min(ticks));
            machine.advance(EXTRAPOLATION_NANOS);
            assert_eq!(machine.now(40), machine.wall);
        }
    }

    #[test]
    fn monotonic_clock_never_goes_back() {
        let mut before = MonotonicClock.now();
        for _ in 0..10_000 {
            let now = MonotonicClock.now();
            assert!(now >= before, "{now:?} is before {before:?}");
            before = now;
        }
        assert!(before < wall_clock(), "its zero is its first reading");
    }

    #[test]
    fn system_clock_stays_close_to_wall_clock() {
        // Far above the clock's error, because the system may slew its clock meanwhile.
        let bound = Duration::from_millis(5);
        for _ in 0..200_000 {
            let (before, reading, after) = (wall_clock(), SystemClock.now(), wall_clock());
            assert!(reading.saturating_add(bound) >= before, "{reading:?} is behind {before:?}");
            assert!(after.saturating_add(bound) >= reading, "{reading:?} is ahead of {after:?}");
        }
    }
}
