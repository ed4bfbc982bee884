//! Reset of a counter, by an operator or a closed connection. Its owner applies it, whichever node asks;
//! members learn of it from the owner's next update. No holding and nothing in flight becomes void
//! (`till::reset`). An operator is informed whether it was done: the owner is asked with the same number until
//! it replies, and applies it once. Later spending stays, however often it is asked.

use super::asks::{Ask, Kind};
use super::remote::Unseen;
use super::{Node, Output, Ticket};
use crate::frame::{Place, Reply, Want};
use crate::member::Member;
use crate::page::Side;
use hivemind_core::store::{Key, LocalStore};
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// The remembered resets of a peer: it repeats one for a few seconds.
const MOST_RESETS: usize = 256;

/// The result of a reset.
///
/// ```
/// use hivemind_core::{Limit, Period, Timestamp, store::Key};
/// use hivemind_mesh::{MeshOptions, Node, NodeId, Reset};
/// use std::time::Duration;
///
/// let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
/// let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
/// let mut reset = |node: &mut Node| node.reset(Key::from_bits(7, 11), &limit, Duration::from_secs(1), now);
/// assert_eq!(reset(&mut node), Reset::NoOwner);
/// node.found(now);
/// assert_eq!(reset(&mut node), Reset::Done); // It owns all keys.
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// It is done.
    Done,
    /// The owner applies it; the outputs report it with this ticket.
    Later(Ticket),
    /// No owner is known.
    NoOwner,
}

/// A reset that the owner has not confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resetting {
    key: Key,
    limit: Limit,
    until: Timestamp,
    asked: Timestamp,
    /// The request's number, equal in all repetitions.
    id: u64,
}

impl Resetting {
    pub(super) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        earlier(&mut self.until);
        earlier(&mut self.asked);
    }
}

/// The location of a counter that was reset here.
enum Counter {
    Here,
    There(Unseen),
    Nowhere,
}

impl Node {
    /// Resets the spending of one counter, here and at its owner if the message arrives.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Timestamp, store::Key};
    /// # use hivemind_mesh::{MeshOptions, testing::seated};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let node = &mut seated(1, &MeshOptions::default(), now)[0];
    /// node.forget(Key::from_bits(7, 11), &limit, now); // A connection was closed.
    /// ```
    pub fn forget(&mut self, key: Key, limit: &Limit, now: Timestamp) {
        let now = self.mesh_time(now);
        if let Counter::There(counter) = self.forget_here(key, limit, now) {
            self.ask(&counter, Kind::Forget, Vec::new(), Want::Forget, now);
            self.flush_urgent(now);
        }
    }

    /// The same, and the owner is asked until it replies, for at most `within`.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Timestamp, store::Key};
    /// # use hivemind_mesh::{MeshOptions, Reset, testing::seated};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let node = &mut seated(1, &MeshOptions::default(), now)[0];
    /// let second = std::time::Duration::from_secs(1);
    /// assert_eq!(node.reset(Key::from_bits(7, 11), &limit, second, now), Reset::Done);
    /// ```
    pub fn reset(&mut self, key: Key, limit: &Limit, within: Duration, now: Timestamp) -> Reset {
        let now = self.mesh_time(now);
        match self.forget_here(key, limit, now) {
            Counter::Here => Reset::Done,
            Counter::Nowhere => Reset::NoOwner,
            Counter::There(counter) => {
                let (ticket, id) = (Ticket(self.number()), self.number());
                let until = now.saturating_add(within);
                self.resets.insert(ticket, Resetting { key, limit: *limit, until, asked: now, id });
                self.ask_as(id, &counter, Kind::Forget, vec![ticket], Want::Forget, now);
                self.flush_urgent(now);
                Reset::Later(ticket)
            }
        }
    }

    fn forget_here(&mut self, key: Key, limit: &Limit, now: Timestamp) -> Counter {
        self.local.0.forget_now(key);
        let counter = self.whereabouts(key, limit, now);
        let tag = self.shelf.tag(&self.council, &self.options, (key, limit), now);
        let Some(mut book) = self.shelf.books.get_mut(&key) else { return counter };
        book.counted = None;
        book.aside.change(|aside| aside.part = None);
        let Some(page) = book.page(tag) else { return counter };
        let moment = page.moment_of(limit, &self.options, now);
        if let Side::Till(till) = &mut page.side {
            till.reset(limit, moment);
            book.set_listed(true);
        }
        counter
    }

    /// The location of a counter, without any change.
    fn whereabouts(&mut self, key: Key, limit: &Limit, now: Timestamp) -> Counter {
        let Self { shelf, council, options, .. } = self;
        let tag = shelf.tag(council, options, (key, limit), now);
        let Ok(mut book) = shelf.open(council, options, (key, limit, tag), now) else {
            return Counter::Nowhere;
        };
        match book.page(tag) {
            Some(page) if matches!(page.side, Side::Till(_)) => Counter::Here,
            Some(page) if page.view.owner(key).is_some() => {
                Counter::There(Unseen { key, limit: *limit, tag })
            }
            _ => Counter::Nowhere,
        }
    }

    /// Repeats requests to owners without a reply, and gives up expired ones.
    pub(super) fn repeat_resets(&mut self, now: Timestamp) {
        let pause = self.options.ask_timeout * 2;
        let due: Vec<Ticket> = self
            .resets
            .iter()
            .filter(|(_, reset)| reset.until <= now || now.since(reset.asked) >= pause)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in due {
            let Some(mut reset) = self.resets.remove(&ticket) else { continue };
            if reset.until <= now {
                self.outputs.push(Output::GivenUp(ticket));
                continue;
            }
            reset.asked = now;
            match self.whereabouts(reset.key, &reset.limit, now) {
                Counter::Here => {
                    // This node is the owner by now, and has not applied it as the owner.
                    self.forget_here(reset.key, &reset.limit, now);
                    self.outputs.push(Output::Reset(ticket));
                }
                Counter::Nowhere => {
                    self.resets.insert(ticket, reset);
                }
                Counter::There(counter) => {
                    self.resets.insert(ticket, reset);
                    self.ask_as(reset.id, &counter, Kind::Forget, vec![ticket], Want::Forget, now);
                }
            }
        }
        self.flush_urgent(now);
    }

    /// The owner has replied. If it is not the owner, it is asked again, or another one by then.
    pub(super) fn on_forgotten(&mut self, ask: &Ask, reply: &Reply) {
        if *reply == Reply::Elsewhere {
            return;
        }
        for ticket in &ask.tickets {
            if self.resets.remove(ticket).is_some() {
                self.outputs.push(Output::Reset(*ticket));
            }
        }
    }

    /// A peer requests a reset of this node's counter. It is applied once per number, and confirmed on every
    /// repetition: a reply may have been lost.
    pub(super) fn on_forget(&mut self, now: Timestamp, from: &Arc<Member>, id: u64, place: &Place) {
        let Some(link) = self.links.get(&from.id) else { return };
        if link.reset.contains(&id) {
            let is_here = self.shelf.books.page(&place.subject.key, place.tag).is_some();
            let reply = if is_here { Reply::Lent } else { Reply::Seen(None) };
            return self.answer(now, from, id, place, reply);
        }
        let reply = self.forget_for(now, from, place).unwrap_or(Reply::Elsewhere);
        if reply != Reply::Elsewhere
            && let Some(link) = self.links.get_mut(&from.id)
        {
            link.reset.push_back(id);
            if link.reset.len() > MOST_RESETS {
                link.reset.pop_front();
            }
        }
        self.answer(now, from, id, place, reply);
    }

    fn forget_for(&mut self, now: Timestamp, from: &Arc<Member>, place: &Place) -> Option<Reply> {
        let key = place.subject.key;
        let is_bucket = matches!(place.subject.limit, Limit::TokenBucket(_));
        if !self.shelf.books.contains_key(&key) && !is_bucket {
            // A window without a counter here needs no reset, if this node is the owner. A bucket may begin
            // empty here.
            let view = self.council.current(now).filter(|view| view.id() == place.view)?;
            return (*view.owner(key)? == self.council.me).then_some(Reply::Seen(None));
        }
        let limit = self.open_told(now, from, place)?;
        let mut book = self.shelf.books.get_mut(&key)?;
        let page = book.page(place.tag)?;
        let moment = page.moment_of(&limit, &self.options, now);
        let Side::Till(till) = &mut page.side else { return None };
        till.reset(&limit, moment);
        book.counted = None;
        book.aside.change(|aside| aside.part = None);
        book.set_listed(true);
        Some(Reply::Lent)
    }
}
