//! Moments to wait for: the edge of a window, or some milliseconds past it.

use hivemind_core::{Clock, SystemClock, Timestamp};
use std::time::Duration;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// Waits for a moment, which is not far.
pub(crate) async fn until(moment: Timestamp) {
    let remaining = moment.since(now());
    assert!(remaining <= Duration::from_secs(90), "nobody waits {remaining:?} for an edge");
    if !remaining.is_zero() {
        // Nothing happens but that time passes.
        let _ = tokio::time::timeout(remaining, std::future::pending::<()>()).await;
    }
}

/// Waits until something is so, asking again and again: seldom enough that it takes nothing from what is measured.
pub(crate) async fn until_so(mut is_so: impl AsyncFnMut() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !is_so().await {
        ticks.tick().await;
    }
}

/// The window of this length that a moment lies in, counted from the epoch as the nodes do.
pub(crate) fn window(moment: Timestamp, length: Duration) -> u64 {
    u64::try_from(u128::from(moment.as_nanos()) / length.as_nanos()).unwrap()
}

/// When a window begins.
pub(crate) fn begin(window: u64, length: Duration) -> Timestamp {
    Timestamp::from_nanos(u64::try_from(u128::from(window) * length.as_nanos()).unwrap())
}

/// How far into its window a moment is.
pub(crate) fn phase(moment: Timestamp, length: Duration) -> Duration {
    moment.since(begin(window(moment, length), length))
}

/// Waits until a window of this length has at least so much left.
pub(crate) async fn with_room(length: Duration, room: Duration) {
    let now = now();
    if length.saturating_sub(phase(now, length)) < room {
        let next = begin(window(now, length) + 1, length);
        until(next.saturating_add(Duration::from_millis(50))).await;
    }
}
