//! Views of many members with long names fit into a frame.

use super::*;
use crate::chain::{Chain, MOST_VIEWS, Root};
use crate::codec::Encoder;
use crate::dictionary::Spoken;
use crate::frame::{Header, Item, LONGEST_FRAME};
use crate::view::Round;

const VIEWS: usize = 16;

/// A hundred members with names of sixty bytes; in each later view some are replaced.
fn long_chain(replaced: usize) -> (Chain, Vec<Member>) {
    let member = |index: usize| Member::new(NodeId::new(format!("{index:060}")), START.as_nanos());
    let round = Round { number: 1, proposer: member(0).id };
    let view = View::new(None, Timestamp::EPOCH, round.clone(), (0..100).map(member), []);
    let mut chain = Chain::founded(view, START);
    for step in 1..VIEWS {
        let members: Vec<Member> = (step * replaced..step * replaced + 100).map(member).collect();
        let fence = Timestamp::from_millis(1_600_000_000_000 + step as u64);
        let view = View::new(Some(chain.head().as_base()), fence, round.clone(), members, []);
        assert!(chain.append(view));
    }
    let members = chain.head().members.to_vec();
    (chain, members)
}

fn frame_of(root: &Root, views: Vec<View>) -> Vec<u8> {
    let header = Header {
        rules: 0,
        generation: Generation(1),
        time: START,
        head: None,
        leaving: false,
        dictionary: 0,
        known: 0,
        known_of: 0,
        to: Generation(1),
        echo: None,
        slew_us: 0,
    };
    let mut spoken = Spoken::default();
    let mut encoder = Encoder::new(&header, &mut spoken);
    encoder.push(&Item::Chain { root: root.clone(), views });
    encoder.finish()
}

/// Fails when each view contains the names of all its members (as first written: 112,000 bytes).
#[test]
fn sixteen_views_of_a_hundred_long_names_fit_into_a_frame() {
    let (chain, _) = long_chain(3);
    let views = chain.lacking(None);
    assert_eq!(views.len(), VIEWS);
    let frame = frame_of(chain.root(), views);
    assert!(frame.len() < 20_000, "{} bytes", frame.len());
    // Of views without common members, as many as fit.
    let (chain, _) = long_chain(100);
    let views = chain.lacking(None);
    assert!(!views.is_empty() && views.len() < VIEWS);
    assert!(frame_of(chain.root(), views).len() < LONGEST_FRAME);
    // A peer that is one view behind receives one.
    let before = chain.iter().rev().nth(1).unwrap().id();
    assert_eq!(chain.lacking(Some(before)).len(), 1);
}

/// Rolling restarts of three nodes, one after the other: a joining node has to know the view in which a long
/// window began.
///
/// Fails with sixteen views (as first written).
#[test]
fn all_views_of_three_nodes_that_are_restarted_forty_times_fit_into_a_frame() {
    let runs = |step: u64| {
        (0..3).map(move |index| Member::new(NodeId::new(format!("hivemind-{index}")), step / 2 + index))
    };
    let round = Round { number: 1, proposer: NodeId::new("hivemind-0") };
    let view = View::new(None, Timestamp::EPOCH, round.clone(), runs(0), []);
    let mut chain = Chain::founded(view, START);
    for step in 1..240 {
        let fence = Timestamp::from_millis(1_600_000_000_000 + step);
        let left = 2 + usize::try_from(step % 2).unwrap();
        let view = View::new(Some(chain.head().as_base()), fence, round.clone(), runs(step).take(left), []);
        assert!(chain.append(view));
    }
    let views = chain.lacking(None);
    assert_eq!(views.len(), 240);
    assert!(240 < MOST_VIEWS && frame_of(chain.root(), views).len() < LONGEST_FRAME);
}

#[test]
fn a_newcomer_to_a_hundred_members_with_long_names_learns_their_views() {
    for replaced in [3, 100] {
        let (chain, members) = long_chain(replaced);
        let mut old = Node::new(members[0].id.clone(), START.as_nanos(), MeshOptions::default(), START);
        old.seat(chain, &members, START);
        let mut nodes = vec![old, node("newcomer", 1)];
        meet_all(&mut nodes);
        run(&mut nodes, 0, 1_000, |_, _| true);
        assert_eq!(nodes[1].view().map(View::id), nodes[0].view().map(View::id));
        assert_eq!(nodes[1].standing(after(1_000)).unreadable, 0);
    }
}
