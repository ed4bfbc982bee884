//! `on_unreachable: share`: an even share of the window, including earlier spending, and never twice for a
//! node.

use super::*;
use crate::view::{Round, View};

fn shared(mesh: &mut Mesh, node: usize, limit: &Limit, key: Key) -> usize {
    let times = 2 * usize::try_from(limit.requests()).expect("small");
    mesh.passed(node, times, &[sharing(charge(key, limit), OnUnreachable::Share)])
}

/// All move to a view with one more member, which does not exist.
fn move_on(mesh: &mut Mesh) {
    for node in &mut mesh.nodes {
        let head = node.view().expect("they are in a view").clone();
        let more = Member::new(NodeId::new("n900"), 1);
        let round = Round { number: 1, proposer: more.id.clone() };
        let members = head.members().iter().cloned().chain([more]);
        let effective_at = mesh.now;
        let view = View::new(Some(head.as_base()), effective_at, round, members, []);
        let view_log = node.membership.view_log().expect("they are in a view").clone();
        let views = view_log.iter().map(|view| View::clone(view)).chain([view]).collect();
        let received =
            crate::view::view_log::ViewLog::received(view_log.root().clone(), views).expect("it follows");
        node.membership.adopt_view_log(received);
        node.views_may_have_changed(mesh.now);
    }
    mesh.collect();
}

/// Fails when a share comes in addition to what was returned, or is rounded up where windows are split.
#[test]
fn cut_changes_nothing_for_split_windows() {
    for limit in [30, 31, 32, 301] {
        let limit = Limit::fixed_window(limit, Period::HOUR);
        let mut mesh = Mesh::new(3, &MeshOptions::default());
        let key = mesh.key(0, 1);
        // The owner recalls what the others hold, and spends it.
        let mut all = shared(&mut mesh, 0, &limit, key);
        mesh.cut = vec![0, 1, 2];
        mesh.pass(1_000);
        all += shared(&mut mesh, 1, &limit, key) + shared(&mut mesh, 2, &limit, key);
        assert_eq!(all, usize::try_from(limit.requests()).expect("small"));
    }
}

/// Fails when a counter window forgets its spending when it moves to another view.
#[test]
fn share_is_granted_once_across_view_changes() {
    let limit = Limit::fixed_window(12, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions::default());
    let key = (0..1_000)
        .map(|n| mesh.key(0, n))
        .find(|key| {
            let view = mesh.nodes[0].view().expect("in a view");
            let more = Member::new(NodeId::new("n900"), 1);
            let with = View::new(
                None,
                Timestamp::EPOCH,
                Round { number: 1, proposer: more.id.clone() },
                view.members().iter().cloned().chain([more]),
                [],
            );
            with.owner(*key) == Some(mesh.nodes[0].member())
        })
        .expect("one of them");
    mesh.pass(100);
    mesh.cut = vec![0, 1, 2];
    mesh.pass(1_000);
    assert_eq!(shared(&mut mesh, 1, &limit, key), 4);
    for _ in 0..3 {
        mesh.pass(100);
        move_on(&mut mesh);
        mesh.pass(1_000);
        assert_eq!(shared(&mut mesh, 1, &limit, key), 0);
    }
}

/// Fails when a generation that was not there when a window began has a share of it.
#[test]
fn node_outside_the_view_has_no_share_of_a_window() {
    for limit in [5, 60] {
        let limit = Limit::fixed_window(limit, Period::HOUR);
        let mut mesh = Mesh::new(3, &MeshOptions::default());
        let key = mesh.key(0, 1);
        let view_log = mesh.nodes[0].membership.view_log().expect("they are in a view").clone();
        // A new generation of a member: an observer of the old view. And a node without any view.
        for knows in [true, false] {
            let mut node = Node::new(NodeId::new("n002"), 7, MeshOptions::default(), mesh.now);
            node.meet(NodeId::new("n000"));
            node.meet(NodeId::new("n001"));
            if knows {
                node.membership.adopt_view_log(view_log.clone());
            }
            mesh.cut = vec![2];
            mesh.nodes[2] = node;
            assert_eq!(shared(&mut mesh, 2, &limit, key), 0, "{limit}, knows the view: {knows}");
        }
    }
}

/// Fails when a node in doubt has a separate share in addition to the one it begins the window with.
#[test]
fn admissions_in_doubt_are_deducted_from_the_share() {
    for requests in [12, 300] {
        let limit = Limit::fixed_window(requests, Period::SECOND);
        let mut mesh = Mesh::new(3, &MeshOptions::default());
        let key = mesh.key(0, 1);
        mesh.pass(100);
        let effective_at = Timestamp::from_millis(1_700_006_401_000);
        let head = mesh.nodes[2].view().expect("in a view").clone();
        let more = Member::new(NodeId::new("n900"), 1);
        let round = Round { number: 1, proposer: head.members()[0].id.clone() };
        let next = View::new(
            Some(head.as_base()),
            effective_at,
            round,
            head.members().iter().cloned().chain([more]),
            [],
        );
        let (now, peers) = (mesh.now, mesh.nodes[2].peers.clone());
        mesh.nodes[2].membership.on_proposal(now, &peers, next.clone(), (1, 0, 0));
        mesh.cut = vec![2];
        while mesh.now < effective_at {
            mesh.tick(10);
        }
        let alone = shared(&mut mesh, 2, &limit, key);
        let even = usize::try_from(requests.div_ceil(4)).expect("small");
        assert!(alone <= even, "{alone} in doubt of {limit}");
        // The result of the vote arrives at last.
        let view_log = mesh.nodes[2].membership.view_log().expect("in a view").clone();
        let views = view_log.iter().map(|view| View::clone(view)).chain([next]).collect();
        let received =
            crate::view::view_log::ViewLog::received(view_log.root().clone(), views).expect("it follows");
        let now = mesh.now;
        mesh.nodes[2].membership.adopt_view_log(received);
        mesh.nodes[2].views_may_have_changed(now);
        let later = shared(&mut mesh, 2, &limit, key);
        assert!(alone + later <= even, "{alone} in doubt and {later} later of {limit}");
    }
}

/// Fails when a bucket's owner that consented to another view continues without knowing the result of the vote.
#[test]
fn bucket_stops_when_an_undecided_view_takes_effect() {
    let limit = bucket(100, 40);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert!(mesh.passes(0, &[charge(key, &limit)]));
    let effective_at = mesh.now.saturating_add(std::time::Duration::from_millis(800));
    let head = mesh.nodes[0].view().expect("in a view").clone();
    let more = Member::new(NodeId::new("n900"), 1);
    let round = Round { number: 1, proposer: head.members()[1].id.clone() };
    let next = View::new(
        Some(head.as_base()),
        effective_at,
        round,
        head.members().iter().cloned().chain([more]),
        [],
    );
    let (now, peers) = (mesh.now, mesh.nodes[0].peers.clone());
    mesh.nodes[0].membership.on_proposal(now, &peers, next, (2, 0, 0));
    mesh.cut = vec![0];
    let mut passed = Vec::new();
    for round in 0..200 {
        mesh.tick(10);
        if let Ok(verdicts) = mesh.ask(0, &[charge(key, &limit)])
            && verdicts.committed
            && mesh.now >= effective_at
        {
            passed.push(round);
        }
    }
    assert_eq!(passed, Vec::<i32>::new(), "it goes on after the effective_at");
}
