//! Councils over a bad network: they gossip what they know, in the order chance chooses.
//! No codec here and no rights, so that thousands of schedules fit into a second.

use super::*;
use crate::motion::Votes;
use crate::owner::NodeId;
use crate::sim::Random;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

#[derive(Clone)]
enum Said {
    Beat { head: Option<ViewId>, leaving: bool },
    Motion(View, Votes),
    Chain(Chain),
}

struct Seat {
    council: Council,
    peers: Peers,
    alive: bool,
    /// How far its clock is off.
    skew: i64,
}

struct World {
    random: Random,
    now: u64,
    seats: BTreeMap<NodeId, Seat>,
    /// (when, to, from, what), unordered: chance takes the earliest.
    mail: Vec<(u64, NodeId, Member, Said)>,
    loss: u64,
    cut: Option<(Vec<NodeId>, bool)>,
    /// Whether a node that starts now founds a mesh if it finds none.
    founding: bool,
    checked: bool,
    /// For each start of a window, the view that a member of it began it in.
    begun: BTreeMap<u64, (ViewId, NodeId)>,
}

fn options() -> CouncilOptions {
    CouncilOptions { found_after: Some(Duration::from_millis(800)), ..CouncilOptions::default() }
}

fn name(index: u64) -> NodeId {
    NodeId::new(format!("n{index}"))
}

impl World {
    fn new(seed: u64, loss: u64) -> Self {
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
            begun: BTreeMap::new(),
        }
    }

    fn start(&mut self, id: &NodeId) {
        let skew = i64::try_from(self.random.below(400 * MS)).unwrap() - 200_000_000;
        let now = Timestamp::from_nanos(self.now.saturating_add_signed(skew));
        let member = Member::new(id.clone(), self.now);
        let mut peers = Peers::new(options().staleness, 100);
        peers.discover((0..9).map(name));
        let found_after = options().found_after.filter(|_| self.founding);
        let council = Council::new(member, CouncilOptions { found_after, ..options() }, now);
        let seat = Seat { council, peers, alive: true, skew };
        self.seats.insert(id.clone(), seat);
    }

    /// What discovery knows from now on, on all nodes.
    fn discovery_knows(&mut self, names: &[NodeId]) {
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
        let beat = Said::Beat { head, leaving: seat.council.leaving };
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

    /// Begins the window that runs, of every length there is: this is where two views would meet.
    fn begin_windows(&mut self, id: &NodeId) {
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
            Said::Beat { head, leaving } => {
                seat.peers.hear(from, now, head, leaving);
                seat.council.hear_run(from);
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

    fn run(&mut self, millis: u64) {
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

    /// Runs where two views may meet for one window, which is what is shown.
    fn run_unchecked(&mut self, millis: u64) {
        self.checked = false;
        self.run(millis);
        self.checked = true;
    }

    fn heads(&self) -> Vec<ViewId> {
        let living = self.seats.values().filter(|seat| seat.alive);
        living.filter_map(|seat| seat.council.head().map(|head| head.id())).collect()
    }

    fn members(&self) -> Vec<NodeId> {
        let living = self.seats.values().find(|seat| seat.alive).unwrap();
        living.council.head().unwrap().members.iter().map(|member| member.id.clone()).collect()
    }

    fn overlaps(&self) -> u64 {
        self.seats.values().map(|seat| seat.council.overlaps).sum()
    }

    fn agrees_on(&self, expected: &[u64]) {
        let heads = self.heads();
        assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "they differ: {heads:?}");
        assert_eq!(self.members(), expected.iter().copied().map(name).collect::<Vec<_>>());
        assert_eq!(self.overlaps(), 0);
    }

    /// Nodes 0..count, started one after the other so that one founds and the others join.
    fn grown(seed: u64, loss: u64, count: u64) -> Self {
        let mut world = Self::new(seed, loss);
        world.start(&name(0));
        world.run(1_500);
        (1..count).for_each(|index| world.start(&name(index)));
        world.run(6_000);
        world
    }
}

#[test]
fn nodes_that_come_one_after_the_other_end_in_one_view() {
    for seed in 0..50 {
        let mut world = World::grown(seed, 0, 4);
        world.agrees_on(&[0, 1, 2, 3]);
        world.start(&name(7));
        world.run(5_000);
        world.agrees_on(&[0, 1, 2, 3, 7]);
    }
}

#[test]
fn nodes_that_start_together_found_one_mesh() {
    for seed in 0..50 {
        let mut world = World::new(seed, 0);
        (0..5).for_each(|index| world.start(&name(index)));
        world.run(9_000);
        world.agrees_on(&[0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_node_that_leaves_is_out_of_the_next_view_and_a_dead_one_once_discovery_forgets_it() {
    for seed in 0..50 {
        let mut world = World::grown(seed, 20, 4);
        world.seats.get_mut(&name(0)).unwrap().council.leaving = true;
        world.run(5_000);
        assert_eq!(world.members(), [1, 2, 3].map(name), "seed {seed}");
        world.seats.get_mut(&name(0)).unwrap().alive = false;
        world.seats.get_mut(&name(2)).unwrap().alive = false;
        world.run(8_000);
        // Silence alone only holds its share.
        assert_eq!(world.seats[&name(1)].council.head().unwrap().members.len(), 3, "seed {seed}");
        world.discovery_knows(&[1, 3].map(name));
        world.run(6_000);
        assert_eq!(world.seats[&name(1)].council.head().unwrap().members.len(), 2, "seed {seed}");
        assert_eq!(world.overlaps(), 0);
    }
}

#[test]
fn a_new_run_of_a_node_takes_the_place_of_the_old_one() {
    for seed in 0..50 {
        let mut world = World::grown(seed, 20, 3);
        let before = world.seats[&name(1)].council.me.clone();
        world.start(&name(1));
        world.run(6_000);
        world.agrees_on(&[0, 1, 2]);
        let head = world.seats[&name(0)].council.head().unwrap();
        assert!(!head.has(&before) && head.has(&world.seats[&name(1)].council.me));
    }
}

#[test]
fn a_view_does_not_change_while_a_member_cannot_be_heard() {
    let mut world = World::grown(7, 0, 4);
    world.cut = Some((vec![name(3)], false));
    world.run(1_000);
    world.start(&name(8));
    world.run(8_000);
    assert!(!world.members().contains(&name(8)));
    assert!(world.seats[&name(8)].council.chain().is_some(), "a guest knows the view it is a guest of");
    world.cut = None;
    world.run(6_000);
    world.agrees_on(&[0, 1, 2, 3, 8]);
}

#[test]
fn two_meshes_founded_apart_become_one_when_they_meet_and_say_so() {
    for seed in 0..50 {
        let mut world = World::new(seed, 0);
        world.cut = Some(([0, 1].map(name).to_vec(), false));
        [0, 1, 2, 3].map(name).iter().for_each(|id| world.start(id));
        // Both sides begin windows, so what each of them holds is checked after they met.
        world.run_unchecked(6_000);
        assert_ne!(world.seats[&name(0)].council.root(), world.seats[&name(2)].council.root());
        world.cut = None;
        world.run_unchecked(8_000);
        let heads = world.heads();
        assert!(heads.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}: {heads:?}");
        assert_eq!(world.members(), [0, 1, 2, 3].map(name));
        assert!(world.overlaps() >= 2, "both nodes of the younger mesh have seen it");
    }
}

/// The promise: whatever is lost, late, cut or dead, no window begins in two views.
///
/// Seen failing on: windows begin past the fence of a vote that is not decided; consent to a
/// fence before a window that has begun; a released vote is seen as well; one voter fewer than all
/// consent; any node adopts what a majority consented to without all.
#[test]
fn no_window_begins_in_two_views_whatever_the_network_does() {
    let seeds = if std::env::var_os("HIVEMIND_LONG").is_some() { 5_000 } else { 150 };
    let mut changes = 0;
    for seed in 0..seeds {
        let mut world = World::grown(seed, 50, 3 + seed % 3);
        // One that founds a mesh of its own while it is cut off is told of in the next test.
        world.founding = false;
        for _ in 0..6 {
            let count = 3 + seed % 3;
            let who = name(world.random.below(count));
            match world.random.below(6) {
                0 => world.start(&who),
                1 => world.start(&name(5 + seed % 4)),
                2 => {
                    let side = (0..=world.random.below(count)).map(name).collect();
                    world.cut = Some((side, world.random.chance(500)));
                }
                3 => world.cut = None,
                4 => {
                    if let Some(seat) = world.seats.get_mut(&who) {
                        seat.council.leaving = true;
                    }
                }
                _ => world.loss = world.random.below(400),
            }
            let pause = world.random.below(4_000);
            world.run(pause);
        }
        changes += world.seats.values().filter_map(|seat| Some(seat.council.head()?.height)).max().unwrap();
    }
    assert!(changes > seeds * 3, "only {changes} changes in {seeds} runs");
}
