//! Serving requests of peers, as an owner.

use super::Node;
use super::parked_grants::{Asker, ParkedGrant};
use super::peer_link::SpendRecord;
use crate::counter::counter_window::{CounterWindow, Side};
use crate::frame::{Item, MemberReport, OwnerReply, OwnerUpdate, Want, WindowRef};
use crate::view::Member;
use hivemind_core::algorithm::{Action, step};
use hivemind_core::{Cost, Limit, Timestamp};
use std::sync::Arc;

/// The spending for a peer that may still be undone: it knows after a round trip.
const MOST_UNDONE: usize = 1_024;

impl Node {
    /// Handles a request of a peer.
    pub(super) fn on_ask(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        id: u64,
        window_ref: &WindowRef,
        report: &MemberReport,
        want: Want,
    ) {
        let window_ref = self.window_ref_here(now, window_ref);
        if want == Want::Forget {
            // A repetition was already applied, and is confirmed again.
            self.apply_asker_report(now, from, &window_ref, report);
            return self.on_forget(now, from, id, &window_ref);
        }
        if !self.links.get_mut(&from.id).is_some_and(|link| link.replay.mark_served(id)) {
            return; // The network duplicated it.
        }
        if let Want::Undo { of } = want {
            return self.undo(now, from, of);
        }
        if want == Want::Inspect {
            return self.on_inspect(now, from, id, &window_ref, report);
        }
        let reply = match self.open_by(now, from, &window_ref, true) {
            Some(limit) => self.serve(now, from, id, &window_ref, report, want, &limit),
            None => Some(OwnerReply::Elsewhere),
        };
        if let Some(reply) = reply {
            self.answer(now, from, id, &window_ref, reply);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of an ask, and the limit it is served by")]
    fn serve(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        id: u64,
        window_ref: &WindowRef,
        report: &MemberReport,
        want: Want,
        limit: &Limit,
    ) -> Option<OwnerReply> {
        let key = window_ref.counter.key;
        let Some(mut window) = self.table.counters.window(&key, window_ref.tag) else {
            return Some(OwnerReply::Elsewhere);
        };
        let moment = window.moment_of(limit, &self.options, now);
        let decides = window.decides(limit, &self.options);
        if report.given > 0 || matches!(want, Want::Do { action: Action::Refund, .. }) {
            window.queue(); // A refund may be available to other members.
        }
        let Side::Ledger(ledger) = &mut window.side else { return Some(OwnerReply::Elsewhere) };
        if !ledger.make_room_for(limit, from, moment) {
            return Some(OwnerReply::Exhausted);
        }
        if matches!(want, Want::Grant { .. }) {
            ledger.open_account(limit, from, report, moment);
        }
        let before = ledger.state;
        let refunded = ledger.apply_report(limit, from, report, (decides, moment));
        if matches!(want, Want::Grant { .. }) && !ledger.is_of(from, report) && report.serial != 0 {
            return Some(OwnerReply::Exhausted); // The update carries the account that it has; it starts a new one.
        }
        if let Want::Grant { need, ahead } = want {
            if ledger.grant(limit, from, need, ahead, moment) {
                return Some(OwnerReply::Granted);
            }
            drop(window);
            if self.recall(key, window_ref.tag, need, now) {
                let until = now.saturating_add(self.options.ask_timeout * 2 / 3);
                let who = Asker::Peer { member: Arc::clone(from), id, need, ahead };
                if self.park(ParkedGrant { key, tag: window_ref.tag, until, who }) {
                    return None;
                }
            }
            return Some(OwnerReply::Exhausted);
        }
        Some(match want {
            Want::Look | Want::Inspect | Want::Forget | Want::Undo { .. } => {
                OwnerReply::Seen(ledger.state.map(hivemind_core::algorithm::State::bits))
            }
            Want::Do { action, cost } => {
                let verdict = match action {
                    Action::Peek => ledger.peek(limit, cost, moment).verdict,
                    Action::Refund => {
                        let known = cost.min(ledger.refundable(limit, decides));
                        ledger.note_refunded(known);
                        let verdict = ledger.apply(limit, action, known, moment).verdict;
                        ledger.pass_on(limit, known, decides, moment);
                        verdict
                    }
                    _ => ledger.apply(limit, action, cost, moment).verdict,
                };
                if verdict.is_admitted() && matches!(action, Action::Spend { .. }) || action == Action::Debit
                {
                    ledger.note_spent(cost);
                }
                let recalls = !verdict.is_admitted() && ledger.may_recall(limit, decides);
                window.follow_state(limit, &self.options);
                if verdict.is_admitted()
                    && matches!(action, Action::Spend { .. })
                    && let Some(link) = self.links.get_mut(&from.id)
                {
                    link.done.push_back(SpendRecord { id, key, tag: window.tag, cost, at: moment });
                    if link.done.len() > MOST_UNDONE {
                        link.done.pop_front();
                    }
                }
                drop(window);
                if recalls && matches!(action, Action::Spend { .. }) {
                    self.recall(key, window_ref.tag, cost, now); // For the next request: this one does not wait.
                }
                OwnerReply::Done(verdict)
            }
            Want::Outcome { action, cost } => {
                let verdict = match (action, refunded) {
                    (Action::Refund, Some(verdict)) => verdict,
                    // Its update arrived before it, or nothing is spent that could come back.
                    (Action::Refund, None) => {
                        let known = Cost::new(cost.min(ledger.refundable(limit, decides)));
                        step(&ledger.room(limit), ledger.state, action, known, moment).verdict
                    }
                    _ => step(&ledger.room(limit), before, action, Cost::new(cost), moment).verdict,
                };
                window.follow_state(limit, &self.options);
                OwnerReply::Done(verdict)
            }
            Want::Grant { .. } => OwnerReply::Exhausted,
        })
    }

    pub(super) fn answer(
        &mut self,
        now: Timestamp,
        to: &Arc<Member>,
        id: u64,
        window_ref: &WindowRef,
        reply: OwnerReply,
    ) {
        let limit = window_ref.counter.limit;
        let moment = CounterWindow::moment(window_ref.tag, &limit, now);
        let mut window = self.table.counters.window(&window_ref.counter.key, window_ref.tag);
        let decides = window.as_ref().is_some_and(|window| window.decides(&limit, &self.options));
        let update = match window.as_mut().map(|window| &mut window.side) {
            // A member without an account gets an empty update, and no account by that.
            Some(Side::Ledger(ledger)) if reply != OwnerReply::Elsewhere && ledger.knows(to) => {
                ledger.update_for(&limit, to, (decides, moment))
            }
            _ => OwnerUpdate::default(),
        };
        drop(window);
        self.urge(&to.id, Item::Answer { id, window_ref: *window_ref, update, reply });
    }
}
