//! Asks: one for each counter at a time, shared by all that wait for it. The owner grants,
//! or recalls what lies unspent elsewhere and lets the ask wait for it a moment, or says that
//! there is nothing; that is remembered, so a flood of refusals is no flood of asks.

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

/// How much demand an ask provides for.
const HORIZON: Duration = Duration::from_millis(60);

/// What an ask is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lend,
    Look,
    Do,
    Forget,
    Survey,
}

/// An ask that is under way.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) id: u64,
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) kind: Kind,
    pub(super) least: u64,
    /// What the owner spends by it, if it does: to be given back if nobody waits for it any more.
    pub(super) spends: u64,
    /// Of which account the asker spoke.
    serial: u64,
    /// Who was asked, and may answer.
    to: Member,
    pub(super) sent: Timestamp,
    /// Each once: a request of many counters joins all of their asks again whenever one of them is answered, and twice in each would be
    /// twice as often with every answer.
    pub(super) tickets: BTreeSet<Ticket>,
}

impl Node {
    /// Sends an ask to the owner of a counter. Without one nothing is sent, and the time runs out.
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

    /// The same under a number that it may have had before: what is asked again is done once.
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

    /// Asks for the rights that a batch lacks. Says whether it has to wait for any.
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

    /// A bounded limit never waits, but the next request shall find what this one did not.
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
        // Nothing is lent for after the window's end.
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

    /// The owner answered.
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
        // Numbers can be guessed: only who was asked may answer.
        let asked = self.asks.get(&id).is_some_and(|ask| ask.to == *from && ask.key == key);
        let ask = if asked { self.asks.remove(&id) } else { None };
        let told = place.tag;
        let place = &self.place_here(now, place);
        if let Some(mut book) = self.shelf.books.get_mut(&key) {
            if book.asked.is_some_and(|other| other.get() == id) && asked {
                book.asked = None;
            }
            let limit = book.limit();
            // A grant that comes late is kept for the next.
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
                    page.begin_anew(now); // What it spoke of is over.
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
