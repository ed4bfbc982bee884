//! Retry-After of a refusal, in whole seconds.
//!
//! Rounded up and never 0: a client that waits as long as requested must pass, and `Retry-After: 0` would invite
//! it to retry in a loop. A request that can never pass gets no `Retry-After`, since any number would cause one
//! more refused request each time.

use hivemind_core::store::Outcome;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// When a refused client may retry. Greater values mean longer waits, so the [`max`](Iterator::max) of several
/// refusals applies to the request.
///
/// ```
/// use hivemind_core::store::Outcome;
/// use hivemind_tower::RetryAfter;
/// use std::time::Duration;
///
/// let wait = Duration::from_millis(7_500);
/// let retry_after = RetryAfter::of(Outcome::Refused { retry_after: Some(wait) }).ok_or("admitted")?;
/// assert_eq!(retry_after.header_value().as_deref(), Some("8"));
/// assert_eq!(retry_after.to_string(), "Rate limit exceeded. Retry after 8 seconds.");
/// assert!(RetryAfter::Never > retry_after && RetryAfter::Never.header_value().is_none());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RetryAfter {
    /// The request passes after this many seconds, unless other requests spend the budget first.
    Seconds(NonZeroU64),
    /// The request never passes: its cost is more than the limit can hold.
    Never,
}

impl RetryAfter {
    /// The wait of one limit's outcome; `None` if it admitted the request.
    ///
    /// ```
    /// # use hivemind_core::store::Outcome;
    /// # use hivemind_tower::RetryAfter;
    /// assert_eq!(RetryAfter::of(Outcome::Admitted), None);
    /// assert_eq!(RetryAfter::of(Outcome::Refused { retry_after: None }), Some(RetryAfter::Never));
    /// ```
    #[must_use]
    pub fn of(outcome: Outcome) -> Option<Self> {
        match outcome {
            Outcome::Admitted => None,
            Outcome::Refused { retry_after: Some(wait) } => Some(Self::Seconds(whole_seconds(wait))),
            Outcome::Refused { retry_after: None } => Some(Self::Never),
        }
    }

    /// The wait after which all of these limits admit the request; `None` if none of them refused it.
    ///
    /// Pass only outcomes of limits that are enforced. A limit in shadow mode does not refuse the request, so its
    /// wait must not be reported.
    ///
    /// ```
    /// # use hivemind_core::store::Outcome;
    /// # use hivemind_tower::RetryAfter;
    /// let wait = |secs| Outcome::Refused { retry_after: Some(std::time::Duration::from_secs(secs)) };
    /// let (short, long) = (wait(2), wait(30));
    /// assert_eq!(RetryAfter::longest([short, Outcome::Admitted, long]), RetryAfter::of(long));
    /// ```
    pub fn longest(outcomes: impl IntoIterator<Item = Outcome>) -> Option<Self> {
        outcomes.into_iter().filter_map(Self::of).max()
    }

    /// The value of the `Retry-After` header; `None` if the header must be omitted.
    #[must_use]
    pub fn header_value(self) -> Option<String> {
        match self {
            Self::Seconds(seconds) => Some(seconds.to_string()),
            Self::Never => None,
        }
    }
}

/// A sentence for humans.
impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(NonZeroU64::MIN) => f.write_str("Rate limit exceeded. Retry after 1 second."),
            Self::Seconds(seconds) => write!(f, "Rate limit exceeded. Retry after {seconds} seconds."),
            Self::Never => f.write_str(
                "Rate limit exceeded. The limit is smaller than this request; repeating it will not help.",
            ),
        }
    }
}

fn whole_seconds(wait: Duration) -> NonZeroU64 {
    let rounded_up = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    NonZeroU64::new(rounded_up).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::store::{Charge, Context, Key, KeySeed, LocalStore, MemoryStore};
    use hivemind_core::store::{Parts, StoreOptions, Verdict};
    use hivemind_core::{Cost, Limit};
    use hivemind_core::{Period, Rate, Timestamp};
    use proptest::prelude::*;

    const NEVER: Outcome = Outcome::Refused { retry_after: None };

    fn refused(wait: Duration) -> Outcome {
        Outcome::Refused { retry_after: Some(wait) }
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up_and_never_zero() {
        let cases = [
            (Duration::ZERO, "1"),
            (Duration::from_nanos(1), "1"),
            (Duration::from_millis(999), "1"),
            (Duration::from_secs(1), "1"),
            (Duration::new(1, 1), "2"),
            (Duration::from_millis(59_001), "60"),
            (Duration::from_secs(31_536_000), "31536000"),
            (Duration::MAX, "18446744073709551615"),
        ];
        for (wait, value) in cases {
            let header = RetryAfter::of(refused(wait)).and_then(RetryAfter::header_value);
            assert_eq!(header.as_deref(), Some(value), "{wait:?}");
        }
    }

    #[test]
    fn retry_after_header_is_absent_for_pass_and_never() {
        assert_eq!(RetryAfter::of(Outcome::Admitted), None);
        assert_eq!(RetryAfter::of(NEVER), Some(RetryAfter::Never));
        assert_eq!(RetryAfter::Never.header_value(), None);
    }

    #[test]
    fn longest_retry_after_of_several_refusals_is_used() {
        let (short, long) = (refused(Duration::from_secs(2)), refused(Duration::from_secs(30)));
        let longest = |outcomes: &[Outcome]| RetryAfter::longest(outcomes.iter().copied());
        assert_eq!(longest(&[]), None);
        assert_eq!(longest(&[Outcome::Admitted, Outcome::Admitted]), None);
        assert_eq!(longest(&[short, Outcome::Admitted, long]), RetryAfter::of(long));
        assert_eq!(longest(&[long, NEVER, short]), Some(RetryAfter::Never));
    }

    #[test]
    fn retry_after_text_names_the_wait_or_that_none_helps() {
        let sentence = |outcome| RetryAfter::of(outcome).map(|retry_after| retry_after.to_string());
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            sentence(refused(Duration::from_millis(7_500))),
            text("Rate limit exceeded. Retry after 8 seconds.")
        );
        assert_eq!(
            sentence(refused(Duration::from_millis(10))),
            text("Rate limit exceeded. Retry after 1 second.")
        );
        assert!(sentence(NEVER).is_some_and(|text| text.contains("will not help")));
    }

    /// Spends at one moment in a memory store.
    fn spend(store: &MemoryStore, limit: &Limit, cost: u64, now: Timestamp) -> Verdict {
        let entries = [("client", "one")];
        let parts = Parts { domain: "api", entries: &entries };
        let key = Key::new(&KeySeed::from_cluster_id("test"), parts, limit, 0);
        let charge = Charge { cost: Cost::new(cost), ..Charge::spend(key, parts, limit) };
        store.decide_now(&[charge], Context::at(now)).each()[0]
    }

    fn limits() -> impl Strategy<Value = Limit> {
        let periods = prop_oneof![Just(Period::SECOND), Just(Period::MINUTE), Just(Period::HOUR)];
        (0..3_u8, 1..50_u32, 1..20_u32, periods).prop_map(|(kind, requests, burst, period)| match kind {
            0 => Limit::token_bucket(Rate::new(requests, period).unwrap(), burst).unwrap(),
            1 => Limit::fixed_window(requests, period),
            _ => Limit::sliding_window(requests, period),
        })
    }

    proptest! {
        /// Fails when the wait is rounded down.
        #[test]
        fn client_that_waits_retry_after_passes(
            limit in limits(),
            start_ms in 0..10_000_000_u64,
            spent in 1..4_u64,
        ) {
            let store = MemoryStore::new(StoreOptions::default());
            let now = Timestamp::from_millis(start_ms);
            let cost = u64::from(limit.burst()).div_ceil(spent);
            let refusal = (0..=spent).map(|_| spend(&store, &limit, cost, now)).find(|v| !v.is_admitted());
            let Some(Verdict { outcome: outcome @ Outcome::Refused { retry_after: Some(wait) }, .. }) = refusal
            else { return Err(TestCaseError::fail("a full limit has to refuse")) };
            let Some(RetryAfter::Seconds(seconds)) = RetryAfter::of(outcome)
            else { return Err(TestCaseError::fail("a refusal has to have a wait")) };
            let rounded = Duration::from_secs(seconds.get());
            prop_assert!(rounded >= wait && rounded < wait + Duration::from_secs(1) + Duration::from_nanos(1));
            prop_assert!(spend(&store, &limit, cost, now.saturating_add(rounded)).is_admitted());
        }
    }
}
