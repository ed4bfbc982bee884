//! Three members of one view, and the frames between them.

use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, Key, OnRefusal, Verdicts};
use hivemind_mesh::{MeshOptions, Node, NodeDecision, NodeId, Output};
use hivemind_mesh_sim::{Random, mesh_nodes};

/// Three nodes over a network that may lose, duplicate and reorder frames.
pub(crate) struct Three {
    pub(crate) nodes: Vec<Node>,
    mail: Vec<(NodeId, NodeId, Vec<u8>)>,
    random: Random,
    /// Loss and duplication per mille. Without both, frames arrive immediately and in order.
    pub(crate) loss: u64,
    pub(crate) twice: u64,
    pub(crate) now: Timestamp,
}

impl Three {
    pub(crate) fn new(seed: u64, options: &MeshOptions, (loss, twice): (u64, u64)) -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let nodes = mesh_nodes(3, options, now);
        Self { nodes, mail: Vec::new(), random: Random::new(seed), loss, twice, now }
    }

    pub(crate) fn pass(&mut self, millis: u64) -> Vec<Verdicts> {
        let mut decided = Vec::new();
        for _ in 0..millis.div_ceil(5) {
            self.now = Timestamp::from_nanos(self.now.as_nanos() + 5_000_000);
            self.nodes.iter_mut().for_each(|node| node.on_tick(self.now));
            decided.extend(self.deliver());
        }
        decided
    }

    /// Delivers frames until none are left, or the rest is delayed. Returns the decisions.
    fn deliver(&mut self) -> Vec<Verdicts> {
        let mut decided = Vec::new();
        let in_order = self.twice == 0;
        loop {
            self.collect(&mut decided);
            if self.mail.is_empty() || !in_order && self.random.chance(200) {
                return decided;
            }
            let any = usize::try_from(self.random.below(self.mail.len() as u64)).expect("small");
            let (from, to, frame) = self.mail.remove(if in_order { 0 } else { any });
            let node = self.nodes.iter_mut().find(|node| node.member().id == to);
            node.expect("one of three").on_frame(self.now, &from, &frame);
        }
    }

    fn collect(&mut self, decided: &mut Vec<Verdicts>) {
        for node in &mut self.nodes {
            let from = node.member().id.clone();
            for output in node.outputs() {
                match output {
                    Output::Send { to, frame, .. } => {
                        if !self.random.chance(self.loss) {
                            self.mail.push((from.clone(), to.clone(), frame.clone()));
                        }
                        if self.random.chance(self.twice) {
                            self.mail.push((from.clone(), to, frame));
                        }
                    }
                    Output::Decided(_, verdicts) => decided.push(verdicts),
                    Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
                }
            }
        }
    }

    /// The verdicts of a request, and whether it waited.
    pub(crate) fn decide(
        &mut self,
        node: usize,
        batch: &[Charge<'_>],
        on_refusal: OnRefusal,
    ) -> (Verdicts, bool) {
        let context = Context { on_refusal, ..Context::at(self.now) };
        match self.nodes[node].decide(batch, context) {
            NodeDecision::Now(verdicts) => {
                self.deliver();
                (verdicts, false)
            }
            NodeDecision::Later(_) => {
                let mut decided = self.deliver();
                // An owner delays its answer while it recalls allowance.
                decided.extend(self.pass(60));
                (decided.pop().expect("an answer"), true)
            }
        }
    }

    /// A key owned by the first node.
    pub(crate) fn key(&self, number: u64) -> Key {
        let view = self.nodes[0].view().expect("they are seated");
        (0..1_000)
            .map(|n| Key::from_bits(number, (number * 1_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .find(|key| view.owner(*key) == Some(self.nodes[0].member()))
            .expect("one of three")
    }
}
