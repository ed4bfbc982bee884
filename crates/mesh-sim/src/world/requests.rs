//! Requests of a simulated mesh: decided immediately or later, and counted.

use super::{World, WorldEvent, at};
use crate::digest::record_verdicts;
use hivemind_core::Cost;
use hivemind_core::store::{Charge, Context, Parts};
use hivemind_mesh::{NodeDecision, Output};

impl World {
    pub(super) fn request(&mut self, index: usize) {
        let elapsed = self.elapsed_us();
        let Some(counter) = self.counters.get_mut(index) else { return };
        let (mut node, cost) = counter.traffic.request(elapsed);
        let next = counter.traffic.next(elapsed);
        self.push(self.start + next, WorldEvent::Request { counter: index });
        // A request for a dead node goes to the next living one.
        for _ in 0..self.nodes.len() {
            if self.is_alive(node) {
                break;
            }
            node = (node + 1) % self.nodes.len();
        }
        self.hit(node, index, cost);
    }

    /// Sends a request to a node.
    pub fn hit(&mut self, node: usize, index: usize, cost: u64) {
        let Some(counter) = self.counters.get(index) else { return };
        let (key, limit) = (counter.key, *counter.reloaded.get(&node).unwrap_or(&counter.limit));
        let (now, truly) = (self.now, at(self.now, 0));
        let Some(Some(sim_node)) = self.nodes.get_mut(node) else { return };
        if !sim_node.alive {
            return;
        }
        let local = at(now, sim_node.skew);
        self.wake(node);
        let Some(Some(sim_node)) = self.nodes.get_mut(node) else { return };
        let parts = Parts { domain: "sim", entries: &[] };
        let charge = Charge { cost: Cost::new(cost), ..Charge::spend(key, parts, &limit) };
        let decided = sim_node.node.decide(&[charge], Context::at(local));
        // Windows follow the mesh clock.
        let local = sim_node.node.mesh_time(local);
        self.sent.2 += 1;
        match decided {
            NodeDecision::Now(verdicts) => {
                record_verdicts(&[now, node as u64, index as u64, cost], &verdicts);
                if let Some(counter) = self.counters.get_mut(index) {
                    counter.tally.offer(cost, local, truly);
                }
                if let Some(counter) = self.counters.get_mut(index).filter(|_| verdicts.committed) {
                    counter.tally.admit(cost, local, truly, truly);
                }
            }
            NodeDecision::Later(ticket) => {
                self.sent.3 += 1;
                sim_node.open.insert(ticket, (index, cost, truly, local));
            }
        }
        self.carry_out(node);
    }

    pub(super) fn carry_out(&mut self, from: usize) {
        let Some(Some(sim_node)) = self.nodes.get_mut(from) else { return };
        let outputs: Vec<Output> = sim_node.node.outputs().collect();
        let local = sim_node.node.mesh_time(at(self.now, sim_node.skew));
        for output in outputs {
            match output {
                Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
                Output::Decided(ticket, verdicts) => {
                    record_verdicts(&[self.now, from as u64], &verdicts);
                    let open = self
                        .nodes
                        .get_mut(from)
                        .and_then(Option::as_mut)
                        .and_then(|sim_node| sim_node.open.remove(&ticket));
                    let Some((index, cost, asked, then)) = open else { continue };
                    // A clock that was set back in the meantime does not affect the decision.
                    let local = local.max(then);
                    let truly = at(self.now, 0);
                    // It counts for the window of the decision.
                    if let Some(counter) = self.counters.get_mut(index) {
                        counter.tally.offer(cost, local, asked);
                    }
                    if let Some(counter) = self.counters.get_mut(index).filter(|_| verdicts.committed) {
                        counter.tally.admit(cost, local, asked, truly);
                    }
                }
                Output::Send { to, lane, frame } => self.post(from, &to, lane, &frame),
            }
        }
    }
}
