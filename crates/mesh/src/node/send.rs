//! Sending frames to peers.

use super::{Lane, Node, Output, begin_interner};
use crate::frame::codec::Encoder;
use crate::frame::{FRAME_BUDGET, Header, Item};
use crate::view::Generation;
use crate::view::NodeId;
use hivemind_core::Timestamp;

impl Node {
    /// Writes messages into as many frames as they need.
    pub(super) fn send(&mut self, to: &NodeId, lane: Lane, items: &[Item], now: Timestamp) {
        let header = Header {
            generation: self.membership.me.generation,
            time: now,
            slew_us: self.clock.slew / 1_000,
            head: self.membership.head().map(|head| head.id()),
            leaving: self.membership.leaving,
            rules: self.membership.rules.here(),
            interner: 0,
            known: 0,
            known_of: 0,
            to: Generation(0),
            echo: None,
        };
        let Some(link) = self.links.get_mut(to) else { return };
        let echo = self.peers.echo(to, link.generation, now);
        if link.send_interner.is_worn_out() {
            link.send_interner = begin_interner(&mut self.interners);
        }
        let (interner, known, known_of) =
            (link.send_interner.number(), link.receive_interner.known(), link.receive_interner.number());
        let header = Header { interner, known, known_of, to: link.generation, echo, ..header };
        let mut rest = items;
        loop {
            let mut encoder = Encoder::new(&header, &mut link.send_interner);
            while let Some((item, later)) = rest.split_first() {
                encoder.push(item);
                rest = later;
                if encoder.length() >= FRAME_BUDGET {
                    break;
                }
            }
            let frame = encoder.finish();
            self.budget.spend(frame.len());
            self.outputs.push(Output::Send { to: to.clone(), lane, frame });
            if rest.is_empty() {
                break;
            }
        }
        self.peers.send(to, now);
    }
}
