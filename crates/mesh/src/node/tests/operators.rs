//! Operator actions on a counter that another node owns.

use super::*;
use crate::node::Reset;
use hivemind_core::store::Verdict;
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(1);

fn limits() -> [Limit; 3] {
    // One that its owner decides, and two with grants.
    [Limit::fixed_window(5, Period::HOUR), Limit::fixed_window(600, Period::HOUR), bucket(1, 600)]
}

fn operate(
    mesh: &mut Mesh,
    node: usize,
    op: Op,
    (key, limit): (Key, &Limit),
    cost: u64,
) -> Option<NodeDecision> {
    let context = Context { on_refusal: OnRefusal::CountNone, ..Context::at(mesh.now) };
    let charge = Charge { op, cost: Cost::new(cost), ..charge(key, limit) };
    let decided = mesh.nodes[node].operate(&charge, context);
    mesh.collect();
    decided
}

fn later<T: std::fmt::Debug>(decided: Option<NodeDecision<T>>) -> Ticket {
    match decided {
        Some(NodeDecision::Later(ticket)) => ticket,
        other => panic!("no owner is asked: {other:?}"),
    }
}

// Fails when a reset is sent once and reported as done.
#[test]
fn lost_reset_is_repeated_and_confirmed_by_the_owner() {
    for limit in limits() {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        mesh.passed(0, 5, &[charge(key, &limit)]);
        let now = mesh.now;
        let Reset::Later(ticket) = mesh.nodes[1].reset(key, &limit, WITHIN, now) else {
            panic!("another node owns it")
        };
        mesh.collect();
        mesh.mail.clear();
        assert!(mesh.reset.is_empty());
        mesh.pass(100);
        assert_eq!(
            (mesh.reset.as_slice(), mesh.given_up.as_slice()),
            (&[(1, ticket)][..], &[][..]),
            "{limit}"
        );
        assert_eq!(mesh.look(0, (key, &limit)).verdict.remaining, u64::from(limit.burst()), "{limit}");
    }
}

// Fails when the reset of a counter that its owner does not have gets no reply.
#[test]
fn reset_of_an_unused_counter_succeeds() {
    let limit = Limit::fixed_window(5, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let (key, now) = (mesh.key(0, 1), mesh.now);
    assert_eq!(mesh.nodes[0].reset(key, &limit, WITHIN, now), Reset::Done);
    let key = mesh.key(0, 2);
    let Reset::Later(ticket) = mesh.nodes[1].reset(key, &limit, WITHIN, now) else { panic!("not its own") };
    mesh.pass(50);
    assert_eq!(mesh.reset, [(1, ticket)]);
}

// Fails when a reset is reported as done while its owner receives nothing.
#[test]
fn reset_without_a_reply_expires_and_leaves_no_state() {
    let limit = Limit::fixed_window(5, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let (key, now) = (mesh.key(0, 1), mesh.now);
    mesh.cut.push(0);
    let Reset::Later(ticket) = mesh.nodes[1].reset(key, &limit, WITHIN, now) else { panic!("not its own") };
    mesh.pass(990);
    assert!(mesh.given_up.is_empty() && mesh.reset.is_empty());
    mesh.pass(50);
    assert_eq!(mesh.given_up, [(1, ticket)]);
    mesh.pass(500);
    assert!(!mesh.nodes[1].has_waiting());
}

// Fails when numbers are invented for a silent owner, or an inspection reads only the local allowance.
#[test]
fn inspection_returns_the_owner_state_or_nothing() {
    for limit in limits() {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        assert_eq!(mesh.passed(0, 2, &[charge(key, &limit)]), 2);
        let (at_peer, own) = (mesh.look(1, (key, &limit)), mesh.look(0, (key, &limit)));
        assert_eq!(at_peer.verdict, own.verdict, "{limit}: at every node");
        assert_eq!(at_peer.verdict.remaining, u64::from(limit.burst()) - 2, "{limit}");
        mesh.cut.push(0);
        let ticket = later(mesh.begin_to_look(1, (key, &limit)));
        mesh.pass(600);
        assert_eq!(mesh.given_up, [(1, ticket)], "{limit}");
        assert!(mesh.looked.is_empty());
        // Once the owner is known to be silent, the inspection does not wait.
        mesh.pass(30_000);
        assert_eq!(mesh.begin_to_look(1, (key, &limit)), None, "{limit}");
    }
}

// Fails when the result of a refund is invented, or a refund is lost with its request.
#[test]
fn unanswered_refund_is_applied_and_reported_as_unknown() {
    let limit = bucket(1, 5); // Too small for grants: its owner decides.
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert_eq!(mesh.passed(0, 9, &[charge(key, &limit)]), 5);
    let ticket = later(operate(&mut mesh, 1, Op::Refund, (key, &limit), 2));
    mesh.mail.clear();
    mesh.cut.push(0);
    mesh.pass(600);
    assert_eq!(mesh.given_up, [(1, ticket)]);
    mesh.cut.clear();
    mesh.pass(600);
    // One was earned meanwhile.
    assert_eq!(mesh.passed(0, 9, &[charge(key, &limit)]), 3);
}

// Fails when a node with allowance reports its own estimate, or an owner counts its grants as spent.
#[test]
fn refund_at_any_node_reports_the_refunded_amount() {
    let sliding = Limit::sliding_window(600, Period::HOUR);
    for (limit, giver) in
        limits().into_iter().chain([sliding]).flat_map(|limit| (0..3).map(move |g| (limit, g)))
    {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        for node in 0..3 {
            assert_eq!(mesh.passed(node, 1, &[charge(key, &limit)]), 1, "{limit}");
        }
        mesh.pass(200);
        // Several refunds: no more comes back than was spent, and the reported amount is the actual one.
        let mut refunded = 0;
        for given in [2, 3, 3] {
            let before = mesh.look(0, (key, &limit)).verdict.remaining;
            let verdict = operated(&mut mesh, giver, (key, &limit), given);
            let after = mesh.look(0, (key, &limit)).verdict.remaining;
            assert_eq!(verdict.remaining - verdict.available, after - before, "{limit} at node {giver}");
            refunded += after - before;
        }
        assert_eq!(refunded, 3, "{limit} at node {giver}");
    }
}

/// The verdict of an operator's refund, now or later.
fn operated(mesh: &mut Mesh, node: usize, counter: (Key, &Limit), cost: u64) -> Verdict {
    let decided = operate(mesh, node, Op::Refund, counter, cost);
    mesh.pass(50);
    let verdicts = match decided.expect("an owner that can be asked") {
        NodeDecision::Now(verdicts) => verdicts,
        NodeDecision::Later(ticket) => mesh.decided.remove(&(node, ticket)).expect("an answer"),
    };
    verdicts.each()[0]
}

// Fails when a refund reaches the owner's counter, but a member stops at its previous limit.
#[test]
fn refund_at_any_node_can_be_spent_by_the_spender() {
    let sliding = Limit::sliding_window(600, Period::HOUR);
    for (limit, giver, given) in limits()
        .into_iter()
        .chain([sliding])
        .flat_map(|limit| (0..3).flat_map(move |giver| [1, 3, 600].map(move |given| (limit, giver, given))))
    {
        let mut mesh = Mesh::new(3, &strict());
        let (key, start) = (mesh.key(0, 1), mesh.now);
        let burst = u64::from(limit.burst());
        let mut passed = mesh.passed(1, 700, &[charge(key, &limit)]);
        assert!(passed as u64 >= burst, "{limit}: {passed}");
        mesh.pass(200);
        operate(&mut mesh, giver, Op::Refund, (key, &limit), given);
        mesh.pass(300);
        let again = mesh.passed(1, 700, &[charge(key, &limit)]);
        passed += again;
        let of_all =
            passed + mesh.passed(0, 20, &[charge(key, &limit)]) + mesh.passed(2, 20, &[charge(key, &limit)]);
        let earned = if matches!(limit, Limit::TokenBucket(_)) { mesh.now.since(start).as_secs() } else { 0 };
        let given = given.min(burst);
        assert!(again as u64 >= given, "{limit}: {again} of {given} given back at node {giver}");
        assert!(of_all as u64 <= burst + given + earned, "{limit}: {of_all} after {given} at node {giver}");
    }
}
