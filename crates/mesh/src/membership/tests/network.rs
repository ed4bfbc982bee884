//! Members over a faulty network: they exchange their state in random order. Without codec and allowance, so
//! that thousands of schedules fit into a second.

use super::*;
use crate::frame::Header;
use crate::testing::Random;
use crate::view::Generation;
use crate::view::NodeId;
use crate::view::proposal::Votes;
use std::collections::BTreeMap;

pub(super) const MS: u64 = 1_000_000;

#[derive(Clone)]
enum Message {
    Beat { head: Option<ViewId>, leaving: bool, time: Timestamp },
    Proposal(View, Votes),
    ViewLog(ViewLog),
}

pub(super) struct Participant {
    pub(super) membership: Membership,
    pub(super) peers: Peers,
    pub(super) alive: bool,
    /// The error of its clock.
    pub(super) skew: i64,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) participants: BTreeMap<NodeId, Participant>,
    /// (when, to, from, what), unordered: the earliest one is delivered.
    mail: Vec<(u64, NodeId, Member, Message)>,
    pub(super) loss: u64,
    pub(super) cut: Option<(Vec<NodeId>, bool)>,
    /// Whether a node that starts now founds a mesh if it finds none.
    pub(super) founding: bool,
    pub(super) checked: bool,
    /// The names that discovery lists for a node that starts.
    pub(super) listed: Vec<NodeId>,
    /// For each start of a window, the view that a member of it began it in.
    begun: BTreeMap<u64, (ViewId, NodeId)>,
}

pub(super) fn options() -> MembershipOptions {
    MembershipOptions { found_after: Some(Duration::from_millis(800)), ..MembershipOptions::default() }
}

pub(super) fn name(index: u64) -> NodeId {
    NodeId::new(format!("n{index}"))
}

impl World {
    pub(super) fn new(seed: u64, loss: u64) -> Self {
        let random = Random::new(seed);
        Self {
            random,
            now: 1_000_000 * MS,
            participants: BTreeMap::new(),
            mail: vec![],
            loss,
            cut: None,
            founding: true,
            checked: true,
            listed: (0..9).map(name).collect(),
            begun: BTreeMap::new(),
        }
    }

    pub(super) fn start(&mut self, id: &NodeId) {
        let skew = i64::try_from(self.random.below(400 * MS)).unwrap() - 200_000_000;
        let now = Timestamp::from_nanos(self.now.saturating_add_signed(skew));
        let member = Member::new(id.clone(), self.now);
        let mut peers = Peers::new(options().staleness, 100);
        peers.discover(self.listed.iter().cloned());
        let found_after = options().found_after.filter(|_| self.founding);
        let membership = Membership::new(member, MembershipOptions { found_after, ..options() }, now);
        let participant = Participant { membership, peers, alive: true, skew };
        self.participants.insert(id.clone(), participant);
    }

    /// Sets what discovery lists from now on, on all nodes.
    pub(super) fn discovery_knows(&mut self, names: &[NodeId]) {
        for participant in self.participants.values_mut() {
            participant.peers.discover(names.to_vec());
        }
    }

    fn is_cut(&self, from: &NodeId, to: &NodeId) -> bool {
        self.cut.as_ref().is_some_and(|(side, one_way)| {
            let (a, b) = (side.contains(from), side.contains(to));
            if *one_way { a && !b } else { a != b }
        })
    }

    fn enqueue(&mut self, to: &NodeId, from: &Member, message: &Message) {
        let copies = if self.random.chance(100) { 2 } else { 1 };
        for _ in 0..copies {
            if self.random.chance(self.loss) || self.is_cut(&from.id, to) {
                continue;
            }
            let late = if self.random.chance(50) { 600 } else { 40 };
            let at = self.now + 1 + self.random.below(late * MS);
            self.mail.push((at, to.clone(), from.clone(), message.clone()));
        }
    }

    fn tick(&mut self, id: &NodeId) {
        let now_true = self.now;
        let Some(participant) = self.participants.get_mut(id).filter(|participant| participant.alive) else {
            return;
        };
        let now = Timestamp::from_nanos(now_true.saturating_add_signed(participant.skew));
        participant.membership.on_tick(now, &participant.peers);
        let me = participant.membership.me.clone();
        let head = participant.membership.head().map(|head| head.id());
        let mut out: Vec<(NodeId, Message)> = vec![];
        let beat = Message::Beat { head, leaving: participant.membership.leaving, time: now };
        out.extend((0..9).map(name).filter(|to| *to != me.id).map(|to| (to, beat.clone())));
        let behind = participant.membership.carried().filter(|proposal| proposal.votes_of(&me).1 != 0);
        for proposal in participant.membership.proposals().iter().chain(behind) {
            let votes = proposal.votes_of(&me);
            let message = Message::Proposal(proposal.view.clone(), votes);
            out.extend(
                proposal.voters.iter().filter(|to| **to != me).map(|to| (to.id.clone(), message.clone())),
            );
        }
        if let Some(view_log) = participant.membership.view_log() {
            for (to, peer) in participant.peers.iter().filter(|(_, peer)| peer.head != head) {
                let _ = peer;
                out.push((to.clone(), Message::ViewLog(view_log.clone())));
            }
        }
        for (to, message) in out {
            self.enqueue(&to, &me, &message);
        }
        self.begin_windows(id);
    }

    /// Begins the running window of every length: here two views would collide.
    pub(super) fn begin_windows(&mut self, id: &NodeId) {
        let Some(participant) = self.participants.get_mut(id) else { return };
        let now = self.now.saturating_add_signed(participant.skew);
        for period in [300 * MS, 1_000 * MS, 7_000 * MS] {
            let start = now / period * period;
            if let WindowView::In(view) = participant.membership.begin(Timestamp::from_nanos(start))
                && view.has(&participant.membership.me)
                && self.checked
            {
                let (first, by) = self.begun.entry(start).or_insert((view.id(), id.clone()));
                assert_eq!(*first, view.id(), "{id} and {by} begin the window at {start} in two views");
            }
        }
    }

    fn deliver(&mut self, to: &NodeId, from: &Member, message: Message) {
        let now_true = self.now;
        let Some(participant) = self.participants.get_mut(to).filter(|participant| participant.alive) else {
            return;
        };
        let now = Timestamp::from_nanos(now_true.saturating_add_signed(participant.skew));
        match message {
            Message::Beat { head, leaving, time } => {
                let generation = from.generation;
                let header = Header {
                    generation,
                    time,
                    head,
                    leaving,
                    interner: 0,
                    known: 0,
                    known_of: 0,
                    to: Generation(0),
                    echo: None,
                    slew_us: 0,
                    rules: 0,
                };
                if participant.peers.record_frame(&from.id, now, &header) {
                    participant.membership.record_generation(from, header.time);
                }
            }
            Message::Proposal(view, votes) => {
                participant.membership.receive_proposal(now, &participant.peers, from, view, votes);
            }
            Message::ViewLog(view_log) => {
                participant.membership.receive_view_log(now, &participant.peers, view_log);
            }
        }
        self.begin_windows(to);
    }

    pub(super) fn run(&mut self, millis: u64) {
        let end = self.now + millis * MS;
        let mut next_tick: BTreeMap<NodeId, u64> = BTreeMap::new();
        while self.now < end {
            let mail =
                self.mail.iter().enumerate().min_by_key(|(_, mail)| mail.0).map(|(at, mail)| (at, mail.0));
            let names: Vec<NodeId> = self.participants.keys().cloned().collect();
            for id in &names {
                let phase = self.random.below(100 * MS);
                next_tick.entry(id.clone()).or_insert(self.now + phase);
            }
            let tick = next_tick.iter().min_by_key(|(_, at)| **at).map(|(id, at)| (id.clone(), *at));
            match (mail, tick) {
                (Some((index, at)), Some((_, tick_at))) if at <= tick_at => {
                    let (_, to, from, message) = self.mail.swap_remove(index);
                    self.now = self.now.max(at);
                    self.deliver(&to, &from, message);
                }
                (_, Some((id, at))) => {
                    self.now = self.now.max(at);
                    self.tick(&id);
                    next_tick.insert(id, at + 100 * MS);
                }
                _ => return,
            }
        }
    }

    /// Runs without the check: two views may collide here for one window, which is the case under test.
    pub(super) fn run_unchecked(&mut self, millis: u64) {
        self.checked = false;
        self.run(millis);
        self.checked = true;
    }

    pub(super) fn heads(&self) -> Vec<ViewId> {
        let living = self.participants.values().filter(|participant| participant.alive);
        living.filter_map(|participant| participant.membership.head().map(|head| head.id())).collect()
    }

    pub(super) fn members(&self) -> Vec<NodeId> {
        let living = self.participants.values().find(|participant| participant.alive).unwrap();
        living.membership.head().unwrap().members.iter().map(|member| member.id.clone()).collect()
    }

    pub(super) fn overlaps(&self) -> u64 {
        self.participants.values().map(|participant| participant.membership.overlaps).sum()
    }

    pub(super) fn agrees_on(&self, expected: &[u64]) {
        let heads = self.heads();
        assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "they differ: {heads:?}");
        assert_eq!(self.members(), expected.iter().copied().map(name).collect::<Vec<_>>());
        assert_eq!(self.overlaps(), 0);
    }

    /// Nodes 0..count, started one after the other so that one founds and the others join.
    pub(super) fn grown(seed: u64, loss: u64, count: u64) -> Self {
        let mut world = Self::new(seed, loss);
        world.start(&name(0));
        world.run(1_500);
        (1..count).for_each(|index| world.start(&name(index)));
        world.run(6_000);
        world
    }

    /// A node stops without a message.
    pub(super) fn kill(&mut self, id: &NodeId) {
        self.participants.get_mut(id).unwrap().alive = false;
    }

    /// The names of the living nodes.
    pub(super) fn living(&self) -> Vec<NodeId> {
        self.participants
            .iter()
            .filter(|(_, participant)| participant.alive)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// All living nodes follow one view, are not bound to another, and begin windows.
    pub(super) fn goes_on(&mut self, why: &str) {
        let heads = self.heads();
        assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "{why}: they differ: {heads:?}");
        assert_eq!(heads.len(), self.living().len(), "{why}: one knows no view");
        let now = self.now;
        for (id, participant) in self.participants.iter_mut().filter(|(_, participant)| participant.alive) {
            let start = Timestamp::from_nanos(now.saturating_add_signed(participant.skew));
            let begun = participant.membership.begin(start);
            assert!(
                matches!(begun, WindowView::In(_)),
                "{why}: {id} begins no window: {:?}",
                participant.membership
            );
        }
    }
}
