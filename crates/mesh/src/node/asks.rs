//! Requests to owners: one per counter at a time, shared by all decisions that wait for it. The owner grants,
//! or recalls unspent allowance and delays its reply for a moment, or replies that nothing is left. That reply
//! is remembered, so a flood of refusals does not cause a flood of requests.

use super::remote::Unseen;
use super::{Node, Ticket};
use crate::batch::{Owed, Trial};
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Reply, Want, Word};
use crate::member::Member;
use crate::options::Consistency;
use crate::owner::NodeId;
use crate::page::Side;
use crate::window::tag_at;
use hivemind_core::algorithm::Action;
use hivemind_core::store::{Context, Key, Op};
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Duration;

/// How much demand a grant request covers.
const HORIZON: Duration = Duration::from_millis(60);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lend,
    Look,
    Do,
    Forget,
    Survey,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) id: u64,
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) kind: Kind,
    pub(super) least: u64,
    /// What the owner spends for it, if it does; refunded if no decision waits for it any more.
    pub(super) spends: u64,
    /// The account number in the request.
    serial: u64,
    /// The owner that was asked, and may reply.
    to: Member,
    pub(super) sent: Timestamp,
    /// Without duplicates: a decision over many counters joins all their requests again after every reply;
    /// duplicates would double with each one.
    pub(super) tickets: BTreeSet<Ticket>,
}

impl Node {
    /// Sends a request to the owner of a counter. Without an owner nothing is sent, and the time runs out.
    pub(super) fn ask(
        &mut self,
        counter: &Unseen,
        kind: Kind,
        tickets: Vec<Ticket>,
        want: Want,
        now: Timestamp,
    ) -> Option<u64> {
        let id = self.number();
        self.ask_as(id, counter, kind, tickets, want, now)
    }

    /// The same with a number that may be in use already: a repeated request is served once.
    pub(super) fn ask_as(
        &mut self,
        id: u64,
        counter: &Unseen,
        kind: Kind,
        tickets: Vec<Ticket>,
        want: Want,
        now: Timestamp,
    ) -> Option<u64> {
        let mut page = self.shelf.books.page(&counter.key, counter.tag)?;
        let to = page.view.owner(counter.key)?.clone();
        let Side::Purse(purse) = &mut page.side else { return None };
        purse.told(now);
        let subject = Subject { key: counter.key, limit: counter.limit };
        let (serial, report) = (purse.serial(), purse.report());
        let place = Place { subject, view: page.view.id(), tag: counter.tag };
        let item = Item::Ask { id, place, report, want };
        drop(page);
        let least = match want {
            Want::Lend { need, .. } => need,
            _ => 0,
        };
        let spends = match want {
            Want::Do { action: Action::Spend { .. }, cost } => cost,
            _ => 0,
        };
        self.urge(&to.id, item);
        let (key, tag) = (counter.key, counter.tag);
        let tickets = tickets.into_iter().collect();
        let ask = Ask { id, key, tag, kind, least, spends, serial, to, sent: now, tickets };
        self.asks.insert(id, ask);
        self.asked = self.asked.saturating_add(1);
        Some(id)
    }

    pub(super) fn urge(&mut self, to: &NodeId, item: Item) {
        if let Some(link) = self.links.get_mut(to) {
            link.urgent.push(item);
        }
    }

    /// Requests the allowance that a batch lacks. Returns whether it has to wait for any.
    pub(super) fn ask_for_rights(
        &mut self,
        ticket: Ticket,
        batch: &[Owed],
        trials: &[Trial],
        context: Context,
    ) -> bool {
        let mut waits = false;
        for (charge, trial) in batch.iter().zip(trials) {
            if trial.lacks > 0 {
                waits |= self.want_rights(Some(ticket), charge, trial.lacks, context.now);
            }
        }
        waits
    }

    /// A bounded limit never waits, but the next request must find what this one lacked.
    pub(super) fn ask_for_the_next(&mut self, batch: &[Owed], trials: &[Trial], context: Context) {
        let mut asked = false;
        for (charge, trial) in batch.iter().zip(trials) {
            let bounded = charge.consistency == Consistency::Bounded;
            if bounded && charge.op == Op::Spend && !trial.verdict.is_admitted() {
                asked |= self.want_rights(None, charge, charge.cost, context.now);
            }
        }
        if asked {
            self.flush_urgent(context.now);
        }
    }

    fn want_rights(&mut self, ticket: Option<Ticket>, charge: &Owed, lacks: u64, now: Timestamp) -> bool {
        let tag = tag_at(&charge.limit, now);
        let Some(mut book) = self.shelf.books.get_mut(&charge.key) else { return false };
        if let Some(id) = book.asked
            && let Some(ask) = self.asks.get_mut(&id.get())
            && ask.tag == tag
        {
            ask.tickets.extend(ticket);
            return true;
        }
        let Some(page) = book.page(tag) else { return false };
        let Side::Purse(purse) = &page.side else { return false };
        if purse.is_exhausted(lacks, now) {
            return false;
        }
        // Nothing is granted beyond the window's end.
        let rest = match charge.limit {
            Limit::TokenBucket(_) => HORIZON,
            _ => super::held::ends(&charge.limit, tag, now).since(now),
        };
        let ahead = book.demand.within(HORIZON.min(rest), now);
        drop(book);
        let counter = Unseen { key: charge.key, limit: charge.limit, tag };
        let want = Want::Lend { need: lacks, ahead };
        let id = self.ask(&counter, Kind::Lend, ticket.into_iter().collect(), want, now);
        if let Some(mut book) = self.shelf.books.get_mut(&charge.key) {
            book.asked = id.and_then(NonZeroU64::new);
        }
        id.is_some()
    }

    /// Handles the owner's reply.
    pub(super) fn on_answer(
        &mut self,
        now: Timestamp,
        from: &Member,
        id: u64,
        place: &Place,
        word: &Word,
        reply: &Reply,
    ) {
        let key = place.subject.key;
        // Numbers can be guessed: only the owner that was asked may reply.
        let asked = self.asks.get(&id).is_some_and(|ask| ask.to == *from && ask.key == key);
        let ask = if asked { self.asks.remove(&id) } else { None };
        let told = place.tag;
        let place = &self.place_here(now, place);
        if let Some(mut book) = self.shelf.books.get_mut(&key) {
            if book.asked.is_some_and(|other| other.get() == id) && asked {
                book.asked = None;
            }
            let limit = book.limit();
            // A late grant is kept for the next request.
            if let Some(page) = book.page(place.tag)
                && page.view.id() == place.view
                && page.view.owner(key) == Some(from)
                && let Side::Purse(purse) = &mut page.side
                && !matches!(reply, Reply::Elsewhere | Reply::Seen(None))
            {
                page.tag = page.tag.max(told);
                if ask.as_ref().is_some_and(|ask| ask.kind == Kind::Lend && ask.serial == 0) {
                    purse.adopt(word.serial);
                }
                if word.serial > purse.serial() {
                    page.begin_anew(now); // Its account is expired.
                }
                page.hear(word, &limit, now);
                if let (Reply::Exhausted, Some(ask), Side::Purse(purse)) = (reply, &ask, &mut page.side)
                    && word.serial == purse.serial()
                {
                    let until = now.saturating_add(self.options.sync_interval / 2);
                    purse.remember_exhausted(ask.least, until);
                }
            }
        }
        let Some(ask) = ask else { return };
        match ask.kind {
            Kind::Lend => {
                let last = *reply == Reply::Elsewhere;
                for ticket in &ask.tickets {
                    if last { self.give_up(*ticket, now) } else { self.retry(*ticket, now) }
                }
            }
            Kind::Forget => self.on_forgotten(&ask, reply),
            Kind::Survey => self.on_surveyed(&ask, from, reply),
            Kind::Look | Kind::Do => self.on_remote_answer(now, &ask, reply),
        }
    }
}
