//! The per-address limiter: shared buckets, eviction, and the end of its thread.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use hivemind_core::{
    ClientIp, Clock, IpLimiter, LimitError, ManualClock, Period, Rate, StartError, Timestamp,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn limiter(per_second: u32, burst: u32) -> (IpLimiter<ManualClock>, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_millis(1_794_769_200_000));
    let rate = Rate::per_second(per_second).unwrap();
    (IpLimiter::with_clock(rate, burst, MINUTE, clock.clone()).unwrap(), clock)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn spent_burst_refills_token_by_token() {
    let (limiter, clock) = limiter(2, 2);
    let start = clock.now();
    for (at_ms, allowed) in [
        (0, true),
        (0, true),
        (0, false),
        (499, false),
        (500, true),
        (500, false),
        (10_500, true),
        (10_500, true),
        (10_500, false),
    ] {
        clock.set(start.saturating_add(Duration::from_millis(at_ms)));
        assert_eq!(limiter.allow(address("203.0.113.9")), allowed, "at {at_ms} ms");
    }
}

#[test]
fn different_clients_never_share_a_bucket() {
    for (first, second, share) in [
        ("203.0.113.9", "203.0.113.9", true),
        ("203.0.113.9", "203.0.113.10", false),
        ("203.0.113.9", "::ffff:203.0.113.9", true),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
        ("::", "0.0.0.0", false),
    ] {
        let (limiter, _) = limiter(1, 1);
        assert!(limiter.allow(address(first)));
        assert_eq!(!limiter.allow(address(second)), share, "{first} and {second}");
    }
}

#[test]
fn bucket_is_removed_after_being_full_for_the_interval() {
    let (limiter, clock) = limiter(1, 10);
    assert!(limiter.allow(address("203.0.113.9")));
    for _ in 0..10 {
        assert!(limiter.allow(address("203.0.113.10")));
    }
    // The first is full after 1 s, the second after 10 s.
    for (at_s, gone, keys) in [(60, 0, 2), (61, 1, 1), (69, 0, 1), (70, 1, 0)] {
        clock.set(Timestamp::from_millis(1_794_769_200_000 + at_s * 1_000));
        assert_eq!(limiter.sweep(), gone, "at {at_s} s");
        assert_eq!(limiter.occupancy().keys, keys, "at {at_s} s");
    }
}

#[test]
fn ip_limiter_rejects_invalid_rate_burst_and_interval() {
    let rate = Rate::per_second(1).unwrap();
    assert_eq!(Rate::per_second(0).unwrap_err(), LimitError::ZeroRate);
    let refused = |rate, burst, interval| match IpLimiter::new(rate, burst, interval) {
        Err(error) => error,
        Ok(_) => panic!("accepted"),
    };
    assert!(matches!(refused(rate, 0, MINUTE), StartError::Limit(LimitError::ZeroBurst)));
    assert!(matches!(refused(rate, u32::MAX, MINUTE), StartError::Limit(LimitError::BurstTooLarge { .. })));
    assert!(matches!(refused(rate, 1, Duration::ZERO), StartError::ZeroSweepInterval));
    assert!("not an address".parse::<ClientIp>().is_err());
    assert!(Period::new(Duration::ZERO).is_err());
}

/// A clock that counts its readings.
#[derive(Clone, Default)]
struct CountedClock {
    readings: Arc<AtomicUsize>,
}

impl Clock for CountedClock {
    fn now(&self) -> Timestamp {
        self.readings.fetch_add(1, Ordering::SeqCst);
        Timestamp::EPOCH
    }
}

#[test]
fn sweep_thread_runs_and_ends_on_close_and_on_drop() {
    for close in [true, false] {
        let clock = CountedClock::default();
        let rate = Rate::per_second(1).unwrap();
        let limiter = IpLimiter::with_clock(rate, 1, Duration::from_nanos(1), clock.clone()).unwrap();
        while clock.readings.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now(); // nextest ends a test that hangs.
        }
        if close {
            limiter.close();
            limiter.close(); // A second call does nothing.
            let readings = clock.readings.load(Ordering::SeqCst);
            assert!(limiter.allow(address("203.0.113.9")), "it still decides");
            assert_eq!(
                clock.readings.load(Ordering::SeqCst),
                readings + 1,
                "only the decision read the clock"
            );
        }
        drop(limiter);
        // The thread was joined, so its clone of the clock is gone.
        assert_eq!(Arc::strong_count(&clock.readings), 1);
    }
}
