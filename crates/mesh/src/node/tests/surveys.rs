//! Inspections at every node: what all nodes may still admit, and how much each holds.

use super::*;
use crate::frame::{Reply, Report, Want, Word};
use crate::node::Holding;

fn windows_and_buckets() -> [Limit; 4] {
    let hour = Period::HOUR;
    [
        Limit::fixed_window(5, hour),
        Limit::fixed_window(600, hour),
        Limit::sliding_window(600, hour),
        bucket(1, 600),
    ]
}

fn held(sight: &Sight) -> (&Holding, u64) {
    let holding = sight.holding.as_ref().expect("it is shared");
    let each = holding.each.as_ref().expect("the owner has said it");
    (holding, each.values().sum())
}

/// Fails when the owner's own part is reported as the remainder (200 of 600).
#[test]
fn every_node_tells_what_all_may_still_admit_and_who_holds_it() {
    for limit in windows_and_buckets() {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        for request in 0..5 {
            assert!(mesh.passes(request % 3, &[charge(key, &limit)]), "{limit}");
        }
        mesh.pass(100); // Spending is reported.
        let left = u64::from(limit.burst()) - 5;
        let sights: Vec<Sight> = (0..3).map(|node| mesh.look(node, (key, &limit))).collect();
        for (node, sight) in sights.iter().enumerate() {
            let (holding, sum) = held(sight);
            assert_eq!((sight.verdict.remaining, sum), (left, left), "{limit} at {node}: {sight:?}");
            assert_eq!(holding.owner, mesh.nodes[0].member().id, "{limit} at {node}");
            assert_eq!(holding.is_owner, node == 0, "{limit} at {node}");
            let each = holding.each.as_ref().expect("told");
            assert_eq!(holding.here, each.get(&mesh.nodes[node].member().id).copied().unwrap_or(0));
            assert_eq!((holding.others, holding.unaccounted), (0, 0));
        }
        assert!(limit.burst() == 5 || sights[1].verdict.remaining > 400, "{limit}");
        // It is exactly what is admitted then.
        let after = (0..2 * left).filter(|n| {
            let node = usize::try_from(n % 3).expect("small");
            mesh.passes(node, &[charge(key, &limit)])
        });
        let after = after.count() as u64;
        let earned = if matches!(limit, Limit::TokenBucket(_)) { 60 } else { 0 };
        assert!((left..=left + earned).contains(&after), "{after} of {left}: {limit}");
        mesh.pass(100);
        if earned == 0 {
            assert_eq!(mesh.look(2, (key, &limit)).verdict.remaining, 0, "{limit}");
        }
    }
}

/// Fails when a member's refund, which it can spend again, is missing from its holding.
#[test]
fn what_a_member_gave_back_is_among_what_it_holds() {
    let limit = Limit::fixed_window(600, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert_eq!(mesh.passed(1, 9, &[charge(key, &limit)]), 9);
    mesh.passes(1, &[Charge { op: Op::Refund, cost: Cost::new(4), ..charge(key, &limit) }]);
    mesh.pass(100);
    for node in 0..3 {
        let sight = mesh.look(node, (key, &limit));
        assert_eq!((sight.verdict.remaining, held(&sight).1), (595, 595), "at {node}: {sight:?}");
    }
}

/// Fails when what came back of it is deducted from the member's possible spending (one too many).
#[test]
fn what_a_member_gave_back_and_returned_is_held_by_nobody() {
    for limit in windows_and_buckets().into_iter().take(3) {
        for given in [1, 3, 5] {
            let mut mesh = Mesh::new(3, &strict());
            let key = mesh.key(0, 1);
            mesh.passed(1, 5, &[charge(key, &limit)]);
            mesh.passes(1, &[Charge { op: Op::Refund, cost: Cost::new(given), ..charge(key, &limit) }]);
            mesh.pass(100);
            let all = 2 * usize::try_from(limit.burst()).expect("small");
            mesh.passed(2, all, &[charge(key, &limit)]); // The first node's holding is recalled for it.
            mesh.pass(100);
            for node in 0..3 {
                let sight = mesh.look(node, (key, &limit));
                assert_eq!((sight.verdict.remaining, held(&sight).1), (0, 0), "{given} of {limit} at {node}");
            }
        }
    }
}

/// Fails when an inspection counts as a request.
#[test]
fn a_counter_that_nobody_has_used_is_whole_and_a_look_spends_nothing() {
    for limit in windows_and_buckets() {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        for node in [1, 2, 0, 1] {
            let sight = mesh.look(node, (key, &limit));
            assert_eq!(sight.verdict.remaining, u64::from(limit.burst()), "{limit} at {node}");
        }
    }
}

/// Fails when a reply without names counts as one from a node that is not the owner.
#[test]
fn an_owner_of_an_earlier_version_says_what_is_left_at_it_and_nobody_breaks() {
    let limit = Limit::fixed_window(600, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let Some(Decided::Later(ticket)) = mesh.begin_to_look(1, (key, &limit)) else { panic!("not its own") };
    mesh.mail.clear();
    let Some(id) = mesh.nodes[1].asks.keys().next().copied() else { panic!("no owner is asked") };
    let verdict = hivemind_core::store::Verdict {
        outcome: hivemind_core::store::Outcome::Admitted,
        available: 200,
        remaining: 200,
        reset_after: Period::HOUR.length(),
    };
    let (place, word) = (mesh.place(key, &limit), Word::default());
    mesh.forge((0, 1), None, &[Item::Answer { id, place, word, reply: Reply::Done(verdict) }]);
    let sight = mesh.looked.remove(&(1, ticket)).expect("an answer");
    let holding = sight.holding.expect("it is shared");
    assert_eq!((sight.verdict.remaining, holding.each, holding.here), (200, None, 200));
}

/// Fails when all nodes with an account are listed.
#[test]
fn a_survey_names_no_more_nodes_than_there_may_be() {
    let limit = bucket(1, 6_000);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert!(mesh.passes(0, &[charge(key, &limit)]));
    let place = mesh.place(key, &limit);
    for stranger in 0..400_u64 {
        let from = NodeId::new(format!("stranger-{stranger}"));
        let want = Want::Lend { need: 1, ahead: 0 };
        let ask = Item::Ask { id: 900, place, report: Report::default(), want };
        let frame = mesh.forged((&from, 0), Generation(1), &[ask]);
        let now = mesh.now;
        mesh.nodes[0].on_frame(now, &from, &frame);
        mesh.collect();
    }
    let sight = mesh.look(1, (key, &limit));
    let (holding, sum) = held(&sight);
    assert!(holding.each.as_ref().is_some_and(|each| each.len() <= 128), "{sight:?}");
    assert_eq!(sum + holding.others, sight.verdict.remaining, "{sight:?}");
    assert_eq!(sight.verdict.remaining, 5_999);
}
