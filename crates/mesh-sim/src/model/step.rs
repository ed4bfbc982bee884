//! One step of the model: what an event does to a node, computed once and looked up from then on.

use super::Model;
use crate::digest::record;
use hivemind_core::store::{Charge, Context, Key, Parts};
use hivemind_core::{Cost, Limit, Timestamp};
use hivemind_mesh::Member;
use hivemind_mesh::MeshOptions;
use hivemind_mesh::chain::Chain;
use hivemind_mesh::testing::is_about_counters;
use hivemind_mesh::testing::named;
use hivemind_mesh::{Decided, Node, Output};
use siphasher::sip128::{Hasher128, SipHasher13};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::Hash;

pub(super) const NODES: usize = 3;
/// The end of the first window and the start of the second.
pub(super) const EDGE_MS: u64 = 1_700_006_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Request,
    Tick,
    Frame(u16),
    Learn,
    Crash,
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seat {
    pub(super) node: u32,
    pub(super) moment: u8,
    pub(super) alive: bool,
    pub(super) learned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) seats: [Seat; NODES],
    /// The numbers of the frames that were sent, in order.
    pub(super) mail: SmallVec<[u16; 16]>,
    pub(super) admitted: [u64; 2],
    pub(super) requests: u8,
    pub(super) crashed: bool,
}

impl State {
    pub(super) fn digest(&self) -> u128 {
        let mut hasher = SipHasher13::new();
        self.hash(&mut hasher);
        hasher.finish128().as_u128()
    }
}

/// What an event does to a node.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    node: u32,
    admitted: u64,
    sent: SmallVec<[u16; 4]>,
}

pub(super) struct Frame {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

pub(super) struct Search {
    pub(super) model: Model,
    pub(super) key: Key,
    pub(super) limit: Limit,
    pub(super) options: MeshOptions,
    pub(super) members: Vec<Member>,
    /// The views as they are before and after the vote is known to have ended.
    pub(super) chains: [Chain; 2],
    pub(super) nodes: Vec<Node>,
    pub(super) node_numbers: HashMap<u128, u32>,
    pub(super) frames: Vec<Frame>,
    pub(super) frame_numbers: HashMap<(usize, usize, Vec<u8>), u16>,
    pub(super) effects: HashMap<(u32, u8, Event), Effect>,
    pub(super) spendable: HashMap<(u32, u8), [u64; 2]>,
}

impl Search {
    pub(super) fn now(&self, moment: u8) -> Timestamp {
        let from_edge = self.model.moments.get(usize::from(moment)).copied().unwrap_or(0);
        Timestamp::from_millis(EDGE_MS.saturating_add_signed(from_edge))
    }

    fn tag(&self, moment: u8) -> usize {
        usize::from(self.model.moments.get(usize::from(moment)).is_some_and(|from_edge| *from_edge >= 0))
    }

    pub(super) fn number(&mut self, node: Node) -> u32 {
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let number = *self.node_numbers.entry(node.fingerprint()).or_insert(next);
        if number == next {
            self.nodes.push(node);
        }
        number
    }

    pub(super) fn events(&self, state: &State) -> Vec<(usize, Event)> {
        let mut events = Vec::new();
        for (who, seat) in state.seats.iter().enumerate() {
            if !seat.alive {
                events.push((who, Event::Restart));
                continue;
            }
            if state.requests < self.model.requests {
                events.push((who, Event::Request));
            }
            if usize::from(seat.moment) + 1 < self.model.moments.len() {
                events.push((who, Event::Tick));
            }
            if !seat.learned {
                events.push((who, Event::Learn));
            }
            if self.model.crash && !state.crashed {
                events.push((who, Event::Crash));
            }
        }
        for number in &state.mail {
            let to = self.frames.get(usize::from(*number)).map_or(0, |frame| frame.to);
            if state.seats.get(to).is_some_and(|seat| seat.alive) {
                events.push((to, Event::Frame(*number)));
            }
        }
        events
    }

    pub(super) fn step(&mut self, state: &State, who: usize, event: Event) -> State {
        let mut after = state.clone();
        let Some(seat) = after.seats.get_mut(who) else { return after };
        match event {
            Event::Crash => (seat.alive, after.crashed) = (false, true),
            Event::Restart => {
                let (moment, learned) = (seat.moment, seat.learned);
                let node = self.start(who, 2, moment, learned);
                seat.node = self.number(node);
                seat.alive = true;
            }
            Event::Request => after.requests += 1,
            Event::Tick => seat.moment += 1,
            Event::Learn => seat.learned = true,
            Event::Frame(_) => {}
        }
        if matches!(event, Event::Crash | Event::Restart) {
            return after;
        }
        let (node, moment) = (seat.node, seat.moment);
        let effect = self.effect(who, node, moment, event);
        seat.node = effect.node;
        let tag = self.tag(moment);
        if let Some(admitted) = after.admitted.get_mut(tag) {
            *admitted += effect.admitted;
        }
        for number in effect.sent {
            if after.mail.len() < self.model.frames
                && let Err(place) = after.mail.binary_search(&number)
            {
                after.mail.insert(place, number);
            }
        }
        after
    }

    fn effect(&mut self, who: usize, number: u32, moment: u8, event: Event) -> Effect {
        if let Some(effect) = self.effects.get(&(number, moment, event)) {
            return effect.clone();
        }
        let now = self.now(moment);
        let node = self.nodes.get(usize::try_from(number).unwrap_or(0)).cloned();
        let Some(mut node) = node else { return Effect { node: number, admitted: 0, sent: SmallVec::new() } };
        let mut admitted = 0;
        match event {
            Event::Request => admitted += self.request(&mut node, now),
            Event::Tick => node.on_tick(now),
            Event::Learn => {
                let [_, after] = &self.chains;
                node.learn(after.clone(), now);
            }
            Event::Frame(frame) => {
                if let Some(frame) = self.frames.get(usize::from(frame)) {
                    node.on_frame(now, &named(frame.from), &frame.bytes);
                }
            }
            Event::Crash | Event::Restart => {}
        }
        let outputs: Vec<Output> = node.outputs().collect();
        let mut sent = SmallVec::new();
        for output in outputs {
            match output {
                Output::Decided(_, verdicts) => {
                    admitted += if verdicts.committed { self.model.cost } else { 0 };
                }
                Output::Send { to, frame, .. } if is_about_counters(&frame) => {
                    let to = (0..NODES).find(|index| named(*index) == to).unwrap_or(0);
                    sent.push(self.post(who, to, frame));
                }
                Output::Send { .. } | Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
            }
        }
        let effect = Effect { node: self.number(node), admitted, sent };
        self.effects.insert((number, moment, event), effect.clone());
        effect
    }

    fn request(&self, node: &mut Node, now: Timestamp) -> u64 {
        let parts = Parts { domain: "", entries: &[] };
        let cost = Cost::new(self.model.cost);
        let (key, limit) = (self.key, &self.limit);
        let charge = Charge { cost, ..Charge::spend(key, parts, limit) };
        match node.decide(&[charge], Context::at(now)) {
            Decided::Now(verdicts) if verdicts.committed => self.model.cost,
            _ => 0,
        }
    }

    fn post(&mut self, from: usize, to: usize, bytes: Vec<u8>) -> u16 {
        let next = u16::try_from(self.frames.len()).unwrap_or(u16::MAX);
        let number = *self.frame_numbers.entry((from, to, bytes.clone())).or_insert(next);
        if number == next {
            record(&[from as u64, to as u64], &bytes);
            self.frames.push(Frame { from, to, bytes });
        }
        number
    }

    /// What is wrong with a state, if anything is.
    pub(super) fn judge(&mut self, state: &State) -> Option<String> {
        let mut sums = state.admitted;
        for seat in state.seats.iter().filter(|seat| seat.alive) {
            let spendable = self.spendable(seat.node, seat.moment);
            sums.iter_mut().zip(spendable).for_each(|(sum, spendable)| *sum += spendable);
        }
        let limit = u64::from(self.model.limit);
        let over = sums.iter().any(|sum| *sum > limit);
        let admitted = state.admitted;
        over.then(|| {
            format!("{admitted:?} were admitted of {limit}, and with what may be spent it is {sums:?}")
        })
    }

    fn spendable(&mut self, number: u32, moment: u8) -> [u64; 2] {
        if let Some(known) = self.spendable.get(&(number, moment)) {
            return *known;
        }
        let first = EDGE_MS / 1_000 - 1;
        let now = self.now(moment);
        let node = self.nodes.get(usize::try_from(number).unwrap_or(0));
        let of = |tag: u64| node.map_or(0, |node| node.spendable((self.key, &self.limit, tag), now));
        let spendable = [of(first), of(first + 1)];
        self.spendable.insert((number, moment), spendable);
        spendable
    }

    pub(super) fn tell(&self, who: usize, event: Event) -> String {
        let name = named(who);
        match event {
            Event::Frame(number) => {
                let from = self.frames.get(usize::from(number)).map_or(0, |frame| frame.from);
                format!("{name} hears frame {number} of {}", named(from))
            }
            other => format!("{name}: {other:?}"),
        }
    }
}
