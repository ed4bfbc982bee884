//! Recall: an owner with nothing left asks members to return allowance; requests that wait for it are pending.

use super::parked_grants::{Asker, ParkedGrant};
use super::{EARLY, Node, Ticket};
use crate::counter::counter_window::{CounterWindow, Side};
use crate::frame::interner::CounterRef;
use crate::frame::{Item, OwnerUpdate, WindowRef};
use crate::node::batch::{OwnedCharge, Trial};
use crate::options::Consistency;
use crate::view::Member;
use crate::window::tag_at;
use hivemind_core::Timestamp;
use hivemind_core::store::{Context, Key, Op};
use std::time::Duration;

impl Node {
    /// Recalls allowance of this node's own counters from members, where a batch would be refused without it.
    pub(super) fn recall_for(
        &mut self,
        ticket: Ticket,
        batch: &[OwnedCharge],
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
                waits |= self.park(ParkedGrant { key: charge.key, tag, until, who: Asker::Here(ticket) });
            }
        }
        waits
    }

    /// Whether a recall might bring what a batch lacks of this node's own counters.
    pub(super) fn could_recall(&mut self, batch: &[OwnedCharge], trials: &[Trial], context: Context) -> bool {
        let Self { options, table, .. } = self;
        options.recall
            && batch.iter().zip(trials).any(|(charge, trial)| {
                let exact = charge.consistency == Consistency::Exact;
                let lacks = exact && charge.op == Op::Spend && !trial.verdict.is_admitted();
                let tag = tag_at(&charge.limit, context.now);
                let window = table.counters.window(&charge.key, tag).filter(|_| lacks);
                window.is_some_and(|window| {
                    let decides = window.decides(&charge.limit, options);
                    matches!(&window.side, Side::Ledger(ledger) if ledger.may_recall(&charge.limit, decides))
                })
            })
    }

    /// Asks members to return their allowance. Returns whether that may bring something.
    pub(super) fn recall(&mut self, key: Key, tag: u64, cost: u64, now: Timestamp) -> bool {
        let Some(mut counter) = self.table.counters.get_mut(&key) else { return false };
        let limit = counter.limit();
        let Some(window) = counter.window(tag) else { return false };
        let decides = window.decides(&limit, &self.options);
        if !self.options.recall || cost > u64::from(limit.burst()) {
            return false;
        }
        let (view, moment) = (std::sync::Arc::clone(&window.view), CounterWindow::moment(tag, &limit, now));
        let Side::Ledger(ledger) = &mut window.side else { return false };
        let is_enough =
            ledger.left(&limit, moment).saturating_add(ledger.held()) >= cost || ledger.is_inherited();
        if !is_enough || !ledger.may_recall(&limit, decides) {
            return false;
        }
        // An earlier recall is still in flight.
        let pause = if ledger.held() > 0 { EARLY } else { EARLY * 20 };
        if ledger.recalled().is_some_and(|at| now.since(at) < pause) {
            return ledger.recalled().is_some_and(|at| now.since(at) < self.options.ask_timeout);
        }
        let accounts = ledger.accounts().iter().map(|account| &*account.member);
        let observers = accounts.filter(|member| !view.has(member));
        let holders = view.members().iter().chain(observers).filter(|member| ledger.may_hold(member));
        let holders: Vec<Member> = holders.cloned().collect();
        ledger.note_recalled(now);
        drop(counter);
        let mut sent = false;
        let me = self.membership.me.clone();
        for member in holders.iter().filter(|member| **member != me) {
            let Some(link) = self.links.get_mut(&member.id) else { continue };
            let present = link.member(&member.id);
            let Some(mut window) = self.table.counters.window(&key, tag) else { break };
            let Side::Ledger(ledger) = &mut window.side else { break };
            if *present != *member
                || !self.peers.is_heard(member, now)
                || self.peers.is_apart(&member.id, &limit, self.clock.slew)
            {
                continue;
            }
            let update = OwnerUpdate { recall: true, ..ledger.update_for(&limit, &present, (false, moment)) };
            drop(window);
            let window_ref = WindowRef { counter: CounterRef { key, limit }, view: view.id(), tag };
            self.urge(&member.id.clone(), Item::Update(window_ref, update));
            sent = true;
        }
        self.flush_urgent(now);
        sent
    }

    /// A bucket with granted tokens is unused: they come back, or belong to a dead generation.
    pub(super) fn recall_idle(&mut self, key: Key, now: Timestamp) {
        let Self { table, peers, .. } = self;
        let Some(mut counter) = table.counters.get_mut(&key) else { return };
        let limit = counter.limit();
        if let Some(Side::Ledger(ledger)) = counter.window(0).map(|window| &mut window.side) {
            ledger.remove_accounts(&limit, |member| peers.is_dead(member, now, Duration::ZERO), now);
        }
        drop(counter);
        self.recall(key, 0, 1, now);
    }
}
