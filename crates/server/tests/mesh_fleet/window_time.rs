//! Times relative to windows: waiting for an edge, or for some milliseconds after it.

use hivemind_core::{Clock, SystemClock, Timestamp};
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// Waits for a time in the near future.
pub(crate) async fn until(moment: Timestamp) {
    let remaining = moment.since(now());
    assert!(remaining <= Duration::from_secs(90), "{remaining:?} is too long to wait for an edge");
    if !remaining.is_zero() {
        // No event marks it: only time passes.
        let _ = tokio::time::timeout(remaining, std::future::pending::<()>()).await;
    }
}

/// Polls until a condition is true, rarely enough not to disturb measurements.
pub(crate) async fn until_true(mut condition: impl AsyncFnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !condition().await {
        ticks.tick().await;
    }
}

/// The window of this length that contains a time, counted from the epoch as the nodes do.
pub(crate) fn window(moment: Timestamp, length: Duration) -> u64 {
    u64::try_from(u128::from(moment.as_nanos()) / length.as_nanos()).unwrap()
}

/// The beginning of a window.
pub(crate) fn begin(window: u64, length: Duration) -> Timestamp {
    Timestamp::from_nanos(u64::try_from(u128::from(window) * length.as_nanos()).unwrap())
}

/// The time since the beginning of the window.
pub(crate) fn phase(moment: Timestamp, length: Duration) -> Duration {
    moment.since(begin(window(moment, length), length))
}

/// Waits until a window of this length has at least this much time left.
pub(crate) async fn wait_for_room(length: Duration, room: Duration) {
    let now = now();
    if length.saturating_sub(phase(now, length)) < room {
        let next = begin(window(now, length) + 1, length);
        until(next.saturating_add(Duration::from_millis(50))).await;
    }
}
