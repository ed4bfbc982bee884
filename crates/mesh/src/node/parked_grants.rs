//! Grants that wait for recalled allowance.

use super::{Node, Ticket};
use crate::counter::counter_window::{CounterWindow, Side};
use crate::frame::interner::CounterRef;
use crate::frame::{OwnerReply, WindowRef};
use crate::view::Member;
use crate::view::NodeId;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::sync::Arc;

/// The most requests that wait at an owner at once.
const MOST_PARKED: usize = 4_096;

/// A request that waits for recalled allowance.
#[derive(Clone, Debug)]
pub(super) struct ParkedGrant {
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) until: Timestamp,
    pub(super) who: Asker,
}

impl ParkedGrant {
    pub(super) fn is_for(&self, key: Key, tag: u64) -> bool {
        self.key == key && self.tag == tag
    }

    pub(super) fn is_of(&self, peer: &NodeId) -> bool {
        matches!(&self.who, Asker::Peer { member, .. } if member.id == *peer)
    }
}

#[derive(Clone, Debug)]
pub(super) enum Asker {
    Here(Ticket),
    Peer { member: Arc<Member>, id: u64, need: u64, ahead: u64 },
}

impl Node {
    pub(super) fn park(&mut self, parked: ParkedGrant) -> bool {
        let has_room = self.parked.len() < MOST_PARKED;
        if has_room {
            self.parked.push(parked);
        }
        has_room
    }

    /// Allowance came back: serves waiting requests as far as it goes.
    pub(super) fn serve_parked(&mut self, now: Timestamp, key: Key, tag: u64) {
        let (served, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| parked.key == key && parked.tag == tag);
        self.parked = rest;
        for parked in served {
            self.serve_one(now, parked, false);
        }
    }

    pub(super) fn serve_one(&mut self, now: Timestamp, parked: ParkedGrant, last: bool) {
        let (member, id, need, ahead) = match parked.who.clone() {
            Asker::Here(ticket) => return self.retry(ticket, now),
            Asker::Peer { member, id, need, ahead } => (member, id, need, ahead),
        };
        let Some(mut counter) = self.table.counters.get_mut(&parked.key) else { return };
        let limit = counter.limit();
        let Some(window) = counter.window(parked.tag) else { return };
        let window_ref = WindowRef {
            counter: CounterRef { key: parked.key, limit },
            view: window.view.id(),
            tag: parked.tag,
        };
        let moment = CounterWindow::moment(parked.tag, &limit, now);
        let Side::Ledger(ledger) = &mut window.side else { return };
        let granted = ledger.grant(&limit, &member, need, ahead, moment);
        drop(counter);
        if granted {
            self.answer(now, &member, id, &window_ref, OwnerReply::Granted);
        } else if last {
            self.answer(now, &member, id, &window_ref, OwnerReply::Exhausted);
        } else {
            self.parked.push(parked);
        }
    }
}
