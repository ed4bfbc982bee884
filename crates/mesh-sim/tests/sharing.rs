//! Sharing of each limit of a request by its own rule, regardless of the other limits.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a helper of a test may fail it")]

mod common {
    pub(crate) mod three;
}

use common::three::Three;
use hivemind_core::store::{Charge, Key, OnRefusal, Op, Parts, Sharing, Verdicts};
use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::{Consistency, MeshOptions, OnUnreachable};

fn sound(options: &MeshOptions) -> Three {
    Three::new(0, options, (0, 0))
}

impl Three {
    fn decide_all(&mut self, node: usize, batch: &[Charge<'_>]) -> (Verdicts, bool) {
        // Counting of refusals has its own test.
        self.decide(node, batch, OnRefusal::CountNone)
    }

    fn passes(&mut self, node: usize, batch: &[Charge<'_>]) -> bool {
        self.decide_all(node, batch).0.committed
    }
}

fn charge(key: Key, limit: &Limit, consistency: Consistency) -> Charge<'_> {
    let sharing = Sharing { consistency: Some(consistency), on_unreachable: None };
    Charge { sharing, ..Charge::spend(key, Parts { domain: "", entries: &[] }, limit) }
}

// Fails when every charge follows the node's setting.
#[test]
fn two_rules_of_one_request_are_shared_separately() {
    use Consistency::{Bounded, Eventual, Exact, Local};
    let limit = Limit::fixed_window(5, Period::HOUR);
    // Whether the request waits for the owner, and whether it is admitted, at a node without allowance.
    for (ways, waits, passes) in [
        ([Exact, Exact], true, true),
        ([Exact, Eventual], true, true),
        ([Exact, Local], true, true),
        ([Bounded, Exact], false, false),
        ([Bounded, Local], false, false),
        ([Eventual, Local], false, true),
        ([Local, Local], false, true),
    ] {
        for default in [Exact, Bounded, Eventual, Local] {
            let mut three = sound(&MeshOptions { consistency: default, ..MeshOptions::default() });
            let keys = [three.key(1), three.key(2)];
            let batch = [charge(keys[0], &limit, ways[0]), charge(keys[1], &limit, ways[1])];
            let (verdicts, waited) = three.decide_all(1, &batch);
            assert_eq!((waited, verdicts.committed), (waits, passes), "{ways:?} where {default:?} is usual");
        }
    }
}

// Fails when a refused bounded request does not ask for allowance.
#[test]
fn bounded_limit_refuses_until_allowance_arrives() {
    let mut three = sound(&MeshOptions::default());
    let buckets = Limit::token_bucket(Rate::per_second(1).expect("a rate"), 6).expect("a bucket");
    for (number, limit) in [(1, Limit::fixed_window(5, Period::HOUR)), (2, buckets)] {
        let key = three.key(number);
        let bounded = [charge(key, &limit, Consistency::Bounded)];
        assert!(!three.passes(1, &bounded), "{limit}");
        assert_eq!((three.passes(1, &bounded), three.passes(0, &bounded)), (true, true), "{limit}");
    }
}

// Fails when a whole batch is decided locally because one of its counters is.
#[test]
fn local_counter_spends_nothing_of_shared_limits() {
    let (few, many) = (Limit::fixed_window(4, Period::HOUR), Limit::fixed_window(1_000, Period::HOUR));
    for (alone, max_keys) in [(Consistency::Local, 100), (Consistency::Exact, 1)] {
        let mut three = sound(&MeshOptions { max_keys, ..MeshOptions::default() });
        let keys = [three.key(1), three.key(2)];
        let passed = (0..30).filter(|request| {
            let batch = [charge(keys[0], &few, Consistency::Exact), charge(keys[1], &many, alone)];
            three.passes(request % 3, &batch)
        });
        assert_eq!(passed.count(), 4, "{alone:?}");
    }
    // And vice versa: a refusal of the local counter spends nothing of the shared one.
    let mut three = sound(&MeshOptions::default());
    let keys = [three.key(1), three.key(2)];
    for _ in 0..10 {
        let batch = [charge(keys[0], &many, Consistency::Exact), charge(keys[1], &few, Consistency::Local)];
        three.passes(1, &batch);
    }
    let peek = Charge { op: Op::Peek, ..charge(keys[0], &many, Consistency::Exact) };
    three.pass(200);
    let (verdicts, _) = three.decide_all(0, &[peek]);
    let here = verdicts.each()[0].available;
    // The allowance of the owner, and unspent shares of others.
    assert_eq!(here, 1_000 - 2 * 333, "the owner's own part is untouched");
    let (verdicts, _) = three.decide_all(1, &[peek]);
    assert_eq!(verdicts.each()[0].available, 333 - 4);
}

// Fails when the node's setting replaces the rule's.
#[test]
fn each_rule_applies_its_own_on_unreachable() {
    let limit = Limit::fixed_window(6, Period::HOUR);
    for (policy, passed) in
        [(OnUnreachable::Refuse, 0), (OnUnreachable::Share, 2), (OnUnreachable::Admit, 20)]
    {
        for usual in [OnUnreachable::Refuse, OnUnreachable::Admit] {
            let mut three = sound(&MeshOptions { on_unreachable: usual, ..MeshOptions::default() });
            three.pass(100);
            three.loss = 1_000;
            three.pass(2_000);
            let sharing = Sharing { on_unreachable: Some(policy), ..Sharing::default() };
            let key = three.key(1);
            let batch = [Charge { sharing, ..charge(key, &limit, Consistency::Exact) }];
            assert_eq!((0..20).filter(|_| three.passes(1, &batch)).count(), passed, "{policy:?}");
        }
    }
}

// Fails when the total ever spent of a bucket is compared with its burst.
#[test]
fn eventual_bucket_refills_and_eventual_window_slides() {
    let bucket = Limit::token_bucket(Rate::per_second(10).expect("a rate"), 5).expect("a bucket");
    let sliding = Limit::sliding_window(5, Period::SECOND);
    for limit in [bucket, sliding] {
        let mut three = sound(&MeshOptions::default());
        let key = three.key(1);
        let mut passed = 0;
        for round in 0..200 {
            let batch = [charge(key, &limit, Consistency::Eventual)];
            passed += u32::from(three.passes(round % 3, &batch));
            three.pass(50);
        }
        // Ten seconds: 5 and 10 per second, or 5 per second and the first window.
        let (least, most) = if limit == bucket { (95, 110) } else { (40, 60) };
        assert!((least..=most).contains(&passed), "{passed} on {limit}");
    }
}
