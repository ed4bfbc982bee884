//! Whom to call, and when.

use super::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 9);

#[test]
fn a_dead_address_is_called_for_ever_and_never_later_than_the_longest_wait() {
    let mut dialer = Dialer::new(7);
    let mut now = at(0);
    for _ in 0..100 {
        assert!(dialer.is_due(ADDRESS, now));
        assert!(!dialer.is_due(ADDRESS, now), "it is being called already");
        dialer.failed(ADDRESS, now, false);
        assert!(!dialer.is_due(ADDRESS, now));
        now = now.saturating_add(LATEST);
    }
}

#[test]
fn nodes_that_fail_together_do_not_call_again_together() {
    let waits: BTreeSet<_> = (0..20)
        .map(|seed| {
            let mut dialer = Dialer::new(seed);
            for _ in 0..6 {
                dialer.failed(ADDRESS, at(0), false);
            }
            (0..6_000).find(|millis| dialer.is_due(ADDRESS, at(*millis)))
        })
        .collect();
    assert!(waits.len() > 15, "{waits:?}");
}

// Against: one wait for calls and for datagrams, by which a broken connection was not made anew for minutes.
#[test]
fn datagrams_that_never_get_through_hold_up_no_call() {
    let mut dialer = Dialer::new(7);
    dialer.answered_by(ADDRESS, NodeId::new("b"), at(0), false);
    dialer.reached_by(ADDRESS, Transport::Tcp);
    let mut now = at(20_000);
    for _ in 0..10 {
        assert!(dialer.datagrams_are_due(ADDRESS, at(0), now));
        assert!(!dialer.datagrams_are_due(ADDRESS, at(0), now), "they are being tried");
        dialer.datagrams_failed(ADDRESS, now);
        assert!(!dialer.datagrams_are_due(ADDRESS, at(0), now));
        assert!(dialer.is_due(ADDRESS, now), "the connection broke: it is called at once");
        dialer.answered_by(ADDRESS, NodeId::new("b"), now, false);
        now = now.saturating_add(SELDOM);
    }
    assert_eq!(dialer.expected(ADDRESS), Some(NodeId::new("b")), "and no call has failed");
    // One that was made anew by TCP has some time before the next.
    assert!(!dialer.datagrams_are_due(ADDRESS, now, now.saturating_add(Duration::from_secs(1))));
}

// Against: waits that end at a moment, which a clock that was set back comes to late.
#[test]
fn a_clock_that_is_set_back_holds_up_no_call() {
    let mut dialer = Dialer::new(7);
    dialer.failed(ADDRESS, at(100_000), false);
    assert!(!dialer.is_due(ADDRESS, at(100_050)));
    assert!(dialer.is_due(ADDRESS, at(0)));
}

// Against: no end of calls; the smallest addresses first each time; multicast beside all others.
#[test]
fn of_a_thousand_addresses_only_so_many_are_called_at_a_time_and_all_of_them_in_turn() {
    let address = |number: u16| SocketAddr::from(([192, 0, 2, 1], number));
    let targets = |is_announced: fn(u16) -> bool| {
        (1..=1_000).map(move |number| (address(number), is_announced(number)))
    };
    let mut dialer = Dialer::new(7);
    let (mut called, mut now) = (BTreeSet::new(), at(0));
    for _ in 0..17 {
        let due = dialer.due(targets(|_| false), MOST_CALLS, now);
        assert!(due.len() <= MOST_CALLS);
        called.extend(due.iter().copied());
        now = now.saturating_add(LATEST);
        for address in due {
            dialer.failed(address, now, false);
        }
        now = now.saturating_add(LATEST);
    }
    assert_eq!(called.len(), 1_000, "nobody is left out");
    let due = Dialer::new(7).due(targets(|number| number <= 990), MOST_CALLS, now);
    assert!((991..=1_000).all(|number| due.contains(&address(number))), "who is configured goes first");
}

// Against: addresses of multicast called for ever as all others.
#[test]
fn an_address_that_only_multicast_names_is_called_seldom_once_it_was_in_vain() {
    for (is_announced, due) in [(false, true), (true, false)] {
        let mut dialer = Dialer::new(7);
        for _ in 0..VAIN_CALLS {
            dialer.failed(ADDRESS, at(0), is_announced);
        }
        assert_eq!(dialer.is_due(ADDRESS, at(6_000)), due);
        assert!(dialer.is_due(ADDRESS, at(300_000)) || due);
    }
}

// Against: each failure told; the first one told; a reason that changes not told; no end of reasons.
#[test]
fn an_address_that_cannot_be_reached_is_told_of_once_for_each_reason() {
    let mut dialer = Dialer::new(7);
    let mut tell = |reason: &str| {
        dialer.failed(ADDRESS, at(0), false);
        dialer.failed_because(ADDRESS, reason)
    };
    let told = ["refused", "refused", "refused", "refused", "late", "late", "refused"].map(&mut tell);
    assert_eq!(told, [false, false, true, false, true, false, false]);
    assert_eq!((0..100).filter(|number| tell(&number.to_string())).count(), MOST_REASONS - 2);
    assert_eq!(dialer.reason(ADDRESS), Some("99"));
    dialer.answered_by(ADDRESS, NodeId::new("b"), at(0), false);
    assert_eq!(dialer.reason(ADDRESS), None);
}
