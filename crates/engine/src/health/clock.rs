//! Wall clock monitor: compares the wall clock with the monotonic clock. Windows are aligned to the wall clock on every
//! node, so a step ends windows early or stops counters. It cannot be corrected here, only reported.

use super::Health;
use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::{Clock, MonotonicClock, SystemClock, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Interval of comparisons.
const LOOK: Duration = Duration::from_secs(1);
/// Slewing cannot reach this difference between two comparisons.
const STEP: Duration = Duration::from_millis(500);
/// If reading both clocks takes longer, the thread was suspended in between and the reading is discarded.
const READ_WITHIN: Duration = Duration::from_millis(50);
/// How long a step stays in the health report, so that an alerted operator still finds it.
const REPORTED_FOR: Duration = Duration::from_secs(600);

/// A reading of both clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Timestamp,
    /// The monotonic clock.
    steady: Timestamp,
}

/// Difference between the wall clock and the elapsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockStep {
    Forth(Duration),
    Back(Duration),
}

/// The last reading, and the last step.
#[derive(Debug, Default)]
struct Steps {
    before: Option<Reading>,
    last: Option<(ClockStep, Timestamp)>,
}

impl Steps {
    /// Compares this reading with the previous one. Returns the step in between, if there was one.
    fn look(&mut self, now: Reading) -> Option<ClockStep> {
        let before = self.before.replace(now)?;
        let expected = before.wall.saturating_add(now.steady.since(before.steady));
        let (forth, back) = (now.wall.since(expected), expected.since(now.wall));
        let step = if forth > STEP {
            ClockStep::Forth(forth)
        } else if back > STEP {
            ClockStep::Back(back)
        } else {
            return None;
        };
        self.last = Some((step, now.steady));
        Some(step)
    }

    /// The last step, while it is reported.
    fn reported(&self, steady: Timestamp) -> Option<ClockStep> {
        self.last.filter(|(_, at)| steady.since(*at) < REPORTED_FOR).map(|(step, _)| step)
    }
}

impl ClockStep {
    fn described(self) -> String {
        let round =
            |span: Duration| Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let (what, effect) = match self {
            Self::Forth(by) => (
                format!("the wall clock jumped forward by {:?}", round(by)),
                "windows ended early; it was set, or this machine was suspended",
            ),
            Self::Back(by) if by > STEP_BACK => (
                format!("the wall clock was set back by {:?}", round(by)),
                "counters continue from the new time with their current values",
            ),
            Self::Back(by) => (
                format!("the wall clock was set back by {:?}", round(by)),
                "counters pause until it reaches the previous time",
            ),
        };
        format!("{what}: {effect}; synchronize it with NTP, which slews")
    }
}

/// Reads both clocks; none if this thread was suspended between the two.
fn read() -> Option<Reading> {
    let steady = MonotonicClock.now();
    let wall = SystemClock.now();
    (MonotonicClock.now().since(steady) < READ_WITHIN).then_some(Reading { wall, steady })
}

/// Monitors the clock until the process ends.
pub async fn watch(health: Arc<Health>) {
    let (mut ticks, mut steps) = (tokio::time::interval(LOOK), Steps::default());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(now) = read() else { continue };
        if let Some(step) = steps.look(now) {
            tracing::warn!("{}", step.described());
        }
        health.set_clock_step(steps.reported(now.steady).map(ClockStep::described));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_step_is_reported_for_ten_minutes_but_slewing_is_not() {
        let mut steps = Steps::default();
        let ms = Duration::from_millis;
        for (steady, wall, step, is_reported) in [
            (0, 1_000_000, None, false),
            (1_000, 1_001_000, None, false),
            // An hour late, with a slewed clock.
            (3_601_000, 4_601_400, None, false),
            (3_602_000, 4_604_400, Some(ClockStep::Forth(ms(2_000))), true),
            (3_603_000, 4_605_400, None, true),
            (3_604_000, 4_603_400, Some(ClockStep::Back(ms(3_000))), true),
            (4_203_999, 5_203_399, None, true),
            (4_204_000, 5_203_400, None, false),
        ] {
            let (steady, wall) = (Timestamp::from_millis(steady), Timestamp::from_millis(wall));
            assert_eq!(steps.look(Reading { wall, steady }), step, "at {steady:?}");
            assert_eq!(steps.reported(steady).is_some(), is_reported, "at {steady:?}");
        }
    }

    #[test]
    fn clock_step_is_described_with_its_effect() {
        for (step, word) in [
            (ClockStep::Forth(Duration::from_millis(2_500)), "forward by 2.5s: windows ended early"),
            (ClockStep::Back(Duration::from_secs(3)), "set back by 3s: counters pause"),
            (ClockStep::Back(Duration::from_secs(3_600)), "set back by 3600s: counters continue"),
        ] {
            assert!(step.described().contains(word), "{}", step.described());
        }
    }
}
