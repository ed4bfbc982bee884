//! An owner that has nothing left asks those that may hold something to return it; what waits for it is parked.

use super::asks::{Asker, Parked};
use super::{EARLY, Node, Ticket};
use crate::batch::{Owed, Trial};
use crate::codec::tag_at;
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Word};
use crate::member::Member;
use crate::options::Consistency;
use crate::page::{Page, Regime, Side};
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, Key, Op};
use std::time::Duration;

impl Node {
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
                let page = shelf.books.page(&charge.key, tag).filter(|_| lacks);
                page.is_some_and(|page| {
                    let regime = Regime::of(&charge.limit, page.view.members().len(), options);
                    matches!(&page.side, Side::Till(till) if regime != Regime::Decides && (till.held() > 0 || till.is_inherited()))
                })
            })
    }

    /// Asks members for what they hold. Says whether something may come of it.
    pub(super) fn recall(&mut self, key: Key, tag: u64, cost: u64, now: Timestamp) -> bool {
        let Some(mut book) = self.shelf.books.get_mut(&key) else { return false };
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
        drop(book);
        let mut told = false;
        let me = self.council.me.clone();
        for member in holders.iter().chain(&guests).filter(|member| **member != me) {
            let Some(mut page) = self.shelf.books.page(&key, tag) else { break };
            let Side::Till(till) = &mut page.side else { break };
            if !self.peers.is_heard(member, now) || self.peers.is_apart(&member.id, &limit, self.clock.slew) {
                continue;
            }
            let word = Word { recall: true, ..till.word(&limit, member, (false, moment)) };
            drop(page);
            let place = Place { subject: Subject { key, limit }, view: view.id(), tag };
            self.urge(&member.id.clone(), Item::Word(place, word));
            told = true;
        }
        self.flush_urgent(now);
        told
    }

    /// Nobody uses a bucket whose tokens are lent: they come back, or are those of a run that is over.
    pub(super) fn recall_idle(&mut self, key: Key, now: Timestamp) {
        let Self { shelf, peers, .. } = self;
        let Some(mut book) = shelf.books.get_mut(&key) else { return };
        let limit = book.limit;
        if let Some(Side::Till(till)) = book.page(0).map(|page| &mut page.side) {
            till.bury(&limit, |member| peers.is_dead(member, now, Duration::ZERO), now);
        }
        drop(book);
        self.recall(key, 0, 1, now);
    }
}
