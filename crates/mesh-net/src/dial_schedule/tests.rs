//! Tests of the dial schedule.

use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 9);

#[test]
fn dead_address_is_dialed_forever_within_the_maximum_delay() {
    let mut schedule = DialSchedule::new(7);
    let mut now = at(0);
    for _ in 0..100 {
        assert!(schedule.start_dial(ADDRESS, now));
        assert!(!schedule.start_dial(ADDRESS, now), "it is being dialed");
        schedule.record_failure(ADDRESS, now, false);
        assert!(!schedule.start_dial(ADDRESS, now));
        now = now.saturating_add(MAX_DELAY);
    }
}

#[test]
fn nodes_that_fail_together_retry_apart() {
    let delays: BTreeSet<_> = (0..20)
        .map(|seed| {
            let mut schedule = DialSchedule::new(seed);
            for _ in 0..6 {
                schedule.record_failure(ADDRESS, at(0), false);
            }
            (0..6_000).find(|millis| schedule.start_dial(ADDRESS, at(*millis)))
        })
        .collect();
    assert!(delays.len() > 15, "{delays:?}");
}

// Fails when dials share the backoff of QUIC retries: a broken connection would not be replaced for minutes.
#[test]
fn failing_quic_does_not_delay_dials() {
    let mut schedule = DialSchedule::new(7);
    schedule.record_answer(ADDRESS, NodeId::new("b"), at(0), false);
    schedule.record_transport(ADDRESS, Transport::Tcp);
    let mut now = at(20_000);
    for _ in 0..10 {
        assert!(schedule.start_quic_retry(ADDRESS, at(0), now));
        assert!(!schedule.start_quic_retry(ADDRESS, at(0), now), "QUIC is being tried");
        schedule.record_quic_failure(ADDRESS, now);
        assert!(!schedule.start_quic_retry(ADDRESS, at(0), now));
        assert!(schedule.start_dial(ADDRESS, now), "a broken connection is replaced immediately");
        schedule.record_answer(ADDRESS, NodeId::new("b"), now, false);
        now = now.saturating_add(LONG_DELAY);
    }
    assert_eq!(schedule.expected_peer(ADDRESS), Some(NodeId::new("b")), "no dial has failed");
    // A new TCP connection delays the next QUIC retry.
    assert!(!schedule.start_quic_retry(ADDRESS, now, now.saturating_add(Duration::from_secs(1))));
}

// Fails when delays end at a fixed time, which a clock that is set back reaches late.
#[test]
fn clock_set_back_does_not_delay_dials() {
    let mut schedule = DialSchedule::new(7);
    schedule.record_failure(ADDRESS, at(100_000), false);
    assert!(!schedule.start_dial(ADDRESS, at(100_050)));
    assert!(schedule.start_dial(ADDRESS, at(0)));
}

// Fails when dials are unlimited, when the smallest addresses always come first, or when multicast has no lower rank.
#[test]
fn concurrent_dials_are_limited_and_every_address_has_its_turn() {
    let address = |number: u16| SocketAddr::from(([192, 0, 2, 1], number));
    let targets = |is_announced: fn(u16) -> bool| {
        (1..=1_000).map(move |number| (address(number), is_announced(number)))
    };
    let mut schedule = DialSchedule::new(7);
    let (mut dialed, mut now) = (BTreeSet::new(), at(0));
    for _ in 0..17 {
        let due = schedule.start_dials(targets(|_| false), MAX_DIALS, now);
        assert!(due.len() <= MAX_DIALS);
        dialed.extend(due.iter().copied());
        now = now.saturating_add(MAX_DELAY);
        for address in due {
            schedule.record_failure(address, now, false);
        }
        now = now.saturating_add(MAX_DELAY);
    }
    assert_eq!(dialed.len(), 1_000, "every address is dialed");
    let due = DialSchedule::new(7).start_dials(targets(|number| number <= 990), MAX_DIALS, now);
    assert!((991..=1_000).all(|number| due.contains(&address(number))), "configured addresses come first");
}

// Fails when addresses known by multicast only are dialed as often as others.
#[test]
fn failing_address_of_multicast_is_dialed_rarely() {
    for (is_announced, due) in [(false, true), (true, false)] {
        let mut schedule = DialSchedule::new(7);
        for _ in 0..MAX_MDNS_FAILURES {
            schedule.record_failure(ADDRESS, at(0), is_announced);
        }
        assert_eq!(schedule.start_dial(ADDRESS, at(6_000)), due);
        assert!(schedule.start_dial(ADDRESS, at(300_000)) || due);
    }
}

// Fails when each failure is logged, or the first one, when a new reason is not, or when reasons are unlimited.
#[test]
fn unreachable_address_is_logged_once_per_reason() {
    let mut schedule = DialSchedule::new(7);
    let mut report = |reason: &str| {
        schedule.record_failure(ADDRESS, at(0), false);
        schedule.record_reason(ADDRESS, reason)
    };
    let is_logged = ["refused", "refused", "refused", "refused", "late", "late", "refused"].map(&mut report);
    assert_eq!(is_logged, [false, false, true, false, true, false, false]);
    assert_eq!((0..100).filter(|number| report(&number.to_string())).count(), MAX_REASONS - 2);
    assert_eq!(schedule.failure(ADDRESS), Some("99"));
    schedule.record_answer(ADDRESS, NodeId::new("b"), at(0), false);
    assert_eq!(schedule.failure(ADDRESS), None);
}
