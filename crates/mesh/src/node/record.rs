//! Recording a decision: in this node's counters, and at the owner, which immediately receives what only it can
//! apply.

use super::Node;
use crate::batch::{Known, Owed, Trial};
use crate::dictionary::Subject;
use crate::frame::{Item, Place};
use crate::options::Consistency;
use crate::page::Side;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};

impl Node {
    /// Records the effect of a charge here. Returns how much of it the owner has to apply.
    pub(super) fn record(
        &mut self,
        charge: &Owed,
        action: Action,
        after: &Known,
        trial: &Trial,
        now: Timestamp,
    ) -> u64 {
        let tag = self.shelf.tag(&self.council, &self.options, (charge.key, &charge.limit), now);
        let eventual = charge.consistency == Consistency::Eventual;
        let Some(mut book) = self.shelf.books.get_mut(&charge.key) else { return 0 };
        let spends = matches!(action, Action::Spend { .. }) && trial.verdict.is_admitted();
        if book.page(tag).is_none() && !eventual {
            book.note_alone(tag, action, spends, charge.cost);
            self.beyond_rights = self.beyond_rights.saturating_add(if spends { charge.cost } else { 0 });
            return 0;
        }
        if eventual {
            if let Known::Counter { state: Some(state), .. } = after {
                book.counted = Some(Box::new(*state));
            }
            drop(book);
            if spends || action == Action::Debit {
                self.count_eventual(charge, tag);
            }
            return 0;
        }
        let Some(page) = book.page(tag) else { return 0 };
        let decides = page.decides(&charge.limit, &self.options);
        let moment = page.moment_of(&charge.limit, &self.options, now);
        let rest = match (&mut page.side, after) {
            (_, Known::Alone { .. }) => 0,
            (_, Known::Part { state, .. }) => {
                book.aside.change(|aside| aside.part = *state);
                self.beyond_rights = self.beyond_rights.saturating_add(if spends { charge.cost } else { 0 });
                return 0;
            }
            (Side::Till(till), after) => {
                if let Known::Counter { state, .. } = after {
                    till.state = *state;
                }
                match action {
                    Action::Spend { .. } if spends => till.note_spent(charge.cost),
                    Action::Debit => till.note_debited(charge.cost),
                    Action::Refund => {
                        let given = charge.cost.min(till.refundable(&charge.limit, decides));
                        till.note_refunded(given);
                        till.pass_on(&charge.limit, given, decides, moment);
                    }
                    Action::Count if !decides => till.note_refused(charge.cost),
                    _ => {}
                }
                page.follow_state(&charge.limit, &self.options);
                if action == Action::Refund {
                    book.set_listed(true);
                }
                return 0;
            }
            // Where nothing is ever granted, one counter window covers all windows. A total that is repeated
            // after its ledger is gone would count in a window that it does not belong to: a request applies it
            // instead.
            (Side::Purse(_), Known::Counter { .. }) if spends || !self.options.lend_ahead => {
                return charge.cost;
            }
            (Side::Purse(purse), Known::Counter { .. }) => {
                match action {
                    Action::Refund => purse.give(charge.cost),
                    Action::Debit => purse.owe(charge.cost),
                    Action::Count => purse.refuse(charge.cost),
                    Action::Spend { .. } | Action::Peek => {}
                }
                0
            }
            (Side::Purse(purse), Known::Rights { .. }) => {
                let can = u64::try_from(purse.unspent()).unwrap_or(0);
                match action {
                    Action::Spend { .. } if spends => {
                        let beyond = charge.cost.saturating_sub(can);
                        self.beyond_rights = self.beyond_rights.saturating_add(beyond);
                        // A bucket has no end at which a debt would lapse.
                        let is_bucket = matches!(charge.limit, Limit::TokenBucket(_));
                        purse.spend(if is_bucket { charge.cost.min(can) } else { charge.cost });
                        0
                    }
                    Action::Debit => {
                        purse.spend(charge.cost.min(can));
                        purse.owe(charge.cost.saturating_sub(can));
                        0
                    }
                    // Refunded tokens of a bucket need room, which only its owner knows.
                    Action::Refund if matches!(charge.limit, Limit::TokenBucket(_)) => {
                        purse.give(charge.cost);
                        0
                    }
                    Action::Refund => {
                        let own = purse.give_back(charge.cost);
                        purse.give(charge.cost - own);
                        0
                    }
                    Action::Spend { .. } | Action::Count => {
                        purse.refuse(charge.cost);
                        0
                    }
                    Action::Peek => 0,
                }
            }
        };
        book.set_listed(true);
        drop(book);
        if matches!(action, Action::Refund | Action::Debit) || decides && action == Action::Count {
            self.report_now(charge.key, tag, now);
        }
        rest
    }

    /// Sends a counter's owner immediately what it has to apply. It is repeated until acknowledged.
    pub(super) fn report_now(&mut self, key: Key, tag: u64, now: Timestamp) {
        let Some(mut book) = self.shelf.books.get_mut(&key) else { return };
        let limit = book.limit();
        let Some(page) = book.page(tag) else { return };
        let Side::Purse(purse) = &mut page.side else { return };
        if !purse.is_unconfirmed() {
            return;
        }
        let Some(owner) = page.view.owner(key).map(|owner| owner.id.clone()) else { return };
        let place = Place { subject: Subject { key, limit }, view: page.view.id(), tag };
        purse.told(now);
        let item = Item::Report(place, purse.report());
        drop(book);
        self.urge(&owner, item);
    }

    /// An `eventual` limit was spent: all members that spend it need an update.
    fn count_eventual(&mut self, charge: &Owed, tag: u64) {
        let mut page = self.shelf.books.page(&charge.key, tag);
        match page.as_mut().map(|page| &mut page.side) {
            Some(Side::Till(till)) => {
                till.note_spent(charge.cost);
                till.spread_news();
            }
            Some(Side::Purse(purse)) => purse.spend(charge.cost),
            None => {}
        }
        drop(page);
        self.list(charge.key);
    }
}
