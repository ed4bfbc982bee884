//! One member of three and the messages sent to it: by peers that lie, and by members that died since.

use super::world::{World, name, options};
use super::*;
use crate::owner::NodeId;

/// Three members and what one of them sends to another.
struct Court {
    victim: Council,
    peers: Peers,
    liar: Member,
    now: Timestamp,
}

impl Court {
    fn new() -> Self {
        let mut world = World::grown(1, 0, 3);
        let now = Timestamp::from_nanos(world.now);
        let liar = world.seats[&name(2)].council.me.clone();
        let seat = world.seats.remove(&name(0)).unwrap();
        let now = now.max(Timestamp::from_nanos(world.now.saturating_add_signed(seat.skew)));
        Self { victim: seat.council, peers: seat.peers, liar, now }
    }

    fn tell(&mut self, root: Root, views: Vec<View>) -> bool {
        let chain = Chain::told(root, views).unwrap();
        self.peers.hear(&self.liar, self.now, Some(chain.head().id()), false);
        self.victim.hear_chain(self.now, &self.peers, chain)
    }
}

/// Fails when every chain that follows is adopted, the older mesh wins whatever its followers, or votes of
/// others are accepted (as first written, all of them).
#[test]
fn one_peer_that_lies_gives_a_node_no_view_that_the_others_do_not_have() {
    let mut court = Court::new();
    let head = View::clone(court.victim.head().unwrap());
    let root = court.victim.root().unwrap().clone();
    let (me, liar) = (court.victim.me.clone(), court.liar.clone());
    let strangers = (0..90).map(|index| Member::new(NodeId::new(format!("x{index}")), 1));
    let lists: Vec<Vec<Member>> = vec![
        vec![me.clone()],
        vec![me.clone(), liar.clone()],
        vec![liar.clone()],
        [me.clone(), liar.clone()].into_iter().chain(strangers).collect(),
    ];
    let round = Round { number: 1, proposer: liar.id.clone() };
    let soon = court.now.saturating_add(options().fence_lead);
    for members in lists {
        // Another mesh, older than this one.
        let view = View::new(None, Timestamp::EPOCH, round.clone(), members.clone(), []);
        let older = Root { founded: Timestamp::EPOCH, id: view.id() };
        assert!(!court.tell(older, vec![view]), "{members:?}");
        // The next view of this mesh, and one far ahead.
        let gone = head.members.iter().filter(|member| **member != me && **member != liar).cloned();
        let next = View::new(Some(head.as_base()), soon, round.clone(), members.clone(), gone);
        assert!(members == [liar.clone()] || !court.tell(root.clone(), vec![next.clone()]), "{members:?}");
        // The same as a vote with forged votes of all others.
        court.victim.hear_motion(court.now, &court.peers, &liar, next, (u128::MAX, u128::MAX, 0));
        let honest = View::new(Some(head.as_base()), soon, round.clone(), members, []);
        court.victim.hear_motion(court.now, &court.peers, &liar, honest, (u128::MAX, u128::MAX, 0));
    }
    assert_eq!(court.victim.head().unwrap().id(), head.id());
    assert_eq!(court.victim.upheavals, 0);
    assert_eq!(court.victim.overlaps, 4, "each of the other meshes is counted, once");
}

/// A node without a vote on a view receives it when it is agreed, from the nodes it receives frames from.
///
/// Fails when a motion that declares all others dead is carried out by them (as first written).
#[test]
fn one_voter_alone_takes_no_mesh_by_calling_the_others_dead() {
    for is_guest in [false, true] {
        for fence_ahead in [options().fence_lead, Duration::MAX] {
            let mut court = Court::new();
            let head = View::clone(court.victim.head().unwrap());
            if is_guest {
                court.victim.me = Member::new(NodeId::new("z"), 1);
            }
            let (me, liar) = (court.victim.me.clone(), court.liar.clone());
            let others: Vec<Member> =
                head.members.iter().filter(|member| **member != liar).cloned().collect();
            let round = Round { number: 1, proposer: liar.id.clone() };
            let fence = court.now.saturating_add(fence_ahead);
            for members in [vec![liar.clone()], vec![liar.clone(), me]] {
                let view = View::new(Some(head.as_base()), fence, round.clone(), members, others.clone());
                let votes = (u128::MAX, u128::MAX, 0);
                court.victim.hear_motion(court.now, &court.peers, &liar, view.clone(), votes);
                court.victim.hear_vote(court.now, &court.peers, &liar, view.id(), votes);
                court.victim.on_tick(court.now, &court.peers);
            }
            assert_eq!(court.victim.head().unwrap().id(), head.id());
            assert_eq!(court.victim.overlaps, 0);
        }
    }
}

/// The dead member may have carried out the vote that hung on it, and begun windows.
///
/// Fails when windows begin from the fence of an abandoned vote on, or an abandoned vote is carried out all the
/// same.
#[test]
fn an_abandoned_vote_is_not_carried_out_and_its_windows_begin_nowhere() {
    let mut court = Court::new();
    let head = View::clone(court.victim.head().unwrap());
    let (me, living) = (court.victim.me.clone(), court.liar.clone());
    let dead = head.members.iter().find(|member| **member != me && **member != living).unwrap().clone();
    let all: Vec<NodeId> = head.members.iter().map(|member| member.id.clone()).collect();
    let round = |number| Round { number, proposer: dead.id.clone() };
    let proposed = |fence, number, members: Vec<Member>, gone: Vec<Member>| {
        View::new(Some(head.as_base()), fence, round(number), members, gone)
    };
    let yes = (u128::MAX, 0, 0);
    let first_fence = court.now.saturating_add(Duration::from_secs(2));
    let guest = Member::new(NodeId::new("z"), 1);
    let first = proposed(first_fence, 5, head.members.iter().cloned().chain([guest]).collect(), vec![]);
    court.peers.discover(all.clone());
    court.victim.hear_motion(court.now, &court.peers, &dead, first.clone(), yes);
    court.victim.hear_motion(court.now, &court.peers, &living, first.clone(), yes);
    assert_eq!(court.victim.motions()[0].seen.count_ones(), 1, "it has seen that all consent");
    // The others do not know that: one of them stopped waiting, the other is dead.
    court.victim.hear_motion(court.now, &court.peers, &living, first.clone(), (u128::MAX, 0, u128::MAX));
    let later = court.now.saturating_add(Duration::from_secs(4));
    court.peers.hear(&living, later, Some(head.id()), false);
    court.peers.discover(all.into_iter().filter(|id| *id != dead.id));
    let second_fence = later.saturating_add(Duration::from_secs(2));
    let second = proposed(second_fence, 6, vec![me.clone(), living.clone()], vec![dead.clone()]);
    court.victim.hear_motion(later, &court.peers, &living, second.clone(), yes);
    assert_eq!(court.victim.bound.len(), 2);
    // A delayed message of the dead member: with it more than half have seen the first motion.
    court.victim.hear_motion(later, &court.peers, &dead, first, (u128::MAX, u128::MAX, 0));
    assert_eq!(court.victim.head().unwrap().id(), head.id());
    court.victim.hear_motion(later, &court.peers, &living, second.clone(), (u128::MAX, u128::MAX, 0));
    assert_eq!(court.victim.head().unwrap().id(), second.id());
    // No tick since: the present clocks of the others are not tested here.
    court.victim.horizon = None;
    let before = Timestamp::from_nanos(first_fence.as_nanos() - 1);
    assert!(matches!(court.victim.begin(before), Begun::In(view) if view.id() == head.id()));
    assert_eq!(court.victim.begin(first_fence), Begun::Unknown);
    assert_eq!(court.victim.begin(Timestamp::from_nanos(second_fence.as_nanos() - 1)), Begun::Unknown);
    assert!(matches!(court.victim.begin(second_fence), Begun::In(view) if view.id() == second.id()));
}

/// Fails when only agreed fences are checked (as first written): a bucket's owner went on past the fence it had
/// consented to.
#[test]
fn what_holds_now_is_looked_at_again_at_the_fence_of_an_open_vote() {
    let mut court = Court::new();
    let head = View::clone(court.victim.head().unwrap());
    let fence = court.now.saturating_add(options().fence_lead);
    let guest = Member::new(NodeId::new("z"), 1);
    let members = head.members.iter().cloned().chain([guest]);
    let round = Round { number: 9, proposer: court.liar.id.clone() };
    let view = View::new(Some(head.as_base()), fence, round, members, []);
    let version = court.victim.version;
    assert!(court.victim.hear_motion(court.now, &court.peers, &court.liar, view, (u128::MAX, 0, 0)));
    assert!(court.victim.version > version);
    // The others' clocks differ a little, and are not tested here.
    court.victim.lead = 0;
    assert_eq!(court.victim.stays_until(court.now), fence);
    assert!(court.victim.settled(fence).is_none() && court.victim.settled(court.now).is_some());
}

/// The votes of the dead member are not all known, and a newcomer may have received more from it.
///
/// Fails when newcomers are not asked, or one that follows the first vote's view is ignored.
#[test]
fn a_vote_is_not_abandoned_before_the_newcomers_in_it_are_heard() {
    let mut court = Court::new();
    let head = View::clone(court.victim.head().unwrap());
    let (me, living) = (court.victim.me.clone(), court.liar.clone());
    let dead = head.members.iter().find(|member| **member != me && **member != living).unwrap().clone();
    let all: Vec<NodeId> = head.members.iter().map(|member| member.id.clone()).collect();
    court.peers.discover(all.clone());
    let guest = Member::new(NodeId::new("z"), 1);
    let fence = court.now.saturating_add(options().fence_lead);
    let round = Round { number: 5, proposer: dead.id.clone() };
    let members = head.members.iter().cloned().chain([guest.clone()]);
    let first = View::new(Some(head.as_base()), fence, round, members, []);
    for voter in [&dead, &living] {
        court.victim.hear_motion(court.now, &court.peers, voter, first.clone(), (u128::MAX, 0, 0));
    }
    court.victim.hear_motion(court.now, &court.peers, &living, first.clone(), (u128::MAX, 0, u128::MAX));
    let later = court.now.saturating_add(Duration::from_secs(4));
    court.peers.hear(&living, later, Some(head.id()), false);
    court.peers.discover(all.into_iter().filter(|id| *id != dead.id));
    assert!(!court.victim.propose(later, &court.peers), "the newcomer is not heard");
    court.peers.hear(&guest, later, Some(first.id()), false);
    assert!(!court.victim.propose(later, &court.peers), "the newcomer follows the first one");
    court.peers.hear(&guest, later, Some(head.id()), false);
    assert!(court.victim.propose(later, &court.peers));
    assert_eq!(court.victim.bound.len(), 2);
}

/// Fails when the next attempt is immediate.
#[test]
fn a_vote_that_came_to_nothing_is_followed_by_a_rest() {
    let mut court = Court::new();
    let head = View::clone(court.victim.head().unwrap());
    let guest = Member::new(NodeId::new("z"), 1);
    court.peers.hear(&guest, court.now, Some(head.id()), false);
    assert!(court.victim.propose(court.now, &court.peers));
    let view = court.victim.motions()[0].view.clone();
    let me = court.victim.me.clone();
    for voter in head.members.iter().filter(|member| **member != me) {
        court.victim.hear_motion(court.now, &court.peers, voter, view.clone(), (0, 0, u128::MAX));
    }
    assert!(court.victim.bound.is_empty());
    assert!(!court.victim.propose(court.now, &court.peers));
    let later = court.now.saturating_add(options().stagger);
    for peer in head.members.iter().chain([&guest]).filter(|member| **member != me) {
        court.peers.hear(peer, later, Some(head.id()), false);
    }
    assert!(court.victim.propose(later, &court.peers));
}
