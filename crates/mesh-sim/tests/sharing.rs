//! Each limit of a request is shared as its own rule says, whatever the others beside it do.
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
        // What refusals count as is another test's.
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

/// Seen failing on: every charge that follows the node's own setting.
#[test]
fn two_rules_of_one_request_are_shared_each_in_its_own_way() {
    use Consistency::{Bounded, Eventual, Exact, Local};
    let limit = Limit::fixed_window(5, Period::HOUR);
    // Whether the request waits for the owner, and whether it passes, at a node that holds no rights.
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

/// Seen failing on: a bounded miss that asks for nothing, because it is doomed itself.
#[test]
fn a_bounded_limit_refuses_at_first_and_passes_once_rights_have_come() {
    let mut three = sound(&MeshOptions::default());
    let buckets = Limit::token_bucket(Rate::per_second(1).expect("a rate"), 6).expect("a bucket");
    for (number, limit) in [(1, Limit::fixed_window(5, Period::HOUR)), (2, buckets)] {
        let key = three.key(number);
        let bounded = [charge(key, &limit, Consistency::Bounded)];
        assert!(!three.passes(1, &bounded), "{limit}");
        assert_eq!((three.passes(1, &bounded), three.passes(0, &bounded)), (true, true), "{limit}");
    }
}

/// Seen failing on: a batch that is decided alone altogether, as soon as one of its counters is.
#[test]
fn a_counter_that_is_not_shared_takes_nothing_from_the_limits_beside_it() {
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
    // And the other way round: what refuses here alone spends nothing there.
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
    // What the owner has and what others started with and did not spend.
    assert_eq!(here, 1_000 - 2 * 333, "the owner's own part is untouched");
    let (verdicts, _) = three.decide_all(1, &[peek]);
    assert_eq!(verdicts.each()[0].available, 333 - 4);
}

/// Seen failing on: the node's setting in the place of the rule's.
#[test]
fn each_rule_says_what_holds_while_its_owner_cannot_be_reached() {
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

/// Seen failing on: what was ever spent of a bucket, compared with its burst.
#[test]
fn an_eventual_bucket_earns_and_an_eventual_window_slides() {
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
        // Ten seconds of rounds: 5 and 10 a second, or 5 a second and what the first window allows.
        let (least, most) = if limit == bucket { (95, 110) } else { (40, 60) };
        assert!((least..=most).contains(&passed), "{passed} on {limit}");
    }
}
