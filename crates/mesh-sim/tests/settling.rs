//! Refunds, debits and refused hits that another node counts: lost, repeated and reordered frames neither lose nor double them.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of a test may fail it")]

mod common {
    pub(crate) mod three;
}

use common::three::Three;
use hivemind_core::store::{Charge, Key, OnRefusal, Op, Parts, Verdicts};
use hivemind_core::{Cost, Limit, Period, Rate};
use hivemind_mesh::MeshOptions;

/// A network that loses and duplicates 300 frames per thousand.
fn bad(seed: u64) -> Three {
    Three::new(seed, &MeshOptions::default(), (300, 300))
}

impl Three {
    fn decide_one(&mut self, node: usize, charge: Charge<'_>) -> Verdicts {
        self.decide(node, &[charge], OnRefusal::default()).0
    }

    /// The remaining amount at the owner, after the network recovered and all updates arrived.
    fn left_at_owner(&mut self, charge: Charge<'_>) -> u64 {
        (self.loss, self.twice) = (0, 0);
        self.pass(1_000);
        self.decide_one(0, Charge { op: Op::Peek, ..charge }).each()[0].available
    }
}

fn charge(key: Key, limit: &Limit, op: Op) -> Charge<'_> {
    Charge { op, ..Charge::spend(key, Parts { domain: "", entries: &[] }, limit) }
}

/// Limits of which the owner grants nothing initially, and a bucket with a negligible refill.
fn limits() -> [Limit; 3] {
    let slow = Rate::new(1, Period::YEAR).expect("a rate");
    [
        Limit::fixed_window(25, Period::DAY),
        Limit::token_bucket(slow, 25).expect("a bucket"),
        Limit::token_bucket(slow, 8).expect("a bucket"),
    ]
}

// Fails when a debit is sent once, when debits are added instead of taking the larger total, or when a report is not
// repeated until it is acknowledged.
#[test]
fn debit_for_the_owner_is_neither_lost_nor_doubled() {
    for seed in 0..60 {
        for limit in limits() {
            let mut three = bad(seed);
            let key = three.key(1);
            for node in [1, 2, 1] {
                three.decide_one(node, charge(key, &limit, Op::Debit));
                three.pass(20);
            }
            let left = three.left_at_owner(charge(key, &limit, Op::Peek));
            assert_eq!(left, u64::from(limit.burst()) - 3, "seed {seed}: {limit}");
        }
    }
}

// The owner has spent 5, and others refund 3 of them.
//
// Fails when a refund is sent once, or when refunds are added instead of taking the larger total.
#[test]
fn refund_for_the_owner_is_neither_lost_nor_doubled() {
    for seed in 0..60 {
        for limit in limits() {
            let mut three = bad(seed);
            let key = three.key(1);
            for _ in 0..5 {
                assert!(three.decide_one(0, charge(key, &limit, Op::Spend)).committed);
            }
            for node in [1, 2, 1] {
                three.decide_one(node, charge(key, &limit, Op::Refund));
                three.pass(20);
            }
            let left = three.left_at_owner(charge(key, &limit, Op::Peek));
            assert_eq!(left, u64::from(limit.burst()) - 2, "seed {seed}: {limit}");
        }
    }
}

// Nothing was spent, and other nodes have almost all allowance.
//
// Fails when an owner refunds what it granted.
#[test]
fn refund_of_unspent_hits_adds_nothing() {
    let limit = Limit::fixed_window(300, Period::DAY);
    let mut three = bad(1);
    let key = three.key(1);
    for node in [1, 2, 0, 1, 2, 0] {
        let refund = Charge { cost: Cost::new(50), ..charge(key, &limit, Op::Refund) };
        three.decide_one(node, refund);
        three.pass(100);
    }
    (three.loss, three.twice) = (0, 0);
    three.pass(1_000);
    let passed =
        (0..900).filter(|n| three.decide_one(n % 3, charge(key, &limit, Op::Spend)).committed).count();
    assert_eq!(passed, 300);
}

// Fails when a peek does not show refused hits of other nodes.
#[test]
fn peek_at_the_owner_shows_hits_refused_elsewhere() {
    let limit = Limit::fixed_window(25, Period::DAY);
    for seed in 0..20 {
        let mut three = bad(seed);
        let key = three.key(1);
        // A cost above the limit would not count.
        let large = Charge { cost: Cost::new(25), ..charge(key, &limit, Op::Spend) };
        let some = Charge { cost: Cost::new(4), ..charge(key, &limit, Op::Spend) };
        assert!(three.decide_one(0, charge(key, &limit, Op::Spend)).committed);
        assert!(!three.decide_one(1, large).committed);
        assert_eq!(three.left_at_owner(some), 0, "seed {seed}: the owner counts refused hits");
        // The admissible amount is the limit less the admissions.
        assert!(three.decide_one(0, some).committed);
    }
}
