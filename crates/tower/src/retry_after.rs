//! The wait that a refused client is told, in whole seconds as HTTP counts them.
//!
//! Rounded up and never 0: a client that comes back when it was told to must pass,
//! and `Retry-After: 0` would invite it to hammer. A request that no wait will help
//! gets no `Retry-After` at all, because any number there would be a lie that costs
//! one more refused request each time it is believed.

use hivemind_core::store::Outcome;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

/// What to tell a refused client about its next attempt. The greater tells of the
/// longer wait, so of several refusals the [`max`](Iterator::max) is the one to tell.
///
/// ```
/// use hivemind_core::store::Outcome;
/// use hivemind_tower::RetryAfter;
/// use std::time::Duration;
///
/// let wait = Duration::from_millis(7_500);
/// let told = RetryAfter::of(Outcome::Refused { retry_after: Some(wait) }).ok_or("admitted")?;
/// assert_eq!(told.header_value().as_deref(), Some("8"));
/// assert_eq!(told.to_string(), "Rate limit exceeded. Retry after 8 seconds.");
/// assert!(RetryAfter::Never > told && RetryAfter::Never.header_value().is_none());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RetryAfter {
    /// It passes after so many seconds, if nothing else spends meanwhile.
    Seconds(NonZeroU64),
    /// It never passes: it asks for more than the limit ever holds.
    Never,
}

impl RetryAfter {
    /// What one limit's outcome asks the client to wait; nothing if it was admitted.
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

    /// The wait after which every one of these limits admits, if any of them refused.
    ///
    /// Hand in only the outcomes that refuse the request: one of a limit in shadow
    /// mode would tell the client of a limit that does not hold it back.
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

    /// The value of the `Retry-After` header; none where the header must be left out.
    #[must_use]
    pub fn header_value(self) -> Option<String> {
        match self {
            Self::Seconds(seconds) => Some(seconds.to_string()),
            Self::Never => None,
        }
    }
}

/// A sentence for the client's log or screen.
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
        let told = [
            (Duration::ZERO, "1"),
            (Duration::from_nanos(1), "1"),
            (Duration::from_millis(999), "1"),
            (Duration::from_secs(1), "1"),
            (Duration::new(1, 1), "2"),
            (Duration::from_millis(59_001), "60"),
            (Duration::from_secs(31_536_000), "31536000"),
            (Duration::MAX, "18446744073709551615"),
        ];
        for (wait, value) in told {
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
        let told = |outcomes: &[Outcome]| RetryAfter::longest(outcomes.iter().copied());
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[Outcome::Admitted, Outcome::Admitted]), None);
        assert_eq!(told(&[short, Outcome::Admitted, long]), RetryAfter::of(long));
        assert_eq!(told(&[long, NEVER, short]), Some(RetryAfter::Never));
    }

    #[test]
    fn retry_after_text_names_the_wait_or_that_none_helps() {
        let sentence = |outcome| RetryAfter::of(outcome).map(|told| told.to_string());
        let says = |text: &str| Some(text.to_owned());
        assert_eq!(
            sentence(refused(Duration::from_millis(7_500))),
            says("Rate limit exceeded. Retry after 8 seconds.")
        );
        assert_eq!(
            sentence(refused(Duration::from_millis(10))),
            says("Rate limit exceeded. Retry after 1 second.")
        );
        assert!(sentence(NEVER).is_some_and(|text| text.contains("will not help")));
    }

    /// Spends at one moment and says what the engine's memory store answers.
    fn ask(store: &MemoryStore, limit: &Limit, cost: u64, now: Timestamp) -> Verdict {
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
        /// Fails with the wait rounded down.
        #[test]
        fn client_that_waits_retry_after_passes(
            limit in limits(),
            start_ms in 0..10_000_000_u64,
            spent in 1..4_u64,
        ) {
            let store = MemoryStore::new(StoreOptions::default());
            let now = Timestamp::from_millis(start_ms);
            let cost = u64::from(limit.burst()).div_ceil(spent);
            let refusal = (0..=spent).map(|_| ask(&store, &limit, cost, now)).find(|v| !v.is_admitted());
            let Some(Verdict { outcome: outcome @ Outcome::Refused { retry_after: Some(wait) }, .. }) = refusal
            else { return Err(TestCaseError::fail("a full limit has to refuse")) };
            let Some(RetryAfter::Seconds(seconds)) = RetryAfter::of(outcome)
            else { return Err(TestCaseError::fail("a refusal has to tell a wait")) };
            let told = Duration::from_secs(seconds.get());
            prop_assert!(told >= wait && told < wait + Duration::from_secs(1) + Duration::from_nanos(1));
            prop_assert!(ask(&store, &limit, cost, now.saturating_add(told)).is_admitted());
        }
    }
}
