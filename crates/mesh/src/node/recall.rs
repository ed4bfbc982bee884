//! Recall: an owner with nothing left asks members to return allowance; requests that wait for it are pending.

use super::parked::{Asker, Parked};
use super::{EARLY, Node, Ticket};
use crate::batch::{Owed, Trial};
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Word};
use crate::member::Member;
use crate::options::Consistency;
use crate::page::{Page, Side};
use crate::window::tag_at;
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, Key, Op};
use std::time::Duration;

impl Node {
    /// Recalls allowance of this node's own counters from members, where a batch would be refused without it.
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
                let page = shelf.books.page(&charge.key, tag).filter(|_| lacks);
                page.is_some_and(|page| {
                    let decides = page.decides(&charge.limit, options);
                    matches!(&page.side, Side::Till(till) if till.may_recall(&charge.limit, decides))
                })
            })
    }

    /// Asks members to return their allowance. Returns whether that may bring something.
    pub(super) fn recall(&mut self, key: Key, tag: u64, cost: u64, now: Timestamp) -> bool {
        let Some(mut book) = self.shelf.books.get_mut(&key) else { return false };
        let limit = book.limit();
        let Some(page) = book.page(tag) else { return false };
        let decides = page.decides(&limit, &self.options);
        if !self.options.recall || cost > u64::from(limit.burst()) {
            return false;
        }
        let (view, moment) = (std::sync::Arc::clone(&page.view), Page::moment(tag, &limit, now));
        let Side::Till(till) = &mut page.side else { return false };
        let is_enough = till.left(&limit, moment).saturating_add(till.held()) >= cost || till.is_inherited();
        if !is_enough || !till.may_recall(&limit, decides) {
            return false;
        }
        // An earlier recall is still in flight.
        let pause = if till.held() > 0 { EARLY } else { EARLY * 20 };
        if till.recalled().is_some_and(|at| now.since(at) < pause) {
            return till.recalled().is_some_and(|at| now.since(at) < self.options.ask_timeout);
        }
        let accounts = till.accounts().iter().map(|account| &*account.member);
        let guests = accounts.filter(|member| !view.has(member));
        let holders = view.members().iter().chain(guests).filter(|member| till.may_hold(member));
        let holders: Vec<Member> = holders.cloned().collect();
        till.note_recalled(now);
        drop(book);
        let mut told = false;
        let me = self.council.me.clone();
        for member in holders.iter().filter(|member| **member != me) {
            let Some(link) = self.links.get_mut(&member.id) else { continue };
            let run = link.run(&member.id);
            let Some(mut page) = self.shelf.books.page(&key, tag) else { break };
            let Side::Till(till) = &mut page.side else { break };
            if *run != *member
                || !self.peers.is_heard(member, now)
                || self.peers.is_apart(&member.id, &limit, self.clock.slew)
            {
                continue;
            }
            let word = Word { recall: true, ..till.word(&limit, &run, (false, moment)) };
            drop(page);
            let place = Place { subject: Subject { key, limit }, view: view.id(), tag };
            self.urge(&member.id.clone(), Item::Word(place, word));
            told = true;
        }
        self.flush_urgent(now);
        told
    }

    /// A bucket with granted tokens is unused: they come back, or belong to a dead generation.
    pub(super) fn recall_idle(&mut self, key: Key, now: Timestamp) {
        let Self { shelf, peers, .. } = self;
        let Some(mut book) = shelf.books.get_mut(&key) else { return };
        let limit = book.limit();
        if let Some(Side::Till(till)) = book.page(0).map(|page| &mut page.side) {
            till.bury(&limit, |member| peers.is_dead(member, now, Duration::ZERO), now);
        }
        drop(book);
        self.recall(key, 0, 1, now);
    }
}
