//! The wall clock, watched beside one that nobody sets. Windows are aligned to the wall clock on every node, so a step of it
//! ends windows early or makes counters wait: nothing that can be mended here, and something to know.

use super::Health;
use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::{Clock, MonotonicClock, SystemClock, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// What slewing cannot come to between two looks.
const STEP: Duration = Duration::from_millis(500);
/// Two clocks that were not read in this time of each other say nothing: the thread was put aside in between.
const READ_WITHIN: Duration = Duration::from_millis(50);
/// How long a step is told: whoever is woken by it finds it.
const TOLD_FOR: Duration = Duration::from_secs(600);

/// A reading of both clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    wall: Timestamp,
    /// Of the clock that nobody sets.
    steady: Timestamp,
}

/// How far the wall clock went beyond the time that passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Forth(Duration),
    Back(Duration),
}

/// The last reading, and the last step.
#[derive(Debug, Default)]
struct Steps {
    before: Option<Reading>,
    last: Option<(Step, Timestamp)>,
}

impl Steps {
    /// Compares this reading with the one before. Gives the step in between, if there was one.
    fn look(&mut self, now: Reading) -> Option<Step> {
        let before = self.before.replace(now)?;
        let expected = before.wall.saturating_add(now.steady.since(before.steady));
        let (forth, back) = (now.wall.since(expected), expected.since(now.wall));
        let step = if forth > STEP {
            Step::Forth(forth)
        } else if back > STEP {
            Step::Back(back)
        } else {
            return None;
        };
        self.last = Some((step, now.steady));
        Some(step)
    }

    /// The last step, as long as it is told.
    fn told(&self, steady: Timestamp) -> Option<Step> {
        self.last.filter(|(_, at)| steady.since(*at) < TOLD_FOR).map(|(step, _)| step)
    }
}

impl Step {
    fn described(self) -> String {
        let round =
            |span: Duration| Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        let (what, effect) = match self {
            Self::Forth(by) => (
                format!("the wall clock went forward by {:?} at once", round(by)),
                "windows ended early; it was set, or this machine slept",
            ),
            Self::Back(by) if by > STEP_BACK => (
                format!("the wall clock was set back by {:?}", round(by)),
                "counters go on from the new time with what they held",
            ),
            Self::Back(by) => (
                format!("the wall clock was set back by {:?}", round(by)),
                "counters stand still until it is where it was",
            ),
        };
        format!("{what}: {effect}. Keep it by NTP, which slews")
    }
}

/// Reads both clocks, unless this thread was put aside between the two.
fn read() -> Option<Reading> {
    let steady = MonotonicClock.now();
    let wall = SystemClock.now();
    (MonotonicClock.now().since(steady) < READ_WITHIN).then_some(Reading { wall, steady })
}

/// Watches the clock for ever.
pub(crate) async fn watch(health: Arc<Health>) {
    let (mut ticks, mut steps) = (tokio::time::interval(LOOK), Steps::default());
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(now) = read() else { continue };
        if let Some(step) = steps.look(now) {
            tracing::warn!("{}", step.described());
        }
        health.clock_is(steps.told(now.steady).map(Step::described));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: a look that is late taken for a step; a step that is told for ever.
    #[test]
    fn a_step_of_the_wall_clock_is_noticed_and_told_for_a_while_and_slewing_or_a_late_look_is_none() {
        let mut steps = Steps::default();
        let ms = Duration::from_millis;
        for (steady, wall, step, is_told) in [
            (0, 1_000_000, None, false),
            (1_000, 1_001_000, None, false),
            // Late by an hour, with a clock that was slewed meanwhile.
            (3_601_000, 4_601_400, None, false),
            (3_602_000, 4_604_400, Some(Step::Forth(ms(2_000))), true),
            (3_603_000, 4_605_400, None, true),
            (3_604_000, 4_603_400, Some(Step::Back(ms(3_000))), true),
            (4_203_999, 5_203_399, None, true),
            (4_204_000, 5_203_400, None, false),
        ] {
            let (steady, wall) = (Timestamp::from_millis(steady), Timestamp::from_millis(wall));
            assert_eq!(steps.look(Reading { wall, steady }), step, "at {steady:?}");
            assert_eq!(steps.told(steady).is_some(), is_told, "at {steady:?}");
        }
    }

    #[test]
    fn what_a_step_does_is_said_with_it() {
        for (step, word) in [
            (Step::Forth(Duration::from_millis(2_500)), "forward by 2.5s at once: windows ended early"),
            (Step::Back(Duration::from_secs(3)), "set back by 3s: counters stand still"),
            (Step::Back(Duration::from_secs(3_600)), "set back by 3600s: counters go on"),
        ] {
            assert!(step.described().contains(word), "{}", step.described());
        }
    }
}
