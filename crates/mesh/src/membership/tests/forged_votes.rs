//! One member of three and the messages sent to it: by peers that lie, and by members that died since.

use super::network::{World, name, options};
use super::*;
use crate::view::NodeId;

/// Three members and what one of them sends to another.
struct ForgerySetup {
    victim: Membership,
    peers: Peers,
    liar: Member,
    now: Timestamp,
}

impl ForgerySetup {
    fn new() -> Self {
        let mut world = World::grown(1, 0, 3);
        let now = Timestamp::from_nanos(world.now);
        let liar = world.participants[&name(2)].membership.me.clone();
        let participant = world.participants.remove(&name(0)).unwrap();
        let now = now.max(Timestamp::from_nanos(world.now.saturating_add_signed(participant.skew)));
        Self { victim: participant.membership, peers: participant.peers, liar, now }
    }

    fn send(&mut self, root: Root, views: Vec<View>) -> bool {
        let view_log = ViewLog::received(root, views).unwrap();
        self.peers.hear(&self.liar, self.now, Some(view_log.head().id()), false);
        self.victim.receive_view_log(self.now, &self.peers, view_log)
    }
}

/// Fails when every view log that follows is adopted, the older mesh wins whatever its followers, or votes of
/// others are accepted (as first written, all of them).
#[test]
fn lying_peer_cannot_impose_a_view() {
    let mut setup = ForgerySetup::new();
    let head = View::clone(setup.victim.head().unwrap());
    let root = setup.victim.root().unwrap().clone();
    let (me, liar) = (setup.victim.me.clone(), setup.liar.clone());
    let strangers = (0..90).map(|index| Member::new(NodeId::new(format!("x{index}")), 1));
    let lists: Vec<Vec<Member>> = vec![
        vec![me.clone()],
        vec![me.clone(), liar.clone()],
        vec![liar.clone()],
        [me.clone(), liar.clone()].into_iter().chain(strangers).collect(),
    ];
    let round = Round { number: 1, proposer: liar.id.clone() };
    let soon = setup.now.saturating_add(options().view_lead);
    for members in lists {
        // Another mesh, older than this one.
        let view = View::new(None, Timestamp::EPOCH, round.clone(), members.clone(), []);
        let older = Root { founded: Timestamp::EPOCH, id: view.id() };
        assert!(!setup.send(older, vec![view]), "{members:?}");
        // The next view of this mesh, and one far ahead.
        let gone = head.members.iter().filter(|member| **member != me && **member != liar).cloned();
        let next = View::new(Some(head.as_base()), soon, round.clone(), members.clone(), gone);
        assert!(members == [liar.clone()] || !setup.send(root.clone(), vec![next.clone()]), "{members:?}");
        // The same as a vote with forged votes of all others.
        setup.victim.receive_proposal(setup.now, &setup.peers, &liar, next, (u128::MAX, u128::MAX, 0));
        let honest = View::new(Some(head.as_base()), soon, round.clone(), members, []);
        setup.victim.receive_proposal(setup.now, &setup.peers, &liar, honest, (u128::MAX, u128::MAX, 0));
    }
    assert_eq!(setup.victim.head().unwrap().id(), head.id());
    assert_eq!(setup.victim.upheavals, 0);
    assert_eq!(setup.victim.overlaps, 4, "each of the other meshes is counted, once");
}

/// A node without a vote on a view receives it when it is agreed, from the nodes it receives frames from.
///
/// Fails when a proposal that declares all others dead is carried out by them (as first written).
#[test]
fn single_voter_cannot_declare_the_others_dead() {
    for is_observer in [false, true] {
        for lead in [options().view_lead, Duration::MAX] {
            let mut setup = ForgerySetup::new();
            let head = View::clone(setup.victim.head().unwrap());
            if is_observer {
                setup.victim.me = Member::new(NodeId::new("z"), 1);
            }
            let (me, liar) = (setup.victim.me.clone(), setup.liar.clone());
            let others: Vec<Member> =
                head.members.iter().filter(|member| **member != liar).cloned().collect();
            let round = Round { number: 1, proposer: liar.id.clone() };
            let effective_at = setup.now.saturating_add(lead);
            for members in [vec![liar.clone()], vec![liar.clone(), me]] {
                let view =
                    View::new(Some(head.as_base()), effective_at, round.clone(), members, others.clone());
                let votes = (u128::MAX, u128::MAX, 0);
                setup.victim.receive_proposal(setup.now, &setup.peers, &liar, view.clone(), votes);
                setup.victim.receive_vote(setup.now, &setup.peers, &liar, view.id(), votes);
                setup.victim.on_tick(setup.now, &setup.peers);
            }
            assert_eq!(setup.victim.head().unwrap().id(), head.id());
            assert_eq!(setup.victim.overlaps, 0);
        }
    }
}

/// The dead member may have carried out the vote that hung on it, and begun windows.
///
/// Fails when windows begin in the view of an abandoned vote, or an abandoned vote is carried out all the same.
#[test]
fn abandoned_vote_begins_no_windows() {
    let mut setup = ForgerySetup::new();
    let head = View::clone(setup.victim.head().unwrap());
    let (me, living) = (setup.victim.me.clone(), setup.liar.clone());
    let dead = head.members.iter().find(|member| **member != me && **member != living).unwrap().clone();
    let all: Vec<NodeId> = head.members.iter().map(|member| member.id.clone()).collect();
    let round = |number| Round { number, proposer: dead.id.clone() };
    let proposed = |effective_at, number, members: Vec<Member>, gone: Vec<Member>| {
        View::new(Some(head.as_base()), effective_at, round(number), members, gone)
    };
    let yes = (u128::MAX, 0, 0);
    let first_effective_at = setup.now.saturating_add(Duration::from_secs(2));
    let observer = Member::new(NodeId::new("z"), 1);
    let first =
        proposed(first_effective_at, 5, head.members.iter().cloned().chain([observer]).collect(), vec![]);
    setup.peers.discover(all.clone());
    setup.victim.receive_proposal(setup.now, &setup.peers, &dead, first.clone(), yes);
    setup.victim.receive_proposal(setup.now, &setup.peers, &living, first.clone(), yes);
    assert_eq!(setup.victim.proposals()[0].seen.count_ones(), 1, "it has seen that all consent");
    // The others do not know that: one of them stopped waiting, the other is dead.
    setup.victim.receive_proposal(setup.now, &setup.peers, &living, first.clone(), (u128::MAX, 0, u128::MAX));
    let later = setup.now.saturating_add(Duration::from_secs(4));
    setup.peers.hear(&living, later, Some(head.id()), false);
    setup.peers.discover(all.into_iter().filter(|id| *id != dead.id));
    let second_effective_at = later.saturating_add(Duration::from_secs(2));
    let second = proposed(second_effective_at, 6, vec![me.clone(), living.clone()], vec![dead.clone()]);
    setup.victim.receive_proposal(later, &setup.peers, &living, second.clone(), yes);
    assert_eq!(setup.victim.bound.len(), 2);
    // A delayed message of the dead member: with it more than half have seen the first proposal.
    setup.victim.receive_proposal(later, &setup.peers, &dead, first, (u128::MAX, u128::MAX, 0));
    assert_eq!(setup.victim.head().unwrap().id(), head.id());
    setup.victim.receive_proposal(later, &setup.peers, &living, second.clone(), (u128::MAX, u128::MAX, 0));
    assert_eq!(setup.victim.head().unwrap().id(), second.id());
    // No tick since: the present clocks of the others are not tested here.
    setup.victim.horizon = None;
    let before = Timestamp::from_nanos(first_effective_at.as_nanos() - 1);
    assert!(matches!(setup.victim.begin(before), WindowView::In(view) if view.id() == head.id()));
    assert_eq!(setup.victim.begin(first_effective_at), WindowView::Unknown);
    assert_eq!(
        setup.victim.begin(Timestamp::from_nanos(second_effective_at.as_nanos() - 1)),
        WindowView::Unknown
    );
    assert!(
        matches!(setup.victim.begin(second_effective_at), WindowView::In(view) if view.id() == second.id())
    );
}

/// Fails when only agreed views are checked (as first written): a bucket's owner went on after the time of a view that
/// it had consented to.
#[test]
fn active_view_is_rechecked_when_an_open_vote_is_due() {
    let mut setup = ForgerySetup::new();
    let head = View::clone(setup.victim.head().unwrap());
    let effective_at = setup.now.saturating_add(options().view_lead);
    let observer = Member::new(NodeId::new("z"), 1);
    let members = head.members.iter().cloned().chain([observer]);
    let round = Round { number: 9, proposer: setup.liar.id.clone() };
    let view = View::new(Some(head.as_base()), effective_at, round, members, []);
    let version = setup.victim.version;
    assert!(setup.victim.receive_proposal(setup.now, &setup.peers, &setup.liar, view, (u128::MAX, 0, 0)));
    assert!(setup.victim.version > version);
    // The others' clocks differ a little, and are not tested here.
    setup.victim.lead = 0;
    assert_eq!(setup.victim.stays_until(setup.now), effective_at);
    assert!(setup.victim.settled(effective_at).is_none() && setup.victim.settled(setup.now).is_some());
}

/// The votes of the dead member are not all known, and a newcomer may have received more from it.
///
/// Fails when newcomers are not asked, or one that follows the first vote's view is ignored.
#[test]
fn vote_is_not_abandoned_before_newcomers_are_heard() {
    let mut setup = ForgerySetup::new();
    let head = View::clone(setup.victim.head().unwrap());
    let (me, living) = (setup.victim.me.clone(), setup.liar.clone());
    let dead = head.members.iter().find(|member| **member != me && **member != living).unwrap().clone();
    let all: Vec<NodeId> = head.members.iter().map(|member| member.id.clone()).collect();
    setup.peers.discover(all.clone());
    let observer = Member::new(NodeId::new("z"), 1);
    let effective_at = setup.now.saturating_add(options().view_lead);
    let round = Round { number: 5, proposer: dead.id.clone() };
    let members = head.members.iter().cloned().chain([observer.clone()]);
    let first = View::new(Some(head.as_base()), effective_at, round, members, []);
    for voter in [&dead, &living] {
        setup.victim.receive_proposal(setup.now, &setup.peers, voter, first.clone(), (u128::MAX, 0, 0));
    }
    setup.victim.receive_proposal(setup.now, &setup.peers, &living, first.clone(), (u128::MAX, 0, u128::MAX));
    let later = setup.now.saturating_add(Duration::from_secs(4));
    setup.peers.hear(&living, later, Some(head.id()), false);
    setup.peers.discover(all.into_iter().filter(|id| *id != dead.id));
    assert!(!setup.victim.propose(later, &setup.peers), "the newcomer is not heard");
    setup.peers.hear(&observer, later, Some(first.id()), false);
    assert!(!setup.victim.propose(later, &setup.peers), "the newcomer follows the first one");
    setup.peers.hear(&observer, later, Some(head.id()), false);
    assert!(setup.victim.propose(later, &setup.peers));
    assert_eq!(setup.victim.bound.len(), 2);
}

/// Fails when the next attempt is immediate.
#[test]
fn failed_vote_is_followed_by_a_pause() {
    let mut setup = ForgerySetup::new();
    let head = View::clone(setup.victim.head().unwrap());
    let observer = Member::new(NodeId::new("z"), 1);
    setup.peers.hear(&observer, setup.now, Some(head.id()), false);
    assert!(setup.victim.propose(setup.now, &setup.peers));
    let view = setup.victim.proposals()[0].view.clone();
    let me = setup.victim.me.clone();
    for voter in head.members.iter().filter(|member| **member != me) {
        setup.victim.receive_proposal(setup.now, &setup.peers, voter, view.clone(), (0, 0, u128::MAX));
    }
    assert!(setup.victim.bound.is_empty());
    assert!(!setup.victim.propose(setup.now, &setup.peers));
    let later = setup.now.saturating_add(options().stagger);
    for peer in head.members.iter().chain([&observer]).filter(|member| **member != me) {
        setup.peers.hear(peer, later, Some(head.id()), false);
    }
    assert!(setup.victim.propose(later, &setup.peers));
}
