//! Serving requests of peers, as an owner.

use super::Node;
use super::link::Done;
use super::parked::{Asker, Parked};
use crate::frame::{Item, Place, Reply, Report, Want, Word};
use crate::member::Member;
use crate::page::{Page, Side};
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
        place: &Place,
        report: &Report,
        want: Want,
    ) {
        let place = self.place_here(now, place);
        if want == Want::Forget {
            // A repetition was already applied, and is confirmed again.
            self.hear_asker(now, from, &place, report);
            return self.on_forget(now, from, id, &place);
        }
        if !self.links.get_mut(&from.id).is_some_and(|link| link.replay.is_first(id)) {
            return; // The network duplicated it.
        }
        if let Want::Undo { of } = want {
            return self.undo(now, from, of);
        }
        if want == Want::Survey {
            return self.on_survey(now, from, id, &place, report);
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
        if report.given > 0 || matches!(want, Want::Do { action: Action::Refund, .. }) {
            page.list(); // A refund may be available to other members.
        }
        let Side::Till(till) = &mut page.side else { return Some(Reply::Elsewhere) };
        if !till.has_room_for(limit, from, moment) {
            return Some(Reply::Exhausted);
        }
        if matches!(want, Want::Lend { .. }) {
            till.open_account(limit, from, report, moment);
        }
        let before = till.state;
        let refunded = till.hear(limit, from, report, (decides, moment));
        if matches!(want, Want::Lend { .. }) && !till.is_of(from, report) && report.serial != 0 {
            return Some(Reply::Exhausted); // The update carries the account that it has; it starts a new one.
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
            Want::Look | Want::Survey | Want::Forget | Want::Undo { .. } => {
                Reply::Seen(till.state.map(hivemind_core::algorithm::State::bits))
            }
            Want::Do { action, cost } => {
                let verdict = match action {
                    Action::Peek => till.peek(limit, cost, moment).verdict,
                    Action::Refund => {
                        let known = cost.min(till.refundable(limit, decides));
                        till.note_refunded(known);
                        let verdict = till.apply(limit, action, known, moment).verdict;
                        till.pass_on(limit, known, decides, moment);
                        verdict
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
                    link.done.push_back(Done { id, key, tag: page.tag, cost, at: moment });
                    if link.done.len() > MOST_UNDONE {
                        link.done.pop_front();
                    }
                }
                drop(page);
                if recalls && matches!(action, Action::Spend { .. }) {
                    self.recall(key, place.tag, cost, now); // For the next request: this one does not wait.
                }
                Reply::Done(verdict)
            }
            Want::Tell { action, cost } => {
                let verdict = match (action, refunded) {
                    (Action::Refund, Some(verdict)) => verdict,
                    // Its update arrived before it, or nothing is spent that could come back.
                    (Action::Refund, None) => {
                        let known = Cost::new(cost.min(till.refundable(limit, decides)));
                        step(&till.room(limit), till.state, action, known, moment).verdict
                    }
                    _ => step(&till.room(limit), before, action, Cost::new(cost), moment).verdict,
                };
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
            // A member without an account gets an empty update, and no account by that.
            Some(Side::Till(till)) if reply != Reply::Elsewhere && till.knows(to) => {
                till.word(&limit, to, (decides, moment))
            }
            _ => Word::default(),
        };
        drop(page);
        self.urge(&to.id, Item::Answer { id, place: *place, word, reply });
    }
}
