//! Requests of a world: they come to a node, are decided there at once or later, and are counted.

use super::{Event, World, at};
use crate::digest::record_verdicts;
use hivemind_core::Cost;
use hivemind_core::store::{Charge, Context, Parts};
use hivemind_mesh::{Decided, Output};

impl World {
    pub(super) fn request(&mut self, index: usize) {
        let elapsed = self.elapsed_us();
        let Some(counter) = self.counters.get_mut(index) else { return };
        let (mut node, cost) = counter.traffic.request(elapsed);
        let next = counter.traffic.next(elapsed);
        self.push(self.start + next, Event::Request { counter: index });
        // What comes to a dead node goes to the next that lives.
        for _ in 0..self.seats.len() {
            if self.is_alive(node) {
                break;
            }
            node = (node + 1) % self.seats.len();
        }
        self.hit(node, index, cost);
    }

    /// A request comes to a node.
    pub fn hit(&mut self, node: usize, index: usize, cost: u64) {
        let Some(counter) = self.counters.get(index) else { return };
        let (key, limit) = (counter.key, *counter.reloaded.get(&node).unwrap_or(&counter.limit));
        let (now, truly) = (self.now, at(self.now, 0));
        let Some(Some(seat)) = self.seats.get_mut(node) else { return };
        if !seat.alive {
            return;
        }
        let local = at(now, seat.skew);
        self.wake(node);
        let Some(Some(seat)) = self.seats.get_mut(node) else { return };
        let parts = Parts { domain: "sim", entries: &[] };
        let charge = Charge { cost: Cost::new(cost), ..Charge::spend(key, parts, &limit) };
        let decided = seat.node.decide(&[charge], Context::at(local));
        // Windows are those of the mesh clock.
        let local = seat.node.mesh_time(local);
        self.sent.2 += 1;
        match decided {
            Decided::Now(verdicts) => {
                record_verdicts(&[now, node as u64, index as u64, cost], &verdicts);
                if let Some(counter) = self.counters.get_mut(index) {
                    counter.tally.offer(cost, local, truly);
                }
                if let Some(counter) = self.counters.get_mut(index).filter(|_| verdicts.committed) {
                    counter.tally.admit(cost, local, truly, truly);
                }
            }
            Decided::Later(ticket) => {
                self.sent.3 += 1;
                seat.open.insert(ticket, (index, cost, truly, local));
            }
        }
        self.carry_out(node);
    }

    pub(super) fn carry_out(&mut self, from: usize) {
        let Some(Some(seat)) = self.seats.get_mut(from) else { return };
        let outputs: Vec<Output> = seat.node.outputs().collect();
        let local = seat.node.mesh_time(at(self.now, seat.skew));
        for output in outputs {
            match output {
                Output::Looked(..) | Output::Reset(_) | Output::GivenUp(_) => {}
                Output::Decided(ticket, verdicts) => {
                    record_verdicts(&[self.now, from as u64], &verdicts);
                    let open = self
                        .seats
                        .get_mut(from)
                        .and_then(Option::as_mut)
                        .and_then(|seat| seat.open.remove(&ticket));
                    let Some((index, cost, asked, then)) = open else { continue };
                    // A clock that stepped back meanwhile does not take the decision along.
                    let local = local.max(then);
                    let truly = at(self.now, 0);
                    // It belongs to the window that it was decided in.
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
