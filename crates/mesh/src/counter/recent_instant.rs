//! Recent instants in four bytes, for checks of how long ago something was: a unit is about a millisecond, and
//! units wrap after 52 days. An older instant seems younger; the worst effect is an update that is sent a
//! moment later, or a request that is not sent within one second of 52 days.

use hivemind_core::Timestamp;
use std::time::Duration;

/// Nanoseconds per unit, as a power of two.
const UNIT: u32 = 20;
/// About a second.
const SECOND: u32 = 1_000;
/// A clock that stepped back leaves instants ahead of it: the last three of the 52 days count as the future.
const AHEAD: u32 = u32::MAX - u32::MAX / 16;

/// A recent instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecentInstant(u32);

impl RecentInstant {
    #[expect(clippy::cast_possible_truncation, reason = "units wrap")]
    #[inline]
    pub(crate) fn at(now: Timestamp) -> Self {
        Self((now.as_nanos() >> UNIT) as u32)
    }

    /// An instant that counts as long ago for the next days.
    pub(crate) fn long_before(now: Timestamp) -> Self {
        Self(Self::at(now).0.wrapping_sub(u32::MAX / 4))
    }

    /// How long ago it was, within one unit.
    #[inline]
    pub(crate) fn ago(self, now: Timestamp) -> Duration {
        let units = Self::at(now).0.wrapping_sub(self.0);
        let units = if units > AHEAD { 0 } else { units };
        Duration::from_nanos(u64::from(units) << UNIT)
    }

    /// Whether it lies ahead, by less than a second.
    pub(crate) fn is_soon(self, now: Timestamp) -> bool {
        let ahead = self.0.wrapping_sub(Self::at(now).0);
        (1..SECOND).contains(&ahead)
    }

    /// The later of the two.
    pub(crate) fn or_later(self, now: Timestamp) -> Self {
        if self.ago(now) > Duration::ZERO { Self::at(now) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when a comparison does not wrap.
    #[test]
    fn instant_is_soon_until_it_has_passed() {
        let end = 1_u64 << (32 + UNIT);
        for base in [0, end - 250_000_000, 400 * end] {
            let at = |ms: u64| Timestamp::from_nanos(base + ms * 1_000_000);
            for (now_ms, is_soon) in [(475, true), (495, true), (501, false), (900, false), (9_000, false)] {
                assert_eq!(RecentInstant::at(at(500)).is_soon(at(now_ms)), is_soon, "{now_ms} after {base}");
            }
        }
    }

    /// Fails when a difference does not wrap, or a step back counts as 52 days.
    #[test]
    fn age_is_correct_across_wraparound_and_never_negative() {
        let end = 1_u64 << (32 + UNIT);
        for (then_ms, now_ms, least_ms, most_ms) in
            [(0, 0, 0, 0), (10, 510, 498, 502), (0, 86_400_000, 86_399_990, 86_400_010), (500, 10, 0, 0)]
        {
            for base in [0, end - 250_000_000, 400 * end] {
                let at = |ms: u64| Timestamp::from_nanos(base + ms * 1_000_000);
                let ago = RecentInstant::at(at(then_ms)).ago(at(now_ms)).as_millis();
                assert!((least_ms..=most_ms).contains(&ago), "{then_ms} to {now_ms} after {base}: {ago}");
            }
        }
    }
}
