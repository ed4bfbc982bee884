//! Inspections at every node: what all nodes may still admit, and how much each holds.

use super::*;
use crate::frame::{MemberReport, OwnerReply, OwnerUpdate, Want};
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

fn held(inspection: &Inspection) -> (&Holding, u64) {
    let holding = inspection.holding.as_ref().expect("it is shared");
    let each = holding.each.as_ref().expect("the owner reports it");
    (holding, each.values().sum())
}

/// Fails when the owner's own part is reported as the remainder (200 of 600).
#[test]
fn every_node_reports_the_total_and_each_allowance() {
    for limit in windows_and_buckets() {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        for request in 0..5 {
            assert!(mesh.passes(request % 3, &[charge(key, &limit)]), "{limit}");
        }
        mesh.pass(100); // Spending is reported.
        let left = u64::from(limit.burst()) - 5;
        let inspections: Vec<Inspection> = (0..3).map(|node| mesh.look(node, (key, &limit))).collect();
        for (node, inspection) in inspections.iter().enumerate() {
            let (holding, sum) = held(inspection);
            assert_eq!(
                (inspection.verdict.remaining, sum),
                (left, left),
                "{limit} at {node}: {inspection:?}"
            );
            assert_eq!(holding.owner, mesh.nodes[0].member().id, "{limit} at {node}");
            assert_eq!(holding.is_owner, node == 0, "{limit} at {node}");
            let each = holding.each.as_ref().expect("reported");
            assert_eq!(holding.here, each.get(&mesh.nodes[node].member().id).copied().unwrap_or(0));
            assert_eq!((holding.others, holding.unaccounted), (0, 0));
        }
        assert!(limit.burst() == 5 || inspections[1].verdict.remaining > 400, "{limit}");
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
fn refund_counts_as_allowance_of_its_member() {
    let limit = Limit::fixed_window(600, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert_eq!(mesh.passed(1, 9, &[charge(key, &limit)]), 9);
    mesh.passes(1, &[Charge { op: Op::Refund, cost: Cost::new(4), ..charge(key, &limit) }]);
    mesh.pass(100);
    for node in 0..3 {
        let inspection = mesh.look(node, (key, &limit));
        assert_eq!(
            (inspection.verdict.remaining, held(&inspection).1),
            (595, 595),
            "at {node}: {inspection:?}"
        );
    }
}

/// Fails when what came back of it is deducted from the member's possible spending (one too many).
#[test]
fn returned_refund_counts_for_no_member() {
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
                let inspection = mesh.look(node, (key, &limit));
                assert_eq!(
                    (inspection.verdict.remaining, held(&inspection).1),
                    (0, 0),
                    "{given} of {limit} at {node}"
                );
            }
        }
    }
}

/// Fails when an inspection counts as a request.
#[test]
fn inspection_of_an_unused_counter_spends_nothing() {
    for limit in windows_and_buckets() {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        for node in [1, 2, 0, 1] {
            let inspection = mesh.look(node, (key, &limit));
            assert_eq!(inspection.verdict.remaining, u64::from(limit.burst()), "{limit} at {node}");
        }
    }
}

/// Fails when a reply without names counts as one from a node that is not the owner.
#[test]
fn inspection_reply_of_an_earlier_version_is_accepted() {
    let limit = Limit::fixed_window(600, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let Some(NodeDecision::Later(ticket)) = mesh.begin_to_look(1, (key, &limit)) else {
        panic!("not its own")
    };
    mesh.mail.clear();
    let Some(id) = mesh.nodes[1].asks.keys().next().copied() else { panic!("no owner is asked") };
    let verdict = hivemind_core::store::Verdict {
        outcome: hivemind_core::store::Outcome::Admitted,
        available: 200,
        remaining: 200,
        reset_after: Period::HOUR.length(),
    };
    let (window_ref, update) = (mesh.window_ref(key, &limit), OwnerUpdate::default());
    mesh.forge((0, 1), None, &[Item::Answer { id, window_ref, update, reply: OwnerReply::Done(verdict) }]);
    let inspection = mesh.looked.remove(&(1, ticket)).expect("an answer");
    let holding = inspection.holding.expect("it is shared");
    assert_eq!((inspection.verdict.remaining, holding.each, holding.here), (200, None, 200));
}

/// Fails when all nodes with an account are listed.
#[test]
fn inspection_lists_a_bounded_number_of_nodes() {
    let limit = bucket(1, 6_000);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert!(mesh.passes(0, &[charge(key, &limit)]));
    let window_ref = mesh.window_ref(key, &limit);
    for stranger in 0..400_u64 {
        let from = NodeId::new(format!("stranger-{stranger}"));
        let want = Want::Grant { need: 1, ahead: 0 };
        let ask = Item::Ask { id: 900, window_ref, report: MemberReport::default(), want };
        let frame = mesh.forged((&from, 0), Generation(1), &[ask]);
        let now = mesh.now;
        mesh.nodes[0].on_frame(now, &from, &frame);
        mesh.collect();
    }
    let inspection = mesh.look(1, (key, &limit));
    let (holding, sum) = held(&inspection);
    assert!(holding.each.as_ref().is_some_and(|each| each.len() <= 128), "{inspection:?}");
    assert_eq!(sum + holding.others, inspection.verdict.remaining, "{inspection:?}");
    assert_eq!(inspection.verdict.remaining, 5_999);
}
