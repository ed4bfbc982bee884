//! Views between whole nodes, frame by frame: frame sizes, forgotten nodes, leavers, and generations whose
//! number is too small.

use super::super::*;
use crate::frame::Header;
use crate::frame::codec::Encoder;
use crate::frame::interner::SendInterner;
use crate::view::Round;
use crate::view::view_log::ViewLog;
use std::time::Duration;

mod earlier_holdings;
mod long_names;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn after(millis: u64) -> Timestamp {
    START.saturating_add(Duration::from_millis(millis))
}

fn node(name: &str, generation: u64) -> Node {
    Node::new(NodeId::new(name), generation, MeshOptions::default(), START)
}

/// Lets time pass in steps of 10 ms; frames arrive at once if `passes` returns true.
fn run(nodes: &mut [Node], from: u64, to: u64, passes: impl Fn(&NodeId, &NodeId) -> bool) {
    for millis in (from..to).step_by(10) {
        let now = after(millis);
        let mut mail = Vec::new();
        for node in nodes.iter_mut() {
            node.on_tick(now);
        }
        loop {
            for node in nodes.iter_mut() {
                let me = node.member().id.clone();
                for output in node.outputs() {
                    if let Output::Send { to, frame, .. } = output {
                        mail.push((me.clone(), to, frame));
                    }
                }
            }
            if mail.is_empty() {
                break;
            }
            for (from, to, frame) in mail.drain(..).filter(|(from, to, _)| passes(from, to)) {
                if let Some(node) = nodes.iter_mut().find(|node| node.member().id == to) {
                    node.on_frame(now, &from, &frame);
                }
            }
        }
    }
}

fn meet_all(nodes: &mut [Node]) {
    let names: Vec<NodeId> = nodes.iter().map(|node| node.member().id.clone()).collect();
    for node in nodes {
        for name in &names {
            node.meet(name.clone());
        }
    }
}

/// Fails when peers and links are never removed (as first written: the 513th is not heard).
#[test]
fn departed_names_leave_room_for_others() {
    for has_discovery in [true, false] {
        let mut old = node("old", 1);
        old.found(START);
        let step = if has_discovery { 1 } else { 10 };
        for index in 0..600 {
            let mut pod = node(&format!("pod-{index}"), 1);
            pod.meet(NodeId::new("old"));
            if has_discovery {
                old.discover([old.member().id.clone(), pod.member().id.clone()]);
            }
            // Observers only: it never receives the old node's frames, so it never has its views.
            for second in 0..2 {
                let now = after((index * 2 + second) * step * 1_000);
                pod.on_tick(now);
                let frames: Vec<_> = pod.outputs().collect();
                for output in frames {
                    let Output::Send { frame, .. } = output else { continue };
                    old.on_frame(now, &pod.member().id.clone(), &frame);
                }
                old.on_tick(now);
                drop(old.outputs());
            }
            let now = after(index * 2 * step * 1_000);
            let ages = old.standing(now).ages;
            assert!(ages.iter().any(|(id, _)| *id == pod.member().id), "pod-{index} is not heard");
        }
        assert!(old.links.len() < 150, "{} links", old.links.len());
    }
}

/// Fails when `has_left` waits for a view without this node (as first written).
#[test]
fn last_members_to_leave_have_left() {
    for count in [1, 3] {
        let mut nodes: Vec<Node> = ["a", "b", "c"].iter().take(count).map(|name| node(name, 1)).collect();
        meet_all(&mut nodes);
        nodes[0].found(START);
        run(&mut nodes, 0, 6_000, |_, _| true);
        assert!(nodes.iter().all(|node| node.standing(after(6_000)).is_member));
        assert!(nodes.iter().all(|node| !node.has_left(after(6_000))));
        nodes.iter_mut().for_each(Node::leave);
        run(&mut nodes, 6_000, 10_000, |_, _| true);
        assert!(nodes.iter().all(|node| node.has_left(after(10_000))), "of {count}");
    }
}

/// Its clock was set back before it restarted, so its number is smaller than that of its last generation.
///
/// Fails when it is not informed, and waits forever (as first written).
#[test]
fn generation_that_is_too_small_takes_a_larger_one() {
    let mut nodes = vec![node("a", 5), node("b", 1_000)];
    meet_all(&mut nodes);
    nodes[0].found(START);
    run(&mut nodes, 0, 6_000, |_, _| true);
    assert!(nodes[1].standing(after(6_000)).is_member);
    nodes[1] = Node::new(NodeId::new("b"), 7, MeshOptions::default(), after(6_000));
    nodes[1].meet(NodeId::new("a"));
    run(&mut nodes, 6_000, 14_000, |_, _| true);
    assert_eq!(nodes[1].member().generation, Generation(1_001));
    assert!(nodes[1].standing(after(14_000)).is_member);
    // Another process of the same name learns of it, and the two do not outbid each other forever.
    let mut third = Node::new(NodeId::new("b"), 8, MeshOptions::default(), after(14_000));
    third.renewed = true;
    third.meet(NodeId::new("a"));
    third.on_tick(after(14_000));
    let mut send_interner = SendInterner::default();
    let header = Header {
        rules: 0,
        generation: Generation(5),
        time: after(14_000),
        head: None,
        leaving: false,
        interner: 0,
        known: 0,
        known_of: 0,
        to: Generation(1_001),
        echo: None,
        slew_us: 0,
    };
    third.on_frame(after(14_000), &NodeId::new("a"), &Encoder::new(&header, &mut send_interner).finish());
    assert_eq!(third.standing(after(14_000)).outdated_by, Some(Generation(1_001)));
    assert_eq!(third.member().generation, Generation(8));
}

/// Fails when every heard peer counts as reachable (as first written).
#[test]
fn peer_that_receives_no_frames_is_unreachable() {
    let mut nodes = vec![node("a", 1), node("b", 1)];
    meet_all(&mut nodes);
    nodes[0].found(START);
    run(&mut nodes, 0, 4_000, |_, _| true);
    let peer = nodes[1].member().clone();
    assert!(nodes[0].peers.is_reachable(&peer, after(4_000)));
    run(&mut nodes, 4_000, 6_000, |from, _| from.as_str() == "b");
    assert!(nodes[0].peers.is_heard(&peer, after(6_000)), "it is heard");
    assert!(!nodes[0].peers.is_reachable(&peer, after(6_000)), "and hears nothing");
    run(&mut nodes, 6_000, 7_000, |_, _| true);
    assert!(nodes[0].peers.is_reachable(&peer, after(7_000)));
}

/// Fails when the last frame to arrive counts as the newest (as first written).
#[test]
fn overtaken_frame_only_shows_that_its_sender_is_alive() {
    let mut peers = Peers::new(Duration::from_millis(500), 9);
    let from = NodeId::new("a");
    let header = |millis: u64, head: u64, leaving: bool| Header {
        rules: 0,
        generation: Generation(1),
        time: after(millis),
        head: Some(crate::view::ViewId(head)),
        leaving,
        interner: 0,
        known: 0,
        known_of: 0,
        to: Generation(1),
        echo: None,
        slew_us: 0,
    };
    assert!(peers.record_frame(&from, after(100), &header(90, 2, true)));
    assert!(peers.record_frame(&from, after(110), &header(50, 1, false)));
    let peer = peers.get(&from).unwrap();
    assert_eq!((peer.head, peer.leaving), (Some(crate::view::ViewId(2)), true));
    assert_eq!(peer.heard, after(110));
    // A clock that was set back is not a frame that was overtaken.
    assert!(peers.record_frame(&from, after(120), &header(0, 1, false)) && START == after(0));
    let early = Header { time: Timestamp::from_millis(5), ..header(0, 3, false) };
    assert!(peers.record_frame(&from, after(130), &early));
    assert_eq!(peers.get(&from).unwrap().head, Some(crate::view::ViewId(3)));
}

/// Fails when a list without this node is accepted.
#[test]
fn discovery_list_without_this_node_is_ignored() {
    let mut one = node("a", 1);
    let other = Member::new(NodeId::new("b"), 1);
    one.discover(["a", "b"].map(NodeId::new));
    one.discover([]);
    one.discover([NodeId::new("c")]);
    assert!(!one.peers.is_dead(&other, after(60_000), Duration::from_secs(3)));
    one.discover([NodeId::new("a")]);
    assert!(one.peers.is_dead(&other, after(60_000), Duration::from_secs(3)));
}

/// The frames of one join, of all nodes together.
fn frames_of_a_join(count: u64) -> usize {
    let mut nodes: Vec<Node> = (0..=count).map(|index| node(&format!("n{index:03}"), 1)).collect();
    let members: Vec<Member> = nodes.iter().take(nodes.len() - 1).map(|node| node.member().clone()).collect();
    let round = Round { number: 1, proposer: members[0].id.clone() };
    let view_log = ViewLog::founded(View::new(None, Timestamp::EPOCH, round, members.clone(), []), START);
    for node in nodes.iter_mut().rev().skip(1) {
        node.join_view(view_log.clone(), &members, START);
    }
    meet_all(&mut nodes);
    let sent = std::cell::Cell::new(0);
    run(&mut nodes, 0, 400, |_, _| {
        sent.set(sent.get() + 1);
        true
    });
    assert!(
        nodes.iter().all(|node| node.view().is_some_and(|view| view.members().len() as u64 == count + 1))
    );
    sent.get()
}

/// Fails when every received vote is forwarded to all nodes (as first written).
#[test]
fn frames_of_a_vote_grow_with_the_square_of_members() {
    let (ten, forty) = (frames_of_a_join(10), frames_of_a_join(40));
    // Sixteen times as many pairs; cubic growth would be 64 times.
    assert!(forty < 20 * ten, "{ten} frames for 10, {forty} for 40");
    assert!(forty < 12 * 40 * 40, "{forty} frames for 40");
}
