//! Validation of limits: a typed error at construction, whose text names the remedy.

use hivemind_core::algorithm::TokenBucket;
use hivemind_core::testing::cases;
use hivemind_core::{Limit, LimitError, Period, Rate};
use proptest::prelude::*;
use std::time::Duration;

// Fails when a burst one too large is let through; a period of 200 years is let through.
#[test]
fn invalid_limit_errors_name_the_remedy() {
    let rate = Rate::per_second(1).unwrap();
    let century = Duration::from_secs(100 * 366 * 86_400);
    let refused: [(Option<LimitError>, &str); 10] = [
        (Rate::per_second(0).err(), "window limit of 0"),
        (Rate::new(0, Period::YEAR).err(), "window limit of 0"),
        (TokenBucket::new(rate, 0).err(), "window limit of 0"),
        (Limit::token_bucket(rate, 0).err(), "at least 1"),
        (Limit::token_bucket(rate, TokenBucket::MAX_BURST + 1).err(), "at most 2147483647; it is 2147483648"),
        (Period::new(Duration::ZERO).err(), "`1s`"),
        (Period::new(century + Duration::from_nanos(1)).err(), "at most 100 years"),
        (Period::new(Duration::MAX).err(), "split the limit"),
        (Period::YEAR.times(101).err(), "at most 100 years"),
        (Period::SECOND.times(0).err(), "longer than 0"),
    ];
    for (error, remedy) in refused {
        let text = error.map(|error| error.to_string());
        assert!(
            text.as_ref().is_some_and(|text| text.contains(remedy)),
            "{text:?} does not contain {remedy:?}"
        );
    }
}

#[test]
fn limits_at_the_edge_of_validity_are_accepted() {
    let century = Period::new(Duration::from_secs(100 * 366 * 86_400)).unwrap();
    for period in [Period::new(Duration::from_nanos(1)).unwrap(), century] {
        for requests in [1, u32::MAX] {
            for burst in [1, TokenBucket::MAX_BURST] {
                let limit = Limit::token_bucket(Rate::new(requests, period).unwrap(), burst).unwrap();
                assert_eq!((limit.requests(), limit.period(), limit.burst()), (requests, period, burst));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(4_000))]

    // Fails when an overflow of `longest_memory` panics.
    #[test]
    fn limit_construction_never_panics(
        seconds in prop_oneof![0..100_u64, 0..3_200_000_000_u64, any::<u64>()], nanos in 0..1_000_000_000_u32,
        times in prop_oneof![3 => Just(1), 1 => any::<u32>()],
        requests in prop_oneof![0..3_u32, any::<u32>()], burst in prop_oneof![0..3_u32, any::<u32>()],
    ) {
        let made = Period::new(Duration::new(seconds, nanos)).and_then(|period| period.times(times));
        let period = made.unwrap_or(Period::SECOND);
        if let Ok(limit) = Rate::new(requests, period).and_then(|rate| Limit::token_bucket(rate, burst)) {
            prop_assert!(limit.burst() >= 1 && limit.requests() >= 1 && limit.longest_memory() > Duration::ZERO);
            prop_assert!(!limit.to_string().is_empty());
        }
    }
}
