//! Councils over a faulty network: they exchange their state in random order. Without codec and allowance, so
//! that thousands of schedules fit into a second.

use super::*;
use crate::frame::Header;
use crate::member::Generation;
use crate::motion::Votes;
use crate::owner::NodeId;
use crate::testing::Random;
use std::collections::BTreeMap;

pub(super) const MS: u64 = 1_000_000;

#[derive(Clone)]
enum Said {
    Beat { head: Option<ViewId>, leaving: bool, time: Timestamp },
    Motion(View, Votes),
    Chain(Chain),
}

pub(super) struct Seat {
    pub(super) council: Council,
    pub(super) peers: Peers,
    pub(super) alive: bool,
    /// The error of its clock.
    pub(super) skew: i64,
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) seats: BTreeMap<NodeId, Seat>,
    /// (when, to, from, what), unordered: the earliest one is delivered.
    mail: Vec<(u64, NodeId, Member, Said)>,
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

pub(super) fn options() -> CouncilOptions {
    CouncilOptions { found_after: Some(Duration::from_millis(800)), ..CouncilOptions::default() }
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
            seats: BTreeMap::new(),
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
        let council = Council::new(member, CouncilOptions { found_after, ..options() }, now);
        let seat = Seat { council, peers, alive: true, skew };
        self.seats.insert(id.clone(), seat);
    }

    /// Sets what discovery lists from now on, on all nodes.
    pub(super) fn discovery_knows(&mut self, names: &[NodeId]) {
        for seat in self.seats.values_mut() {
            seat.peers.discover(names.to_vec());
        }
    }

    fn is_cut(&self, from: &NodeId, to: &NodeId) -> bool {
        self.cut.as_ref().is_some_and(|(side, one_way)| {
            let (a, b) = (side.contains(from), side.contains(to));
            if *one_way { a && !b } else { a != b }
        })
    }

    fn post(&mut self, to: &NodeId, from: &Member, said: &Said) {
        let copies = if self.random.chance(100) { 2 } else { 1 };
        for _ in 0..copies {
            if self.random.chance(self.loss) || self.is_cut(&from.id, to) {
                continue;
            }
            let late = if self.random.chance(50) { 600 } else { 40 };
            let at = self.now + 1 + self.random.below(late * MS);
            self.mail.push((at, to.clone(), from.clone(), said.clone()));
        }
    }

    fn tick(&mut self, id: &NodeId) {
        let now_true = self.now;
        let Some(seat) = self.seats.get_mut(id).filter(|seat| seat.alive) else { return };
        let now = Timestamp::from_nanos(now_true.saturating_add_signed(seat.skew));
        seat.council.on_tick(now, &seat.peers);
        let me = seat.council.me.clone();
        let head = seat.council.head().map(|head| head.id());
        let mut out: Vec<(NodeId, Said)> = vec![];
        let beat = Said::Beat { head, leaving: seat.council.leaving, time: now };
        out.extend((0..9).map(name).filter(|to| *to != me.id).map(|to| (to, beat.clone())));
        let behind = seat.council.carried().filter(|motion| motion.said_by(&me).1 != 0);
        for motion in seat.council.motions().iter().chain(behind) {
            let votes = motion.said_by(&me);
            let said = Said::Motion(motion.view.clone(), votes);
            out.extend(motion.voters.iter().filter(|to| **to != me).map(|to| (to.id.clone(), said.clone())));
        }
        if let Some(chain) = seat.council.chain() {
            for (to, peer) in seat.peers.iter().filter(|(_, peer)| peer.head != head) {
                let _ = peer;
                out.push((to.clone(), Said::Chain(chain.clone())));
            }
        }
        for (to, said) in out {
            self.post(&to, &me, &said);
        }
        self.begin_windows(id);
    }

    /// Begins the running window of every length: here two views would collide.
    pub(super) fn begin_windows(&mut self, id: &NodeId) {
        let Some(seat) = self.seats.get_mut(id) else { return };
        let now = self.now.saturating_add_signed(seat.skew);
        for period in [300 * MS, 1_000 * MS, 7_000 * MS] {
            let start = now / period * period;
            if let Begun::In(view) = seat.council.begin(Timestamp::from_nanos(start))
                && view.has(&seat.council.me)
                && self.checked
            {
                let (first, by) = self.begun.entry(start).or_insert((view.id(), id.clone()));
                assert_eq!(*first, view.id(), "{id} and {by} begin the window at {start} in two views");
            }
        }
    }

    fn deliver(&mut self, to: &NodeId, from: &Member, said: Said) {
        let now_true = self.now;
        let Some(seat) = self.seats.get_mut(to).filter(|seat| seat.alive) else { return };
        let now = Timestamp::from_nanos(now_true.saturating_add_signed(seat.skew));
        match said {
            Said::Beat { head, leaving, time } => {
                let generation = from.generation;
                let header = Header {
                    generation,
                    time,
                    head,
                    leaving,
                    dictionary: 0,
                    known: 0,
                    known_of: 0,
                    to: Generation(0),
                    echo: None,
                    slew_us: 0,
                    rules: 0,
                };
                if seat.peers.hear_frame(&from.id, now, &header) {
                    seat.council.hear_run(from, header.time);
                }
            }
            Said::Motion(view, votes) => {
                seat.council.hear_motion(now, &seat.peers, from, view, votes);
            }
            Said::Chain(chain) => {
                seat.council.hear_chain(now, &seat.peers, chain);
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
            let names: Vec<NodeId> = self.seats.keys().cloned().collect();
            for id in &names {
                let phase = self.random.below(100 * MS);
                next_tick.entry(id.clone()).or_insert(self.now + phase);
            }
            let tick = next_tick.iter().min_by_key(|(_, at)| **at).map(|(id, at)| (id.clone(), *at));
            match (mail, tick) {
                (Some((index, at)), Some((_, tick_at))) if at <= tick_at => {
                    let (_, to, from, said) = self.mail.swap_remove(index);
                    self.now = self.now.max(at);
                    self.deliver(&to, &from, said);
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
        let living = self.seats.values().filter(|seat| seat.alive);
        living.filter_map(|seat| seat.council.head().map(|head| head.id())).collect()
    }

    pub(super) fn members(&self) -> Vec<NodeId> {
        let living = self.seats.values().find(|seat| seat.alive).unwrap();
        living.council.head().unwrap().members.iter().map(|member| member.id.clone()).collect()
    }

    pub(super) fn overlaps(&self) -> u64 {
        self.seats.values().map(|seat| seat.council.overlaps).sum()
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
        self.seats.get_mut(id).unwrap().alive = false;
    }

    /// The names of the living nodes.
    pub(super) fn living(&self) -> Vec<NodeId> {
        self.seats.iter().filter(|(_, seat)| seat.alive).map(|(id, _)| id.clone()).collect()
    }

    /// All living nodes follow one view, are not bound to another, and begin windows.
    pub(super) fn goes_on(&mut self, why: &str) {
        let heads = self.heads();
        assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "{why}: they differ: {heads:?}");
        assert_eq!(heads.len(), self.living().len(), "{why}: one knows no view");
        let now = self.now;
        for (id, seat) in self.seats.iter_mut().filter(|(_, seat)| seat.alive) {
            let start = Timestamp::from_nanos(now.saturating_add_signed(seat.skew));
            let begun = seat.council.begin(start);
            assert!(matches!(begun, Begun::In(_)), "{why}: {id} begins no window: {:?}", seat.council);
        }
    }
}
