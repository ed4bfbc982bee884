//! Grants that wait for recalled allowance.

use super::{Node, Ticket};
use crate::dictionary::Subject;
use crate::frame::{Place, Reply};
use crate::member::Member;
use crate::owner::NodeId;
use crate::page::{Page, Side};
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::sync::Arc;

/// The most requests that wait at an owner at once.
const MOST_PARKED: usize = 4_096;

/// A request that waits for recalled allowance.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) until: Timestamp,
    pub(super) who: Asker,
}

impl Parked {
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
    pub(super) fn park(&mut self, parked: Parked) -> bool {
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

    pub(super) fn serve_one(&mut self, now: Timestamp, parked: Parked, last: bool) {
        let (member, id, need, ahead) = match parked.who.clone() {
            Asker::Here(ticket) => return self.retry(ticket, now),
            Asker::Peer { member, id, need, ahead } => (member, id, need, ahead),
        };
        let Some(mut book) = self.shelf.books.get_mut(&parked.key) else { return };
        let limit = book.limit();
        let Some(page) = book.page(parked.tag) else { return };
        let place =
            Place { subject: Subject { key: parked.key, limit }, view: page.view.id(), tag: parked.tag };
        let moment = Page::moment(parked.tag, &limit, now);
        let Side::Till(till) = &mut page.side else { return };
        let lent = till.lend(&limit, &member, need, ahead, moment);
        drop(book);
        if lent {
            self.answer(now, &member, id, &place, Reply::Lent);
        } else if last {
            self.answer(now, &member, id, &place, Reply::Exhausted);
        } else {
            self.parked.push(parked);
        }
    }
}
