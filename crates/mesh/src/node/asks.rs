//! Asks: one for each counter at a time, shared by all that wait for it. The owner grants,
//! or recalls what lies unspent elsewhere and lets the ask wait for it a moment, or says that
//! there is nothing; that is remembered, so a flood of refusals is no flood of asks.

use super::remote::Unseen;
use super::{EARLY, Node, Ticket};
use crate::batch::{Owed, Trial};
use crate::codec::tag_at;
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Reply, Report, Want, Word};
use crate::member::Member;
use crate::options::Consistency;
use crate::owner::NodeId;
use crate::page::{Page, Regime, Side};
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::{Context, Key, Op};
use hivemind_core::{Cost, Limit, Timestamp};
use std::time::Duration;

/// Asks that may wait at an owner at once.
const MOST_PARKED: usize = 4_096;
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
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) kind: Kind,
    pub(super) least: u64,
    /// What the owner spends by it, if it does: to be given back if nobody waits for it any more.
    pub(super) spends: u64,
    /// Of which account the asker spoke.
    serial: u64,
    pub(super) sent: Timestamp,
    pub(super) tickets: Vec<Ticket>,
}

/// Somebody that waits for what was recalled.
#[derive(Clone, Debug)]
pub(super) struct Parked {
    key: Key,
    tag: u64,
    pub(super) until: Timestamp,
    who: Asker,
}

#[derive(Clone, Debug)]
enum Asker {
    Here(Ticket),
    Peer { member: Member, id: u64, need: u64, ahead: u64 },
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
        let book = self.shelf.books.get_mut(&counter.key)?;
        let page = book.page(counter.tag)?;
        let Side::Purse(purse) = &mut page.side else { return None };
        let owner = page.view.owner(counter.key)?.id.clone();
        purse.told(now);
        let subject = Subject { key: counter.key, limit: counter.limit };
        let place = Place { subject, view: page.view.id(), tag: counter.tag };
        let serial = purse.serial;
        let item = Item::Ask { id, place, report: purse.report(), want };
        let least = match want {
            Want::Lend { need, .. } => need,
            _ => 0,
        };
        let spends = match want {
            Want::Do { action: Action::Spend { .. }, cost } => cost,
            _ => 0,
        };
        self.urge(&owner, item);
        let ask = Ask { key: counter.key, tag: counter.tag, kind, least, spends, serial, sent: now, tickets };
        self.asks.insert(id, ask);
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
        let Some(book) = self.shelf.books.get_mut(&charge.key) else { return false };
        if let Some(id) = book.asked
            && let Some(ask) = self.asks.get_mut(&id)
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
        let rest = super::super::codec::period_nanos(&charge.limit);
        let ahead = book.demand.within(HORIZON.min(Duration::from_nanos(rest)), now);
        let counter = Unseen { key: charge.key, limit: charge.limit, tag };
        let want = Want::Lend { need: lacks, ahead };
        let id = self.ask(&counter, Kind::Lend, ticket.into_iter().collect(), want, now);
        if let Some(book) = self.shelf.books.get_mut(&charge.key) {
            book.asked = id;
        }
        id.is_some()
    }

    /// Recalls what members hold of this node's own counters, where a batch would be refused for lack of it.
    pub(super) fn recall_for(
        &mut self,
        ticket: Ticket,
        batch: &[Owed],
        trials: &[Trial],
        context: Context,
    ) -> bool {
        if !self.options.recall {
            return false;
        }
        let mut waits = false;
        for (charge, trial) in batch.iter().zip(trials) {
            if charge.op != Op::Spend
                || trial.verdict.is_admitted()
                || charge.consistency != Consistency::Exact
            {
                continue;
            }
            let tag = tag_at(&charge.limit, context.now);
            if self.recall(charge.key, tag, charge.cost, context.now) {
                let until = context.now.saturating_add(self.options.ask_timeout);
                waits |= self.park(Parked { key: charge.key, tag, until, who: Asker::Here(ticket) });
            }
        }
        waits
    }

    /// Whether a recall might bring what a batch lacks of this node's own counters.
    pub(super) fn could_recall(&mut self, batch: &[Owed], trials: &[Trial], context: Context) -> bool {
        let Self { options, shelf, .. } = self;
        options.recall
            && batch.iter().zip(trials).any(|(charge, trial)| {
                let exact = charge.consistency == Consistency::Exact;
                let lacks = exact && charge.op == Op::Spend && !trial.verdict.is_admitted();
                let tag = tag_at(&charge.limit, context.now);
                let page = shelf.books.get_mut(&charge.key).filter(|_| lacks).and_then(|book| book.page(tag));
                page.is_some_and(|page| {
                    let regime = Regime::of(&charge.limit, page.view.members().len(), options);
                    matches!(&page.side, Side::Till(till) if regime != Regime::Decides && (till.held() > 0 || till.is_inherited()))
                })
            })
    }

    fn park(&mut self, parked: Parked) -> bool {
        let has_room = self.parked.len() < MOST_PARKED;
        if has_room {
            self.parked.push(parked);
        }
        has_room
    }

    /// Asks members for what they hold. Says whether something may come of it.
    fn recall(&mut self, key: Key, tag: u64, cost: u64, now: Timestamp) -> bool {
        let Some(book) = self.shelf.books.get_mut(&key) else { return false };
        let limit = book.limit;
        let Some(page) = book.page(tag) else { return false };
        let regime = Regime::of(&limit, page.view.members().len(), &self.options);
        if !self.options.recall || regime == Regime::Decides || cost > u64::from(limit.burst()) {
            return false;
        }
        let (view, moment) = (std::sync::Arc::clone(&page.view), Page::moment(tag, &limit, now));
        let Side::Till(till) = &mut page.side else { return false };
        if till.left(&limit, moment).saturating_add(till.held()) < cost && !till.is_inherited() {
            return false;
        }
        // What was recalled a moment ago is on its way.
        let pause = if till.held() > 0 { EARLY } else { EARLY * 20 };
        if till.recalled.is_some_and(|at| now.since(at) < pause) {
            return till.recalled.is_some_and(|at| now.since(at) < self.options.ask_timeout);
        }
        let holders: Vec<Member> =
            view.members().iter().filter(|member| till.may_hold(member)).cloned().collect();
        let others = till.accounts().iter().map(|account| &account.member).filter(|member| !view.has(member));
        let guests: Vec<Member> = others.filter(|member| till.may_hold(member)).cloned().collect();
        till.recalled = Some(now);
        let mut told = false;
        let me = self.council.me.clone();
        for member in holders.iter().chain(&guests).filter(|member| **member != me) {
            let Some(page) = self.shelf.books.get_mut(&key).and_then(|book| book.page(tag)) else { break };
            let Side::Till(till) = &mut page.side else { break };
            if !self.peers.is_heard(member, now) {
                continue;
            }
            let word = Word { recall: true, ..till.word(&limit, member, (false, moment)) };
            let place = Place { subject: Subject { key, limit }, view: view.id(), tag };
            self.urge(&member.id.clone(), Item::Word(place, word));
            told = true;
        }
        self.flush_urgent(now);
        told
    }

    /// A peer asks this node for something.
    pub(super) fn on_ask(
        &mut self,
        now: Timestamp,
        from: &Member,
        id: u64,
        place: &Place,
        report: &Report,
        want: Want,
    ) {
        let mut place = *place;
        if want == Want::Forget {
            self.shelf.books.remove(&place.subject.key);
            return;
        }
        if !matches!(want, Want::Lend { .. }) {
            // Where the owner decides everything, it also decides which window it is.
            let (key, limit) = (place.subject.key, place.subject.limit);
            place.tag = self.shelf.tag(&self.council, &self.options, (key, &limit), now);
        }
        let reply = match self.open_told(now, from, &place) {
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
        from: &Member,
        id: u64,
        place: &Place,
        report: &Report,
        want: Want,
        limit: &Limit,
    ) -> Option<Reply> {
        let key = place.subject.key;
        let page = self.shelf.books.get_mut(&key).and_then(|book| book.page(place.tag));
        let Some(page) = page else { return Some(Reply::Elsewhere) };
        let moment = page.moment_of(limit, &self.options, now);
        let decides = page.decides(limit, &self.options);
        let Side::Till(till) = &mut page.side else { return Some(Reply::Elsewhere) };
        if !till.is_new(from, id, moment) {
            return None;
        }
        if matches!(want, Want::Lend { .. }) {
            till.open_account(limit, from, report, moment);
        }
        let before = till.state;
        till.hear(limit, from, report, (decides, moment));
        if matches!(want, Want::Lend { .. }) && !till.is_of(from, report) && report.serial != 0 {
            return Some(Reply::Exhausted); // The word says which account it has; it begins anew.
        }
        Some(match want {
            Want::Look | Want::Forget => Reply::Seen(till.state.map(hivemind_core::algorithm::State::bits)),
            Want::Do { action, cost } => {
                let verdict = match action {
                    Action::Peek => till.peek(limit, cost, moment).verdict,
                    _ => till.apply(limit, action, cost, moment).verdict,
                };
                if verdict.is_admitted() && matches!(action, Action::Spend { .. }) || action == Action::Debit
                {
                    till.note_spent(cost);
                }
                page.follow_state(limit, &self.options);
                Reply::Done(verdict)
            }
            Want::Tell { action, cost } => {
                let verdict = step(&till.room(limit), before, action, Cost::new(cost), moment).verdict;
                page.follow_state(limit, &self.options);
                Reply::Done(verdict)
            }
            Want::Lend { need, ahead } if till.lend(limit, from, need, ahead, moment) => Reply::Lent,
            Want::Lend { need, ahead } => {
                if self.recall(key, place.tag, need, now) {
                    let until = now.saturating_add(self.options.ask_timeout * 2 / 3);
                    let who = Asker::Peer { member: from.clone(), id, need, ahead };
                    if self.park(Parked { key, tag: place.tag, until, who }) {
                        return None;
                    }
                }
                Reply::Exhausted
            }
        })
    }

    fn answer(&mut self, now: Timestamp, to: &Member, id: u64, place: &Place, reply: Reply) {
        let limit = place.subject.limit;
        let moment = Page::moment(place.tag, &limit, now);
        let page = self.shelf.books.get_mut(&place.subject.key).and_then(|book| book.page(place.tag));
        let decides = page.as_ref().is_some_and(|page| page.decides(&limit, &self.options));
        let word = match page.map(|page| &mut page.side) {
            Some(Side::Till(till)) if reply != Reply::Elsewhere => till.word(&limit, to, (decides, moment)),
            _ => Word::default(),
        };
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
        let Some(book) = self.shelf.books.get_mut(&parked.key) else { return };
        let limit = book.limit;
        let Some(page) = book.page(parked.tag) else { return };
        let place =
            Place { subject: Subject { key: parked.key, limit }, view: page.view.id(), tag: parked.tag };
        let moment = Page::moment(parked.tag, &limit, now);
        let Side::Till(till) = &mut page.side else { return };
        if till.lend(&limit, &member, need, ahead, moment) {
            self.answer(now, &member, id, &place, Reply::Lent);
        } else if last {
            self.answer(now, &member, id, &place, Reply::Exhausted);
        } else {
            self.parked.push(parked);
        }
    }

    /// The owner answered.
    pub(super) fn on_answer(&mut self, now: Timestamp, id: u64, place: &Place, word: &Word, reply: &Reply) {
        let ask = self.asks.remove(&id);
        let told = place.tag;
        let place = &self.place_here(now, place);
        if let Some(book) = self.shelf.books.get_mut(&place.subject.key) {
            if book.asked == Some(id) {
                book.asked = None;
            }
            // A grant that comes late is kept for the next.
            if let Some(page) = book.page(place.tag)
                && page.view.id() == place.view
                && let Side::Purse(purse) = &mut page.side
                && *reply != Reply::Elsewhere
            {
                page.tag = page.tag.max(told);
                if ask.as_ref().is_some_and(|ask| ask.kind == Kind::Lend && ask.serial == 0) {
                    purse.adopt(word.serial);
                }
                if word.serial > purse.serial {
                    *purse = crate::purse::Purse::born(now); // What it spoke of is over.
                }
                purse.hear(word);
                if let (Reply::Exhausted, Some(ask)) = (reply, &ask) {
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
