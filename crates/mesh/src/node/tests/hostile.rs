//! A malicious peer with a certificate, in frames that it can produce.

use super::*;
use crate::frame::{Report, Want, Word};
use crate::page::Side;
use std::sync::Arc;

/// Fails when a return of a share is accepted from any node that claims to have had one, for each of its
/// generations.
#[test]
fn nobody_returns_a_share_that_it_never_had() {
    let limit = Limit::fixed_window(60, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions { recall: false, ..strict() });
    let key = mesh.key(0, 1);
    let place = mesh.place(key, &limit);
    assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 20);
    for generation in 5..15 {
        let report = Report { returned: 20, ..Report::default() };
        mesh.forge((2, 0), Some(Generation(generation)), &[Item::Report(place, report)]);
    }
    assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 0);
}

/// Fails when spending is refunded that a member reported and never had.
#[test]
fn a_refund_gives_back_no_more_than_a_member_could_have_spent() {
    let limit = Limit::fixed_window(60, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions { recall: false, ..strict() });
    let key = mesh.key(0, 1);
    let place = mesh.place(key, &limit);
    assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 20);
    assert_eq!(mesh.passed(1, 60, &[charge(key, &limit)]), 20);
    let action = hivemind_core::algorithm::Action::Refund;
    let report = Report { spent: 1_000, ..Report::default() };
    let asks: Vec<Item> = (1..9)
        .map(|id| Item::Ask { id: 500 + id, place, report, want: Want::Do { action, cost: 20 } })
        .collect();
    mesh.forge((2, 0), None, &asks);
    // The hostile node's own spending may come back, once.
    let more = mesh.passed(0, 200, &[charge(key, &limit)]);
    assert!(more <= 60, "{more} more");
}

/// Fails with plain sums of reported totals.
#[test]
fn totals_of_any_size_are_added_without_a_panic() {
    for limit in [Limit::fixed_window(60, Period::HOUR), bucket(10, 100)] {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        let place = mesh.place(key, &limit);
        mesh.passes(0, &[charge(key, &limit)]);
        for from in [1, 2] {
            let report =
                Report { spent: u64::MAX, returned: u64::MAX, refused: u64::MAX, ..Report::default() };
            mesh.forge((from, 0), None, &[Item::Report(place, report)]);
        }
        mesh.pass(200);
        mesh.passes(1, &[charge(key, &limit)]);
    }
}

/// Fails when an owner's grants of a bucket are always accepted, without end.
#[test]
fn no_owner_makes_a_member_admit_more_than_one_bucket_would() {
    let limit = bucket(10, 40);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert!(mesh.passes(1, &[charge(key, &limit)]));
    let place = mesh.place(key, &limit);
    let serial = {
        let mut book = mesh.nodes[1].shelf.books.get_mut(&key).expect("it was used");
        let crate::page::Side::Purse(purse) = &book.page(0).expect("a page").side else { return };
        purse.serial()
    };
    let start = mesh.now;
    let mut passed = 0;
    for round in 1..50 {
        let word = Word { serial, granted: round * 40, left: 40, ..Word::default() };
        mesh.forge((0, 1), None, &[Item::Word(place, word)]);
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
fn no_frame_gives_a_bucket_a_second_page() {
    for (limit, by_frame) in
        [(bucket(1, 40), true), (bucket(1, 40), false), (bucket(1, 5), true), (bucket(1, 5), false)]
    {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        let burst = usize::try_from(limit.burst()).expect("small");
        assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), burst);
        let from = Arc::new(mesh.nodes[2].member().clone());
        for (id, told) in [(701, limit), (702, bucket(1, 400))] {
            let place = Place { tag: 5, ..mesh.place(key, &told) };
            if by_frame {
                mesh.forge((2, 0), None, &[Item::Report(place, Report::default())]);
            } else {
                let now = mesh.now;
                mesh.nodes[0].on_ask(now, &from, id, &place, &Report::default(), Want::Look);
            }
        }
        assert_eq!(mesh.passed(0, 60, &[charge(key, &limit)]), 0, "{limit}");
    }
}

fn accounts(mesh: &mut Mesh, key: Key) -> usize {
    let mut book = mesh.nodes[0].shelf.books.get_mut(&key).expect("it was asked for");
    let page = book.pages.last_mut().expect("a page");
    let Side::Till(till) = &page.side else { return 0 };
    till.accounts().len()
}

/// Fails when every refused asker gets an account, or every generation of a name.
#[test]
fn asks_make_no_more_accounts_than_there_may_be() {
    for limit in
        [Limit::fixed_window(60, Period::HOUR), Limit::sliding_window(60, Period::HOUR), bucket(10, 100)]
    {
        let mut mesh = Mesh::new(3, &strict());
        let (key, now) = (mesh.key(0, 1), mesh.now);
        let place = mesh.place(key, &limit);
        let asks = |id| {
            let want = [Want::Lend { need: 1_000, ahead: 0 }, Want::Look][usize::from(id % 2 == 0)];
            [Item::Ask { id, place, report: Report::default(), want }]
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
fn a_peer_fills_half_of_the_shelf_at_most_and_only_with_what_this_node_owns() {
    let limit = Limit::fixed_window(60, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions { max_keys: 40, ..strict() });
    let keys: Vec<Key> = (0..900).map(|number| Key::from_bits(number, number.wrapping_mul(SECRET))).collect();
    let view = mesh.nodes[0].view().expect("they are seated").clone();
    let (own, others): (Vec<Key>, Vec<Key>) =
        keys.into_iter().partition(|key| view.owner(*key) == Some(mesh.nodes[0].member()));
    for (id, key) in others.iter().enumerate() {
        let (id, place) = (id as u64, mesh.place(*key, &limit));
        let ask = Item::Ask { id, place, report: Report::default(), want: Want::Look };
        let word = Word { recall: true, ..Word::default() };
        let owner = view.owner(*key).expect("an owner").id.clone();
        let from = if owner == mesh.nodes[1].member().id { 2 } else { 1 };
        mesh.forge((from, 0), None, &[Item::Report(place, Report::default()), ask, Item::Word(place, word)]);
    }
    assert_eq!(mesh.nodes[0].standing(mesh.now).keys, 0);
    for key in &own {
        mesh.forge((2, 0), None, &[Item::Report(mesh.place(*key, &limit), Report::default())]);
    }
    assert_eq!(mesh.nodes[0].standing(mesh.now).keys, 20);
    // Locally requested counters do not count as a peer's, and make room for theirs.
    assert!(own.iter().take(20).all(|key| mesh.passes(0, &[charge(*key, &limit)])));
    assert_eq!(mesh.nodes[0].standing(mesh.now).unshared, 0);
    mesh.pass(1_100);
    for key in &own {
        mesh.forge((2, 0), None, &[Item::Report(mesh.place(*key, &limit), Report::default())]);
    }
    assert_eq!(mesh.nodes[0].standing(mesh.now).keys, 40);
}

/// Fails when the largest number is accepted, which no other account can follow.
#[test]
fn no_member_uses_up_the_numbers_of_accounts() {
    let limit = bucket(10, 100);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let place = mesh.place(key, &limit);
    let report = Report { serial: u64::MAX, ..Report::default() };
    mesh.forge((2, 0), None, &[Item::Ask { id: 9, place, report, want: Want::Lend { need: 1, ahead: 0 } }]);
    assert!(mesh.passes(1, &[charge(key, &limit)]));
    let mut book = mesh.nodes[1].shelf.books.get_mut(&key).expect("it was used");
    let Side::Purse(purse) = &book.page(0).expect("a page").side else { panic!("it is not the owner") };
    let latest = mesh.now.as_nanos() + 120_000_000_000;
    assert!((1..latest).contains(&purse.serial()), "{}", purse.serial());
}
