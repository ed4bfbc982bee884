//! The mesh clock: this node's clock, slowly adjusted towards the median of all clocks.
//!
//! The offset to a peer's clock is measured by exchanges: a frame of ours, and one of theirs with the time at
//! which ours arrived and how long ago that was. The error is at most half of the round trip, so the exchange
//! with the shortest trip counts. Local clocks are compared, not mesh clocks: all nodes then look for the
//! median of the same clocks, and no clock follows a clock that follows it. Invariant: between two ticks the
//! mesh clock advances by at least 95 % of the elapsed time, unless the underlying clock was set back by more
//! than a minute (docs/decisions/014).

use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::{Limit, Timestamp};
use std::time::Duration;

/// How many exchanges are kept per peer.
const EXCHANGES: usize = 8;
/// Clocks that differ by at most this much are not adjusted.
const ALIKE: i64 = 10_000_000;
/// A tick this far before the last one was not late: the clock was set back.
const STEPPED: Duration = Duration::from_millis(100);
/// The longest time between two ticks that is used for an adjustment.
const LONGEST_TICK: Duration = Duration::from_secs(1);
/// From this offset on a peer's clock causes a warning.
const FAR: Duration = Duration::from_millis(500);
/// An offset up to this is acceptable for windows of every length.
const TOO_FAR: Duration = Duration::from_secs(2);

/// The offset between two clocks by one exchange: theirs minus ours, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) offset: i64,
    /// The time that both frames spent on the network: half of it is the maximum error of the offset.
    pub(crate) trip: u64,
}

impl Sample {
    /// From our clock at sending and at receiving, theirs at answering, and how long it held our frame before.
    /// None for impossible times.
    pub(crate) fn of(
        sent_at: Timestamp,
        held: Duration,
        theirs: Timestamp,
        heard: Timestamp,
    ) -> Option<Self> {
        let held = u64::try_from(held.as_nanos()).ok()?;
        let trip = heard.as_nanos().checked_sub(sent_at.as_nanos())?.checked_sub(held)?;
        let apart = i128::from(theirs.as_nanos()) - i128::from(heard.as_nanos()) + i128::from(trip / 2);
        // Within a century of each other, so that sums of them cannot overflow.
        let offset = i64::try_from(apart).ok().filter(|offset| offset.unsigned_abs() < 1 << 61)?;
        Some(Self { offset, trip })
    }

    /// The same exchange after both clocks were adjusted by these amounts: ours, and theirs.
    pub(crate) fn moved(self, ours: i64, theirs: i64) -> Self {
        Self { offset: self.offset.saturating_sub(ours).saturating_add(theirs), ..self }
    }

    /// Whether both can be true for clocks that were not set in between.
    fn agrees(self, other: Self) -> bool {
        let doubt = (self.trip / 2).saturating_add(other.trip / 2).saturating_add(1_000_000);
        self.offset.abs_diff(other.offset) <= doubt
    }
}

/// The last exchanges with one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanges {
    last: [Option<Sample>; EXCHANGES],
    next: usize,
}

impl Exchanges {
    pub(crate) fn hear(&mut self, sample: Sample) {
        if self.best().is_some_and(|best| !best.agrees(sample)) {
            // One of the clocks was set: earlier exchanges are void.
            self.last = [None; EXCHANGES];
        }
        if let Some(place) = self.last.get_mut(self.next) {
            *place = Some(sample);
        }
        self.next = (self.next + 1) % EXCHANGES;
    }

    /// The one with the shortest trip.
    pub(crate) fn best(&self) -> Option<Sample> {
        self.last.iter().flatten().min_by_key(|sample| sample.trip).copied()
    }

    /// Our clock was adjusted by this amount.
    pub(crate) fn move_ours(&mut self, by: i64) {
        self.last.iter_mut().flatten().for_each(|sample| *sample = sample.moved(by, 0));
    }
}

/// The median of the peers' clocks and of ours, which is at 0.
pub(crate) fn middle(peers: impl IntoIterator<Item = Sample>) -> Sample {
    let mut all: Vec<Sample> = peers.into_iter().chain([Sample { offset: 0, trip: 0 }]).collect();
    all.sort_unstable_by_key(|sample| sample.offset);
    let at = |index: usize| all.get(index).copied().unwrap_or(Sample { offset: 0, trip: 0 });
    let (low, high) = (at((all.len() - 1) / 2), at(all.len() / 2));
    Sample { offset: low.offset.midpoint(high.offset), trip: low.trip.max(high.trip) }
}

/// This node's mesh clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeshClock {
    /// How far it is ahead of the underlying clock, in nanoseconds.
    pub(crate) slew: i64,
    /// The latest time it showed: it never shows an earlier one.
    pub(crate) reached: Timestamp,
    /// The underlying clock at the last tick.
    ticked: Option<Timestamp>,
    moving: bool,
    /// The sum of forward adjustments: time in which no bucket earned tokens.
    pub(crate) gained: u64,
}

impl MeshClock {
    /// The mesh time when the underlying clock shows `local`.
    pub(crate) fn at(&self, local: Timestamp) -> Timestamp {
        shown(local, self.slew).max(self.reached)
    }

    /// Time has passed, and `middle` is the median of all clocks relative to the underlying clock. Adjusts
    /// towards it by at most `most` per second. Returns the negative step of the underlying clock if it was set
    /// back, else 0.
    pub(crate) fn tick(&mut self, local: Timestamp, middle: Sample, most: Duration) -> i64 {
        if most.is_zero() {
            return 0; // The mesh clock is the underlying clock.
        }
        let last = self.ticked.replace(local).unwrap_or(local);
        let back = last.since(local);
        if back > STEP_BACK {
            // That is not a step: the clock was wrong, and is followed (docs/decisions/005).
            self.reached = shown(local, self.slew);
            return -nanos(back);
        }
        if back > STEPPED {
            self.slew = self.slew.saturating_add(nanos(back));
            self.reached = self.at(local);
            return -nanos(back);
        }
        let missing = middle.offset.saturating_sub(self.slew);
        let doubt = i64::try_from(middle.trip / 2).unwrap_or(i64::MAX).max(ALIKE);
        let enough = if self.moving { doubt / 4 } else { doubt };
        self.moving = missing.saturating_abs() > enough;
        if self.moving {
            let share =
                nanos(local.since(last).min(LONGEST_TICK)).saturating_mul(nanos(most)) / 1_000_000_000;
            let moved = missing.clamp(-share, share);
            self.slew = self.slew.saturating_add(moved);
            self.gained = self.gained.saturating_add(u64::try_from(moved).unwrap_or(0));
        }
        self.reached = self.at(local);
        0
    }
}

/// A time as shown by a clock that is `ahead` nanoseconds ahead.
pub(crate) fn shown(local: Timestamp, ahead: i64) -> Timestamp {
    Timestamp::from_nanos(local.as_nanos().saturating_add_signed(ahead))
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

/// Whether a clock at this distance from ours causes a warning.
pub(crate) fn is_far(apart: Duration) -> bool {
    apart > FAR
}

/// Whether a node whose clock is this far from ours does not share this limit with us. Buckets have no windows
/// that two clocks could disagree about: the owner's clock counts.
pub(crate) fn is_too_far(apart: Duration, limit: &Limit) -> bool {
    !matches!(limit, Limit::TokenBucket(_)) && apart > TOO_FAR.max(limit.period().length() / 4)
}

/// The same for the shortest windows.
pub(crate) fn is_too_far_for_any(apart: Duration) -> bool {
    apart > TOO_FAR
}

#[cfg(test)]
mod tests;
