//! Windows and buckets while the clocks of two nodes differ.

use super::*;
use std::time::Duration;

/// The same with several nodes: a node that waits for the end of a vote does not go on to the next window
/// meanwhile.
///
/// Fails when a counter window of all windows goes on to one that may be in another view.
#[test]
fn deciding_owner_begins_no_window_in_doubt() {
    let options = MeshOptions { grant_ahead: false, ..strict() };
    let limit = Limit::fixed_window(5, Period::SECOND);
    let mut mesh = Mesh::new(3, &options);
    let key = mesh.key(0, 1);
    mesh.pass(500);
    assert!(mesh.passes(0, &[charge(key, &limit)]));
    let head = mesh.nodes[0].view().expect("in a view").clone();
    let round = crate::view::Round { number: 1, proposer: NodeId::new("n001") };
    let members = head.members().iter().filter(|member| member.id.as_str() != "n002").cloned();
    let effective_at = mesh.now.saturating_add(Duration::from_millis(100));
    let view = super::super::View::new(Some(head.as_base()), effective_at, round, members, []);
    let now = mesh.now;
    mesh.nodes[0].vote_on(&view, now);
    assert!(mesh.nodes[0].is_in_doubt());
    mesh.now = mesh.now.saturating_add(Duration::from_secs(1));
    assert!(!mesh.passes_now(0, &[charge(key, &limit)]));
}

/// A node admits without a view in two consecutive windows, then learns the view; the owner, whose clock is
/// slow, recalls the share of the first.
///
/// Fails when only one window is remembered.
#[test]
fn admissions_without_a_view_lower_both_window_shares() {
    let limit = Limit::fixed_window(60, Period::MINUTE);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let view_log = mesh.nodes[1].membership.view_log().expect("in a view").clone();
    let me = mesh.nodes[1].member().clone();
    mesh.nodes[1] = Node::new(me.id.clone(), me.generation.0, strict(), mesh.now);
    mesh.now = mesh.now.saturating_add(Duration::from_secs(59));
    let first = mesh.window_ref(key, &limit);
    let alone = sharing(charge(key, &limit), OnUnreachable::Admit);
    assert_eq!(mesh.passed(1, 7, &[alone]), 7);
    mesh.now = mesh.now.saturating_add(Duration::from_secs(2));
    assert_eq!(mesh.passed(1, 3, &[alone]), 3);
    let (members, now) = (view_log.head().members().to_vec(), mesh.now);
    mesh.nodes[1].join_view(view_log, &members, now);
    mesh.nodes[1].views_may_have_changed(now);
    for (window_ref, returned) in [(first, 13), (mesh.window_ref(key, &limit), 17)] {
        let update = crate::frame::OwnerUpdate { recall: true, ..crate::frame::OwnerUpdate::default() };
        mesh.forge((0, 1), None, &[Item::Update(window_ref, update)]);
        let window = mesh.nodes[1].table.counters.window(&key, window_ref.tag).expect("it was opened");
        let crate::counter::counter_window::Side::Lease(lease) = &window.side else {
            panic!("the other is the owner")
        };
        assert_eq!(lease.report().returned, returned);
    }
}

/// Fails when a recall from what is now the future stays in flight for an hour.
#[test]
fn clock_set_back_does_not_stop_recalls() {
    let limit = Limit::token_bucket(Rate::new(1, Period::YEAR).expect("a rate"), 30).expect("a bucket");
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    super::tokens::hold(&mut mesh, 1, key, &limit, 10);
    // It receives nothing meanwhile.
    mesh.cut = vec![1];
    mesh.pass(1_000);
    assert_eq!(mesh.passed(0, 30, &[charge(key, &limit)]), 20);
    mesh.cut.clear();
    mesh.now = Timestamp::from_nanos(mesh.now.as_nanos() - 3_600 * 1_000_000_000);
    mesh.pass(1_000);
    assert!(!mesh.passes_now(0, &[charge(key, &limit)]));
    let recalled =
        |node: &mut Node| match node.table.counters.window(&key, 0).map(|window| window.side.clone()) {
            Some(crate::counter::counter_window::Side::Ledger(ledger)) => ledger.recalled(),
            _ => None,
        };
    let at = recalled(&mut mesh.nodes[0]);
    let now = mesh.nodes[0].mesh_time(mesh.now);
    assert!(at.is_some_and(|at| at <= now), "{at:?}, and it is {now:?}");
}

/// Fails when a reload from what is now the future keeps windows from beginning with a share for an hour.
#[test]
fn clock_set_back_does_not_withhold_shares_after_reload() {
    let limit = Limit::fixed_window(60, Period::SECOND);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let now = mesh.now;
    mesh.nodes.iter_mut().for_each(|node| node.reload(7, now));
    mesh.pass(500);
    mesh.now = Timestamp::from_nanos(mesh.now.as_nanos() - 3_600 * 1_000_000_000);
    mesh.pass(5_000);
    assert!(mesh.passes_now(1, &[charge(key, &limit)]));
}
