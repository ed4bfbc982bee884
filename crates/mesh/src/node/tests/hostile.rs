//! A malicious peer with a certificate, in frames that it can produce.

use super::*;
use crate::counter::counter_window::Side;
use crate::frame::{MemberReport, OwnerUpdate, Want};
use std::sync::Arc;

/// Fails when a return of a share is accepted from any node that claims to have had one, for each of its
/// generations.
#[test]
fn member_without_a_share_cannot_return_one() {
    let limit = Limit::fixed_window(60, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions { recall: false, ..strict() });
    let key = mesh.key(0, 1);
    let window_ref = mesh.window_ref(key, &limit);
    assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 20);
    for generation in 5..15 {
        let report = MemberReport { returned: 20, ..MemberReport::default() };
        mesh.forge((2, 0), Some(Generation(generation)), &[Item::Report(window_ref, report)]);
    }
    assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 0);
}

/// Fails when spending is refunded that a member reported and never had.
#[test]
fn refund_is_bounded_by_possible_spending() {
    let limit = Limit::fixed_window(60, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions { recall: false, ..strict() });
    let key = mesh.key(0, 1);
    let window_ref = mesh.window_ref(key, &limit);
    assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 20);
    assert_eq!(mesh.passed(1, 60, &[charge(key, &limit)]), 20);
    let action = hivemind_core::algorithm::Action::Refund;
    let report = MemberReport { spent: 1_000, ..MemberReport::default() };
    let asks: Vec<Item> = (1..9)
        .map(|id| Item::Ask { id: 500 + id, window_ref, report, want: Want::Do { action, cost: 20 } })
        .collect();
    mesh.forge((2, 0), None, &asks);
    // The hostile node's own spending may come back, once.
    let more = mesh.passed(0, 200, &[charge(key, &limit)]);
    assert!(more <= 60, "{more} more");
}

/// Fails with plain sums of reported totals.
#[test]
fn totals_of_any_size_cause_no_panic() {
    for limit in [Limit::fixed_window(60, Period::HOUR), bucket(10, 100)] {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        let window_ref = mesh.window_ref(key, &limit);
        mesh.passes(0, &[charge(key, &limit)]);
        for from in [1, 2] {
            let report = MemberReport {
                spent: u64::MAX,
                returned: u64::MAX,
                refused: u64::MAX,
                ..MemberReport::default()
            };
            mesh.forge((from, 0), None, &[Item::Report(window_ref, report)]);
        }
        mesh.pass(200);
        mesh.passes(1, &[charge(key, &limit)]);
    }
}

/// Fails when an owner's grants of a bucket are always accepted, without end.
#[test]
fn lying_owner_cannot_exceed_one_bucket() {
    let limit = bucket(10, 40);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert!(mesh.passes(1, &[charge(key, &limit)]));
    let window_ref = mesh.window_ref(key, &limit);
    let serial = {
        let mut counter = mesh.nodes[1].table.counters.get_mut(&key).expect("it was used");
        let crate::counter::counter_window::Side::Lease(lease) = &counter.window(0).expect("a window").side
        else {
            return;
        };
        lease.serial()
    };
    let start = mesh.now;
    let mut passed = 0;
    for round in 1..50 {
        let update = OwnerUpdate { serial, granted: round * 40, left: 40, ..OwnerUpdate::default() };
        mesh.forge((0, 1), None, &[Item::Update(window_ref, update)]);
        for _ in 0..40 {
            passed += u64::from(mesh.ask(1, &[charge(key, &limit)]).is_ok_and(|verdicts| verdicts.committed));
            mesh.mail.clear();
        }
        mesh.tick(20);
        mesh.mail.clear();
    }
    let earned = mesh.now.since(start).as_millis() / 100;
    assert!(u128::from(passed) <= 40 + earned + 1, "{passed} in {:?}", mesh.now.since(start));
}

/// Fails when any window number in a frame gives a bucket a second window, with a full bucket in it.
#[test]
fn no_frame_gives_a_bucket_a_second_window() {
    for (limit, by_frame) in
        [(bucket(1, 40), true), (bucket(1, 40), false), (bucket(1, 5), true), (bucket(1, 5), false)]
    {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        let burst = usize::try_from(limit.burst()).expect("small");
        assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), burst);
        let from = Arc::new(mesh.nodes[2].member().clone());
        for (id, claimed) in [(701, limit), (702, bucket(1, 400))] {
            let window_ref = WindowRef { tag: 5, ..mesh.window_ref(key, &claimed) };
            if by_frame {
                mesh.forge((2, 0), None, &[Item::Report(window_ref, MemberReport::default())]);
            } else {
                let now = mesh.now;
                mesh.nodes[0].on_ask(now, &from, id, &window_ref, &MemberReport::default(), Want::Look);
            }
        }
        assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 0, "{limit}");
    }
}

fn accounts(mesh: &mut Mesh, key: Key) -> usize {
    let mut counter = mesh.nodes[0].table.counters.get_mut(&key).expect("it was asked for");
    let window = counter.windows.last_mut().expect("a window");
    let Side::Ledger(ledger) = &window.side else { return 0 };
    ledger.accounts().len()
}

/// Fails when every refused asker gets an account, or every generation of a name.
#[test]
fn number_of_accounts_is_bounded() {
    for limit in
        [Limit::fixed_window(60, Period::HOUR), Limit::sliding_window(60, Period::HOUR), bucket(10, 100)]
    {
        let mut mesh = Mesh::new(3, &strict());
        let (key, now) = (mesh.key(0, 1), mesh.now);
        let window_ref = mesh.window_ref(key, &limit);
        let asks = |id| {
            let want = [Want::Grant { need: 1_000, ahead: 0 }, Want::Look][usize::from(id % 2 == 0)];
            [Item::Ask { id, window_ref, report: MemberReport::default(), want }]
        };
        for generation in 5..500 {
            mesh.forge((2, 0), Some(Generation(generation)), &asks(generation));
            mesh.mail.clear();
        }
        let of_one = accounts(&mut mesh, key);
        assert!(of_one <= 3, "{of_one} of one name by {limit}");
        for number in 0..400 {
            let stranger = NodeId::new(format!("x{number}"));
            let frame = mesh.forged((&stranger, 0), Generation(1), &asks(number));
            mesh.nodes[0].on_frame(now, &stranger, &frame);
            mesh.collect();
            mesh.mail.clear();
        }
        let all = accounts(&mut mesh, key);
        assert!(all <= 256, "{all} by {limit}");
    }
}

/// Fails when every counter in a peer's frame gets an entry, whatever its owner.
#[test]
fn peer_fills_at_most_half_of_the_counter_table() {
    let limit = Limit::fixed_window(60, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions { max_keys: 40, ..strict() });
    let keys: Vec<Key> = (0..900).map(|number| Key::from_bits(number, number.wrapping_mul(SECRET))).collect();
    let view = mesh.nodes[0].view().expect("they are in a view").clone();
    let (own, others): (Vec<Key>, Vec<Key>) =
        keys.into_iter().partition(|key| view.owner(*key) == Some(mesh.nodes[0].member()));
    for (id, key) in others.iter().enumerate() {
        let (id, window_ref) = (id as u64, mesh.window_ref(*key, &limit));
        let ask = Item::Ask { id, window_ref, report: MemberReport::default(), want: Want::Look };
        let update = OwnerUpdate { recall: true, ..OwnerUpdate::default() };
        let owner = view.owner(*key).expect("an owner").id.clone();
        let from = if owner == mesh.nodes[1].member().id { 2 } else { 1 };
        mesh.forge(
            (from, 0),
            None,
            &[Item::Report(window_ref, MemberReport::default()), ask, Item::Update(window_ref, update)],
        );
    }
    assert_eq!(mesh.nodes[0].standing(mesh.now).keys, 0);
    for key in &own {
        mesh.forge((2, 0), None, &[Item::Report(mesh.window_ref(*key, &limit), MemberReport::default())]);
    }
    assert_eq!(mesh.nodes[0].standing(mesh.now).keys, 20);
    // Locally requested counters do not count as a peer's, and make room for theirs.
    assert!(own.iter().take(20).all(|key| mesh.passes(0, &[charge(*key, &limit)])));
    assert_eq!(mesh.nodes[0].standing(mesh.now).unshared, 0);
    mesh.pass(1_100);
    for key in &own {
        mesh.forge((2, 0), None, &[Item::Report(mesh.window_ref(*key, &limit), MemberReport::default())]);
    }
    assert_eq!(mesh.nodes[0].standing(mesh.now).keys, 40);
}

/// Fails when the largest number is accepted, which no other account can follow.
#[test]
fn account_numbers_cannot_be_exhausted() {
    let limit = bucket(10, 100);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let window_ref = mesh.window_ref(key, &limit);
    let report = MemberReport { serial: u64::MAX, ..MemberReport::default() };
    mesh.forge(
        (2, 0),
        None,
        &[Item::Ask { id: 9, window_ref, report, want: Want::Grant { need: 1, ahead: 0 } }],
    );
    assert!(mesh.passes(1, &[charge(key, &limit)]));
    let mut counter = mesh.nodes[1].table.counters.get_mut(&key).expect("it was used");
    let Side::Lease(lease) = &counter.window(0).expect("a window").side else {
        panic!("it is not the owner")
    };
    let latest = mesh.now.as_nanos() + 120_000_000_000;
    assert!((1..latest).contains(&lease.serial()), "{}", lease.serial());
}
