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
        let head = node.view().expect("they are seated").clone();
        let more = Member::new(NodeId::new("n900"), 1);
        let round = Round { number: 1, proposer: more.id.clone() };
        let members = head.members().iter().cloned().chain([more]);
        let fence = mesh.now;
        let view = View::new(Some(head.as_base()), fence, round, members, []);
        let chain = node.council.chain().expect("they are seated").clone();
        let views = chain.iter().map(|view| View::clone(view)).chain([view]).collect();
        let told = crate::chain::Chain::told(chain.root().clone(), views).expect("it follows");
        node.council.on_chain(told);
        node.views_may_have_changed(mesh.now);
    }
    mesh.collect();
}

/// Fails when a share comes in addition to what was returned, or is rounded up where windows are split.
#[test]
fn from_ten_a_member_on_a_cut_costs_nothing_and_brings_nothing() {
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
fn a_share_is_one_share_however_often_the_view_changes() {
    let limit = Limit::fixed_window(12, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions::default());
    let key = (0..1_000)
        .map(|n| mesh.key(0, n))
        .find(|key| {
            let view = mesh.nodes[0].view().expect("seated");
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
fn a_node_that_is_not_in_the_view_of_a_window_has_no_share_of_it() {
    for limit in [5, 60] {
        let limit = Limit::fixed_window(limit, Period::HOUR);
        let mut mesh = Mesh::new(3, &MeshOptions::default());
        let key = mesh.key(0, 1);
        let chain = mesh.nodes[0].council.chain().expect("they are seated").clone();
        // A new generation of a member: a guest of the old view. And a node without any view.
        for knows in [true, false] {
            let mut node = Node::new(NodeId::new("n002"), 7, MeshOptions::default(), mesh.now);
            node.meet(NodeId::new("n000"));
            node.meet(NodeId::new("n001"));
            if knows {
                node.council.on_chain(chain.clone());
            }
            mesh.cut = vec![2];
            mesh.nodes[2] = node;
            assert_eq!(shared(&mut mesh, 2, &limit, key), 0, "{limit}, knows the view: {knows}");
        }
    }
}

/// Fails when a node in doubt has a separate share in addition to the one it begins the window with.
#[test]
fn what_a_node_in_doubt_admits_is_taken_off_its_share() {
    for requests in [12, 300] {
        let limit = Limit::fixed_window(requests, Period::SECOND);
        let mut mesh = Mesh::new(3, &MeshOptions::default());
        let key = mesh.key(0, 1);
        mesh.pass(100);
        let fence = Timestamp::from_millis(1_700_006_401_000);
        let head = mesh.nodes[2].view().expect("seated").clone();
        let more = Member::new(NodeId::new("n900"), 1);
        let round = Round { number: 1, proposer: head.members()[0].id.clone() };
        let next =
            View::new(Some(head.as_base()), fence, round, head.members().iter().cloned().chain([more]), []);
        let (now, peers) = (mesh.now, mesh.nodes[2].peers.clone());
        mesh.nodes[2].council.on_motion(now, &peers, next.clone(), (1, 0, 0));
        mesh.cut = vec![2];
        while mesh.now < fence {
            mesh.tick(10);
        }
        let alone = shared(&mut mesh, 2, &limit, key);
        let even = usize::try_from(requests.div_ceil(4)).expect("small");
        assert!(alone <= even, "{alone} in doubt of {limit}");
        // The result of the vote arrives at last.
        let chain = mesh.nodes[2].council.chain().expect("seated").clone();
        let views = chain.iter().map(|view| View::clone(view)).chain([next]).collect();
        let told = crate::chain::Chain::told(chain.root().clone(), views).expect("it follows");
        let now = mesh.now;
        mesh.nodes[2].council.on_chain(told);
        mesh.nodes[2].views_may_have_changed(now);
        let later = shared(&mut mesh, 2, &limit, key);
        assert!(alone + later <= even, "{alone} in doubt and {later} later of {limit}");
    }
}

/// Fails when a bucket's owner that consented to another view continues without knowing the result of the vote.
#[test]
fn a_bucket_stops_at_the_fence_of_a_vote_whose_end_is_not_known() {
    let limit = bucket(100, 40);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert!(mesh.passes(0, &[charge(key, &limit)]));
    let fence = mesh.now.saturating_add(std::time::Duration::from_millis(800));
    let head = mesh.nodes[0].view().expect("seated").clone();
    let more = Member::new(NodeId::new("n900"), 1);
    let round = Round { number: 1, proposer: head.members()[1].id.clone() };
    let next =
        View::new(Some(head.as_base()), fence, round, head.members().iter().cloned().chain([more]), []);
    let (now, peers) = (mesh.now, mesh.nodes[0].peers.clone());
    mesh.nodes[0].council.on_motion(now, &peers, next, (2, 0, 0));
    mesh.cut = vec![0];
    let mut passed = Vec::new();
    for round in 0..200 {
        mesh.tick(10);
        if let Ok(verdicts) = mesh.ask(0, &[charge(key, &limit)])
            && verdicts.committed
            && mesh.now >= fence
        {
            passed.push(round);
        }
    }
    assert_eq!(passed, Vec::<i32>::new(), "it goes on after the fence");
}
