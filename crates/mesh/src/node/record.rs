//! Recording a decision: in this node's counters, and at the owner, which immediately receives what only it can
//! apply.

use super::Node;
use crate::counter::counter_window::Side;
use crate::frame::interner::CounterRef;
use crate::frame::{Item, WindowRef};
use crate::node::batch::{KnownState, OwnedCharge, Trial};
use crate::options::Consistency;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};

impl Node {
    /// Records the effect of a charge here. Returns how much of it the owner has to apply.
    pub(super) fn record(
        &mut self,
        charge: &OwnedCharge,
        action: Action,
        after: &KnownState,
        trial: &Trial,
        now: Timestamp,
    ) -> u64 {
        let tag = self.table.tag(&self.membership, &self.options, (charge.key, &charge.limit), now);
        let eventual = charge.consistency == Consistency::Eventual;
        let Some(mut counter) = self.table.counters.get_mut(&charge.key) else { return 0 };
        let spends = matches!(action, Action::Spend { .. }) && trial.verdict.is_admitted();
        if counter.window(tag).is_none() && !eventual {
            counter.record_alone(tag, action, spends, charge.cost);
            self.beyond_rights = self.beyond_rights.saturating_add(if spends { charge.cost } else { 0 });
            return 0;
        }
        if eventual {
            if let KnownState::Counter { state: Some(state), .. } = after {
                counter.counted = Some(Box::new(*state));
            }
            drop(counter);
            if spends || action == Action::Debit {
                self.count_eventual(charge, tag);
            }
            return 0;
        }
        let Some(window) = counter.window(tag) else { return 0 };
        let decides = window.decides(&charge.limit, &self.options);
        let moment = window.moment_of(&charge.limit, &self.options, now);
        let rest = match (&mut window.side, after) {
            (_, KnownState::Alone { .. }) => 0,
            (_, KnownState::LocalShare { state, .. }) => {
                counter.cold.change(|cold| cold.local_bucket = *state);
                self.beyond_rights = self.beyond_rights.saturating_add(if spends { charge.cost } else { 0 });
                return 0;
            }
            (Side::Ledger(ledger), after) => {
                if let KnownState::Counter { state, .. } = after {
                    ledger.state = *state;
                }
                match action {
                    Action::Spend { .. } if spends => ledger.note_spent(charge.cost),
                    Action::Debit => ledger.note_debited(charge.cost),
                    Action::Refund => {
                        let given = charge.cost.min(ledger.refundable(&charge.limit, decides));
                        ledger.note_refunded(given);
                        ledger.pass_on(&charge.limit, given, decides, moment);
                    }
                    Action::Count if !decides => ledger.note_refused(charge.cost),
                    _ => {}
                }
                window.follow_state(&charge.limit, &self.options);
                if action == Action::Refund {
                    counter.set_queued(true);
                }
                return 0;
            }
            // Where nothing is ever granted, one counter window covers all windows. A total that is repeated
            // after its ledger is gone would count in a window that it does not belong to: a request applies it
            // instead.
            (Side::Lease(_), KnownState::Counter { .. }) if spends || !self.options.grant_ahead => {
                return charge.cost;
            }
            (Side::Lease(lease), KnownState::Counter { .. }) => {
                match action {
                    Action::Refund => lease.give(charge.cost),
                    Action::Debit => lease.owe(charge.cost),
                    Action::Count => lease.refuse(charge.cost),
                    Action::Spend { .. } | Action::Peek => {}
                }
                0
            }
            (Side::Lease(lease), KnownState::Allowance { .. }) => {
                let can = u64::try_from(lease.unspent()).unwrap_or(0);
                match action {
                    Action::Spend { .. } if spends => {
                        let beyond = charge.cost.saturating_sub(can);
                        self.beyond_rights = self.beyond_rights.saturating_add(beyond);
                        // A bucket has no end at which a debt would lapse.
                        let is_bucket = matches!(charge.limit, Limit::TokenBucket(_));
                        lease.spend(if is_bucket { charge.cost.min(can) } else { charge.cost });
                        0
                    }
                    Action::Debit => {
                        lease.spend(charge.cost.min(can));
                        lease.owe(charge.cost.saturating_sub(can));
                        0
                    }
                    // Refunded tokens of a bucket need room, which only its owner knows.
                    Action::Refund if matches!(charge.limit, Limit::TokenBucket(_)) => {
                        lease.give(charge.cost);
                        0
                    }
                    Action::Refund => {
                        let own = lease.give_back(charge.cost);
                        lease.give(charge.cost - own);
                        0
                    }
                    Action::Spend { .. } | Action::Count => {
                        lease.refuse(charge.cost);
                        0
                    }
                    Action::Peek => 0,
                }
            }
        };
        counter.set_queued(true);
        drop(counter);
        if matches!(action, Action::Refund | Action::Debit) || decides && action == Action::Count {
            self.report_now(charge.key, tag, now);
        }
        rest
    }

    /// Sends a counter's owner immediately what it has to apply. It is repeated until acknowledged.
    pub(super) fn report_now(&mut self, key: Key, tag: u64, now: Timestamp) {
        let Some(mut counter) = self.table.counters.get_mut(&key) else { return };
        let limit = counter.limit();
        let Some(window) = counter.window(tag) else { return };
        let Side::Lease(lease) = &mut window.side else { return };
        if !lease.is_unacked() {
            return;
        }
        let Some(owner) = window.view.owner(key).map(|owner| owner.id.clone()) else { return };
        let window_ref = WindowRef { counter: CounterRef { key, limit }, view: window.view.id(), tag };
        lease.mark_sent(now);
        let item = Item::Report(window_ref, lease.report());
        drop(counter);
        self.urge(&owner, item);
    }

    /// An `eventual` limit was spent: all members that spend it need an update.
    fn count_eventual(&mut self, charge: &OwnedCharge, tag: u64) {
        let mut window = self.table.counters.window(&charge.key, tag);
        match window.as_mut().map(|window| &mut window.side) {
            Some(Side::Ledger(ledger)) => {
                ledger.note_spent(charge.cost);
                ledger.mark_all_dirty();
            }
            Some(Side::Lease(lease)) => lease.spend(charge.cost),
            None => {}
        }
        drop(window);
        self.queue(charge.key);
    }
}
