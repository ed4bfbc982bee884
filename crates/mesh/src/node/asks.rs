//! Asks: one for each counter at a time, shared by all that wait for it. The owner grants,
//! or recalls what lies unspent elsewhere and lets the ask wait for it a moment, or says that
//! there is nothing; that is remembered, so a flood of refusals is no flood of asks.

use super::remote::Unseen;
use super::{Node, Ticket};
use crate::batch::{Owed, Trial};
use crate::codec::tag_at;
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Reply, Report, Want, Word};
use crate::member::Member;
use crate::options::Consistency;
use crate::owner::NodeId;
use crate::page::{Page, Side};
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::{Context, Key, Op};
use hivemind_core::{Cost, Limit, Timestamp};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// Asks that may wait at an owner at once.
const MOST_PARKED: usize = 4_096;
/// Spendings for a peer that may still be undone: it knows after a round trip.
const MOST_UNDONE: usize = 1_024;
/// How much demand an ask provides for.
const HORIZON: Duration = Duration::from_millis(60);

/// What an ask is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lend,
    Look,
    Do,
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
    pub(super) tickets: Vec<Ticket>,
}

/// Somebody that waits for what was recalled.
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
}

#[derive(Clone, Debug)]
pub(super) enum Asker {
    Here(Ticket),
    Peer { member: Arc<Member>, id: u64, need: u64, ahead: u64 },
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

    pub(super) fn park(&mut self, parked: Parked) -> bool {
        let has_room = self.parked.len() < MOST_PARKED;
        if has_room {
            self.parked.push(parked);
        }
        has_room
    }

    /// A peer asks this node for something.
    pub(super) fn on_ask(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        id: u64,
        place: &Place,
        report: &Report,
        want: Want,
    ) {
        let place = self.place_here(now, place);
        if !self.links.get_mut(&from.id).is_some_and(|link| link.replay.is_first(id)) {
            return; // The network brought it twice.
        }
        if let Want::Undo { of } = want {
            return self.undo(now, from, of);
        }
        if want == Want::Forget {
            self.hear_asker(now, from, &place, report);
            return self.on_forget(now, from, id, &place);
        }
        let reply = match self.open_by(now, from, &place, true) {
            Some(limit) => self.serve(now, from, id, &place, report, want, &limit),
            None => Some(Reply::Elsewhere),
        };
        if let Some(reply) = reply {
            self.answer(now, from, id, &place, reply);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of an ask, and the limit it is served by")]
    fn serve(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        id: u64,
        place: &Place,
        report: &Report,
        want: Want,
        limit: &Limit,
    ) -> Option<Reply> {
        let key = place.subject.key;
        let Some(mut page) = self.shelf.books.page(&key, place.tag) else { return Some(Reply::Elsewhere) };
        let moment = page.moment_of(limit, &self.options, now);
        let decides = page.decides(limit, &self.options);
        let Side::Till(till) = &mut page.side else { return Some(Reply::Elsewhere) };
        if !till.has_room_for(limit, from, moment) {
            return Some(Reply::Exhausted);
        }
        if matches!(want, Want::Lend { .. }) {
            till.open_account(limit, from, report, moment);
        }
        let before = till.state;
        till.hear(limit, from, report, (decides, moment));
        if matches!(want, Want::Lend { .. }) && !till.is_of(from, report) && report.serial != 0 {
            return Some(Reply::Exhausted); // The word says which account it has; it begins anew.
        }
        if let Want::Lend { need, ahead } = want {
            if till.lend(limit, from, need, ahead, moment) {
                return Some(Reply::Lent);
            }
            drop(page);
            if self.recall(key, place.tag, need, now) {
                let until = now.saturating_add(self.options.ask_timeout * 2 / 3);
                let who = Asker::Peer { member: Arc::clone(from), id, need, ahead };
                if self.park(Parked { key, tag: place.tag, until, who }) {
                    return None;
                }
            }
            return Some(Reply::Exhausted);
        }
        Some(match want {
            Want::Look | Want::Forget | Want::Undo { .. } => {
                Reply::Seen(till.state.map(hivemind_core::algorithm::State::bits))
            }
            Want::Do { action, cost } => {
                let verdict = match action {
                    Action::Peek => till.peek(limit, cost, moment).verdict,
                    Action::Refund => {
                        let known = cost.min(till.refundable(limit, decides));
                        till.note_refunded(known);
                        till.apply(limit, action, known, moment).verdict
                    }
                    _ => till.apply(limit, action, cost, moment).verdict,
                };
                if verdict.is_admitted() && matches!(action, Action::Spend { .. }) || action == Action::Debit
                {
                    till.note_spent(cost);
                }
                let recalls = !verdict.is_admitted() && till.may_recall(limit, decides);
                page.follow_state(limit, &self.options);
                if verdict.is_admitted()
                    && matches!(action, Action::Spend { .. })
                    && let Some(link) = self.links.get_mut(&from.id)
                {
                    link.done.push_back((id, key, page.tag, cost));
                    if link.done.len() > MOST_UNDONE {
                        link.done.pop_front();
                    }
                }
                drop(page);
                if recalls && matches!(action, Action::Spend { .. }) {
                    self.recall(key, place.tag, cost, now); // For the next: this one does not wait.
                }
                Reply::Done(verdict)
            }
            Want::Tell { action, cost } => {
                let verdict = step(&till.room(limit), before, action, Cost::new(cost), moment).verdict;
                page.follow_state(limit, &self.options);
                Reply::Done(verdict)
            }
            Want::Lend { .. } => Reply::Exhausted,
        })
    }

    pub(super) fn answer(&mut self, now: Timestamp, to: &Arc<Member>, id: u64, place: &Place, reply: Reply) {
        let limit = place.subject.limit;
        let moment = Page::moment(place.tag, &limit, now);
        let mut page = self.shelf.books.page(&place.subject.key, place.tag);
        let decides = page.as_ref().is_some_and(|page| page.decides(&limit, &self.options));
        let word = match page.as_mut().map(|page| &mut page.side) {
            // Who has no account is told that there is nothing, and gets none by that.
            Some(Side::Till(till)) if reply != Reply::Elsewhere && till.knows(to) => {
                till.word(&limit, to, (decides, moment))
            }
            _ => Word::default(),
        };
        drop(page);
        self.urge(&to.id, Item::Answer { id, place: *place, word, reply });
    }

    /// Something came back: those that wait for it are served, as far as it goes.
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
                && *reply != Reply::Elsewhere
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
            Kind::Look | Kind::Do => self.on_remote_answer(now, &ask, reply),
        }
    }
}
