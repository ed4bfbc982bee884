//! Steps of the model: the effect of an event on a node, computed once and cached.

use super::ModelCheck;
use crate::digest::record;
use hivemind_core::store::{Charge, Context, Key, Parts};
use hivemind_core::{Cost, Limit, Timestamp};
use hivemind_mesh::Member;
use hivemind_mesh::MeshOptions;
use hivemind_mesh::testing::is_about_counters;
use hivemind_mesh::testing::named;
use hivemind_mesh::view::view_log::ViewLog;
use hivemind_mesh::{Node, NodeDecision, Output};
use siphasher::sip128::{Hasher128, SipHasher13};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::Hash;

pub(super) const NODES: usize = 3;
/// Boundary between the first and the second window.
pub(super) const EDGE_MS: u64 = 1_700_006_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ModelEvent {
    Request,
    Tick,
    Frame(u16),
    Learn,
    Crash,
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeState {
    pub(super) node: u32,
    pub(super) moment: u8,
    pub(super) alive: bool,
    pub(super) learned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelState {
    pub(super) node_states: [NodeState; NODES],
    /// Numbers of the sent frames, sorted.
    pub(super) mail: SmallVec<[u16; 16]>,
    pub(super) admitted: [u64; 2],
    pub(super) requests: u8,
    pub(super) crashed: bool,
}

impl ModelState {
    pub(super) fn digest(&self) -> u128 {
        let mut hasher = SipHasher13::new();
        self.hash(&mut hasher);
        hasher.finish128().as_u128()
    }
}

/// Effect of an event on a node.
#[derive(Clone, Debug)]
pub(super) struct Effect {
    node: u32,
    admitted: u64,
    sent: SmallVec<[u16; 4]>,
}

pub(super) struct SentFrame {
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

pub(super) struct Search {
    pub(super) model: ModelCheck,
    pub(super) key: Key,
    pub(super) limit: Limit,
    pub(super) options: MeshOptions,
    pub(super) members: Vec<Member>,
    /// The views before and after the result of the vote is known.
    pub(super) view_logs: [ViewLog; 2],
    pub(super) nodes: Vec<Node>,
    pub(super) node_numbers: HashMap<u128, u32>,
    pub(super) frames: Vec<SentFrame>,
    pub(super) frame_numbers: HashMap<(usize, usize, Vec<u8>), u16>,
    pub(super) effects: HashMap<(u32, u8, ModelEvent), Effect>,
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

    pub(super) fn events(&self, state: &ModelState) -> Vec<(usize, ModelEvent)> {
        let mut events = Vec::new();
        for (who, node_state) in state.node_states.iter().enumerate() {
            if !node_state.alive {
                events.push((who, ModelEvent::Restart));
                continue;
            }
            if state.requests < self.model.requests {
                events.push((who, ModelEvent::Request));
            }
            if usize::from(node_state.moment) + 1 < self.model.moments.len() {
                events.push((who, ModelEvent::Tick));
            }
            if !node_state.learned {
                events.push((who, ModelEvent::Learn));
            }
            if self.model.crash && !state.crashed {
                events.push((who, ModelEvent::Crash));
            }
        }
        for number in &state.mail {
            let to = self.frames.get(usize::from(*number)).map_or(0, |frame| frame.to);
            if state.node_states.get(to).is_some_and(|node_state| node_state.alive) {
                events.push((to, ModelEvent::Frame(*number)));
            }
        }
        events
    }

    pub(super) fn step(&mut self, state: &ModelState, who: usize, event: ModelEvent) -> ModelState {
        let mut after = state.clone();
        let Some(node_state) = after.node_states.get_mut(who) else { return after };
        match event {
            ModelEvent::Crash => (node_state.alive, after.crashed) = (false, true),
            ModelEvent::Restart => {
                let (moment, learned) = (node_state.moment, node_state.learned);
                let node = self.start(who, 2, moment, learned);
                node_state.node = self.number(node);
                node_state.alive = true;
            }
            ModelEvent::Request => after.requests += 1,
            ModelEvent::Tick => node_state.moment += 1,
            ModelEvent::Learn => node_state.learned = true,
            ModelEvent::Frame(_) => {}
        }
        if matches!(event, ModelEvent::Crash | ModelEvent::Restart) {
            return after;
        }
        let (node, moment) = (node_state.node, node_state.moment);
        let effect = self.effect(who, node, moment, event);
        node_state.node = effect.node;
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

    fn effect(&mut self, who: usize, number: u32, moment: u8, event: ModelEvent) -> Effect {
        if let Some(effect) = self.effects.get(&(number, moment, event)) {
            return effect.clone();
        }
        let now = self.now(moment);
        let node = self.nodes.get(usize::try_from(number).unwrap_or(0)).cloned();
        let Some(mut node) = node else { return Effect { node: number, admitted: 0, sent: SmallVec::new() } };
        let mut admitted = 0;
        match event {
            ModelEvent::Request => admitted += self.request(&mut node, now),
            ModelEvent::Tick => node.on_tick(now),
            ModelEvent::Learn => {
                let [_, after] = &self.view_logs;
                node.learn(after.clone(), now);
            }
            ModelEvent::Frame(frame) => {
                if let Some(frame) = self.frames.get(usize::from(frame)) {
                    node.on_frame(now, &named(frame.from), &frame.bytes);
                }
            }
            ModelEvent::Crash | ModelEvent::Restart => {}
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
            NodeDecision::Now(verdicts) if verdicts.committed => self.model.cost,
            _ => 0,
        }
    }

    fn post(&mut self, from: usize, to: usize, bytes: Vec<u8>) -> u16 {
        let next = u16::try_from(self.frames.len()).unwrap_or(u16::MAX);
        let number = *self.frame_numbers.entry((from, to, bytes.clone())).or_insert(next);
        if number == next {
            record(&[from as u64, to as u64], &bytes);
            self.frames.push(SentFrame { from, to, bytes });
        }
        number
    }

    /// The violation in a state, if there is one.
    pub(super) fn judge(&mut self, state: &ModelState) -> Option<String> {
        let mut sums = state.admitted;
        for node_state in state.node_states.iter().filter(|node_state| node_state.alive) {
            let spendable = self.spendable(node_state.node, node_state.moment);
            sums.iter_mut().zip(spendable).for_each(|(sum, spendable)| *sum += spendable);
        }
        let limit = u64::from(self.model.limit);
        let over = sums.iter().any(|sum| *sum > limit);
        let admitted = state.admitted;
        over.then(|| {
            format!("{admitted:?} were admitted of {limit}, or {sums:?} including spendable allowance")
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

    pub(super) fn describe(&self, who: usize, event: ModelEvent) -> String {
        let name = named(who);
        match event {
            ModelEvent::Frame(number) => {
                let from = self.frames.get(usize::from(number)).map_or(0, |frame| frame.from);
                format!("{name} receives frame {number} of {}", named(from))
            }
            other => format!("{name}: {other:?}"),
        }
    }
}
