//! A peer with a certificate that means harm, in frames that it may well write.

use super::*;
use crate::frame::{Report, Want, Word};

/// Seen failing on: a return of a share by whoever says that it had one, each run of it anew.
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

/// Seen failing on: a refund of what a member says that it spent, and never had.
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
    // What the hostile one itself had and spent may come back, as often as it was spent: once.
    let more = mesh.passed(0, 200, &[charge(key, &limit)]);
    assert!(more <= 60, "{more} more");
}

/// Seen failing on: plain sums of what peers say that they spent.
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

/// Seen failing on: an owner whose grants of a bucket are believed whenever they come, without end.
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
        purse.serial
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
