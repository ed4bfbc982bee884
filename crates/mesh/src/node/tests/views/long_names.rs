//! Views of many members with long names fit into a frame.

use super::*;
use crate::frame::codec::Encoder;
use crate::frame::interner::SendInterner;
use crate::frame::{Header, Item, LONGEST_FRAME};
use crate::view::Round;
use crate::view::view_log::{MOST_VIEWS, Root, ViewLog};

const VIEWS: usize = 16;

/// A hundred members with names of sixty bytes; in each later view some are replaced.
fn long_view_log(replaced: usize) -> (ViewLog, Vec<Member>) {
    let member = |index: usize| Member::new(NodeId::new(format!("{index:060}")), START.as_nanos());
    let round = Round { number: 1, proposer: member(0).id };
    let view = View::new(None, Timestamp::EPOCH, round.clone(), (0..100).map(member), []);
    let mut view_log = ViewLog::founded(view, START);
    for step in 1..VIEWS {
        let members: Vec<Member> = (step * replaced..step * replaced + 100).map(member).collect();
        let effective_at = Timestamp::from_millis(1_600_000_000_000 + step as u64);
        let view = View::new(Some(view_log.head().as_base()), effective_at, round.clone(), members, []);
        assert!(view_log.append(view));
    }
    let members = view_log.head().members.to_vec();
    (view_log, members)
}

fn frame_of(root: &Root, views: Vec<View>) -> Vec<u8> {
    let header = Header {
        rules: 0,
        generation: Generation(1),
        time: START,
        head: None,
        leaving: false,
        interner: 0,
        known: 0,
        known_of: 0,
        to: Generation(1),
        echo: None,
        slew_us: 0,
    };
    let mut send_interner = SendInterner::default();
    let mut encoder = Encoder::new(&header, &mut send_interner);
    encoder.push(&Item::ViewLog { root: root.clone(), views });
    encoder.finish()
}

/// Fails when each view contains the names of all its members (as first written: 112,000 bytes).
#[test]
fn sixteen_views_of_a_hundred_long_names_fit_in_a_frame() {
    let (view_log, _) = long_view_log(3);
    let views = view_log.lacking(None);
    assert_eq!(views.len(), VIEWS);
    let frame = frame_of(view_log.root(), views);
    assert!(frame.len() < 20_000, "{} bytes", frame.len());
    // Of views without common members, as many as fit.
    let (view_log, _) = long_view_log(100);
    let views = view_log.lacking(None);
    assert!(!views.is_empty() && views.len() < VIEWS);
    assert!(frame_of(view_log.root(), views).len() < LONGEST_FRAME);
    // A peer that is one view behind receives one.
    let before = view_log.iter().rev().nth(1).unwrap().id();
    assert_eq!(view_log.lacking(Some(before)).len(), 1);
}

/// Rolling restarts of three nodes, one after the other: a joining node has to know the view in which a long
/// window began.
///
/// Fails with sixteen views (as first written).
#[test]
fn views_of_forty_rolling_restarts_fit_in_a_frame() {
    let runs = |step: u64| {
        (0..3).map(move |index| Member::new(NodeId::new(format!("hivemind-{index}")), step / 2 + index))
    };
    let round = Round { number: 1, proposer: NodeId::new("hivemind-0") };
    let view = View::new(None, Timestamp::EPOCH, round.clone(), runs(0), []);
    let mut view_log = ViewLog::founded(view, START);
    for step in 1..240 {
        let effective_at = Timestamp::from_millis(1_600_000_000_000 + step);
        let left = 2 + usize::try_from(step % 2).unwrap();
        let view = View::new(
            Some(view_log.head().as_base()),
            effective_at,
            round.clone(),
            runs(step).take(left),
            [],
        );
        assert!(view_log.append(view));
    }
    let views = view_log.lacking(None);
    assert_eq!(views.len(), 240);
    assert!(240 < MOST_VIEWS && frame_of(view_log.root(), views).len() < LONGEST_FRAME);
}

#[test]
fn newcomer_learns_views_of_a_hundred_long_names() {
    for replaced in [3, 100] {
        let (view_log, members) = long_view_log(replaced);
        let mut old = Node::new(members[0].id.clone(), START.as_nanos(), MeshOptions::default(), START);
        old.join_view(view_log, &members, START);
        let mut nodes = vec![old, node("newcomer", 1)];
        meet_all(&mut nodes);
        run(&mut nodes, 0, 1_000, |_, _| true);
        assert_eq!(nodes[1].view().map(View::id), nodes[0].view().map(View::id));
        assert_eq!(nodes[1].standing(after(1_000)).unreadable, 0);
    }
}
