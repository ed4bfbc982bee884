//! Tokens held by a bucket's members: none are lost forever, and no state is kept forever.

use super::*;

/// A new generation of a node takes its place, as an observer of the view it knows.
fn restart(mesh: &mut Mesh, index: usize, generation: u64) {
    let view_log = mesh.nodes[index].membership.view_log().expect("in a view").clone();
    let mut node = Node::new(mesh.nodes[index].member().id.clone(), generation, strict(), mesh.now);
    mesh.nodes.iter().for_each(|other| node.meet(other.member().id.clone()));
    node.membership.adopt_view_log(view_log);
    mesh.nodes[index] = node;
    mesh.pass(300);
}

/// Gives a member `amount` tokens: a request asks for them, and another of its limits refuses it.
pub(super) fn hold(mesh: &mut Mesh, node: usize, key: Key, limit: &Limit, amount: u64) {
    let other = Limit::fixed_window(5, Period::HOUR);
    let spent = mesh.key(2, 77);
    mesh.passed(2, 9, &[charge(spent, &other)]);
    let wanted = Charge { cost: Cost::new(amount), ..charge(key, limit) };
    assert!(!mesh.passes(node, &[wanted, charge(spent, &other)]));
    let window = mesh.nodes[node].table.counters.window(&key, 0).expect("it was asked for");
    let crate::counter::counter_window::Side::Lease(lease) = &window.side else {
        panic!("another is the owner")
    };
    assert_eq!(lease.unspent(), i64::try_from(amount).expect("small"));
}

/// Fails when a lease of an account that its owner no longer knows is never replaced.
#[test]
fn member_with_a_forgotten_account_gets_tokens_again() {
    let limit = bucket(50, 200);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    for node in 0..3 {
        assert!(mesh.passed(node, 20, &[charge(key, &limit)]) > 0);
    }
    mesh.nodes[0].table.counters.clear();
    mesh.pass(1_000);
    for node in [1, 2] {
        let passed = mesh.passed(node, 20, &[charge(key, &limit)]);
        assert!(passed >= 18, "{passed} of 20");
    }
}

/// Fails when counters with granted tokens are never swept.
#[test]
fn unused_buckets_are_removed_on_all_nodes() {
    let limit = bucket(10, 20);
    let mut mesh = Mesh::new(3, &strict());
    for number in 0..40 {
        let key = mesh.key(0, number);
        mesh.passed(1, 8, &[charge(key, &limit)]);
        mesh.passes(1, &[Charge { cost: Cost::new(4), ..charge(key, &limit) }]);
        mesh.tick(60);
        mesh.mail.clear(); // Spending is sent, and the owner never receives it.
    }
    // Half an hour, in steps short enough that peers stay heard.
    for _ in 0..30 * 60 * 4 {
        mesh.tick(250);
        mesh.deliver();
    }
    for node in 0..3 {
        assert_eq!(mesh.nodes[node].standing(mesh.now).keys, 0, "node {node}");
    }
}

/// Fails when accounts of expired generations occupy room with their tokens forever.
#[test]
fn bucket_admits_its_burst_after_many_restarts() {
    let limit = bucket(20, 30);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    for generation in 2..22 {
        mesh.passed(1, 3, &[charge(key, &limit)]);
        restart(&mut mesh, 1, generation);
    }
    mesh.pass(3_000);
    let passed = mesh.passed(0, 60, &[charge(key, &limit)]);
    assert!(passed >= 28, "{passed} of a burst of 30");
}

/// Fails when 256 accounts of a counter window are never dropped.
#[test]
fn three_hundredth_generation_is_served_like_the_first() {
    let limit = bucket(1_000, 100);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let window_ref = mesh.window_ref(key, &limit);
    mesh.passes(0, &[charge(key, &limit)]);
    for generation in 10..310 {
        let report = crate::frame::MemberReport::default();
        let want = crate::frame::Want::Grant { need: 1, ahead: 0 };
        mesh.forge((1, 0), Some(Generation(generation)), &[Item::Ask { id: 1, window_ref, report, want }]);
        mesh.mail.clear();
        mesh.tick(10);
        mesh.mail.clear();
    }
    restart(&mut mesh, 1, 1_000);
    assert!(mesh.passes(1, &[charge(key, &limit)]));
}

/// Refunds of an earlier generation and of the next one are applied.
///
/// Fails when refunds of a removed account count as applied.
#[test]
fn refund_after_a_restart_is_applied() {
    let limit = Limit::token_bucket(Rate::new(1, Period::YEAR).expect("a rate"), 25).expect("a bucket");
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let left = |mesh: &mut Mesh| {
        let peek = Charge { op: Op::Peek, ..charge(key, &limit) };
        mesh.ask(0, &[peek]).expect("it is the owner's own").each()[0].available
    };
    assert_eq!(mesh.passed(0, 10, &[charge(key, &limit)]), 10);
    assert!(mesh.passes(1, &[charge(key, &limit)]));
    let refund = |cost| Charge { op: Op::Refund, cost: Cost::new(cost), ..charge(key, &limit) };
    for generation in 2..5 {
        let before = left(&mut mesh);
        mesh.passes(1, &[refund(2)]);
        mesh.pass(200);
        assert_eq!(left(&mut mesh), before + 2, "run {generation}");
        restart(&mut mesh, 1, generation);
        // The only update of the new generation.
        assert!(mesh.passes(1, &[charge(key, &limit)]));
    }
}

/// Tokens were granted; now there are too few to grant any to each member.
///
/// Fails when an owner that decides everything recalls nothing.
#[test]
fn granted_tokens_return_when_the_owner_decides_alone() {
    for who in 0..3 {
        let limit = Limit::token_bucket(Rate::new(1, Period::YEAR).expect("a rate"), 20).expect("a bucket");
        let few = Limit::token_bucket(Rate::new(1, Period::YEAR).expect("a rate"), 8).expect("a bucket");
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        hold(&mut mesh, 1, key, &limit, 6);
        assert_eq!(mesh.passed(0, 12, &[charge(key, &limit)]), 12);
        let now = mesh.now;
        mesh.nodes.iter_mut().for_each(|node| node.reload(9, now));
        mesh.pass(100);
        let mut passed = 0;
        for _ in 0..20 {
            passed += usize::from(mesh.passes(who, &[charge(key, &few)]));
            mesh.pass(50);
        }
        assert!((6..=8).contains(&passed), "{passed} at node {who}");
    }
}
