//! Inspection: an operator inspects one counter at any node. Its owner reports what all nodes may still spend
//! and how much each holds; without its reply the inspection fails. It spends nothing.

use super::asks::{Ask, Kind};
use super::decide::{Attempt, Try};
use super::remote::{Stage, Unseen};
use super::sight::{Holding, Sight};
use super::{Decided, Node, Output, Ticket, Waiting};
use crate::batch::Owed;
use crate::frame::{Place, Reply, Report, Want};
use crate::member::Member;
use crate::options::Consistency;
use crate::page::Side;
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, Key, LocalStore};
use std::sync::Arc;

impl Node {
    /// Inspects one counter, as its owner has it; none if the owner cannot be asked. The result is an
    /// inspection, or that no reply came.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, Key, Parts};
    /// # use hivemind_core::{Limit, Period, Timestamp};
    /// # use hivemind_mesh::{Decided, MeshOptions, testing::seated};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let charge = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
    /// let node = &mut seated(1, &MeshOptions::default(), now)[0];
    /// let looked = node.look(&charge, Context::at(now)); // It owns all keys.
    /// assert!(matches!(looked, Some(Decided::Now(sight)) if sight.verdict.remaining == 2));
    /// ```
    pub fn look(&mut self, charge: &Charge<'_>, context: Context) -> Option<Decided<Sight>> {
        let batch = std::slice::from_ref(charge);
        let context = self.by_mesh_clock(context);
        if self.is_local(batch) {
            let verdicts = self.local.0.decide_now(batch, context);
            return verdicts.each().first().map(|verdict| Decided::Now(Sight::alone(*verdict)));
        }
        self.shelf.books.see(context.now);
        let owed = Owed::list(batch, &self.options).into_vec();
        let charge = *owed.first()?;
        if !self.can_ask(&charge, context.now) {
            return None;
        }
        if charge.consistency == Consistency::Eventual {
            let attempt = self.attempt(Ticket(0), &owed, context, &Stage::Fresh, Try::Last);
            let Attempt::Done(verdicts) = attempt else { return None };
            return verdicts.each().first().map(|verdict| Decided::Now(Sight::alone(*verdict)));
        }
        let tag = self.shelf.tag(&self.council, &self.options, (charge.key, &charge.limit), context.now);
        let counter = Unseen { key: charge.key, limit: charge.limit, tag };
        if let Some(sight) = self.survey_here(&counter, context.now) {
            return Some(Decided::Now(sight));
        }
        let ticket = Ticket(self.number());
        self.ask(&counter, Kind::Survey, vec![ticket], Want::Survey, context.now)?;
        let until = self.patience(context);
        let waiting = Waiting { batch: owed, context, until, stage: Stage::Surveying, is_operators: true };
        self.waiting.insert(ticket, waiting);
        self.flush_urgent(context.now);
        Some(Decided::Later(ticket))
    }

    /// A counter that this node owns.
    fn survey_here(&mut self, counter: &Unseen, now: Timestamp) -> Option<Sight> {
        let me = &self.council.me.id;
        let page = self.shelf.books.page(&counter.key, counter.tag)?;
        let moment = page.moment_of(&counter.limit, &self.options, now);
        let Side::Till(till) = &page.side else { return None };
        let (verdict, shares) = till.survey(&counter.limit, me, moment);
        let sight = Sight { verdict, holding: Some(Holding::told(me.clone(), me, shares)) };
        drop(page);
        self.gather(counter.key, counter.tag, now);
        Some(sight)
    }

    /// After a view change only its holder knows a part of a window. The first inspection recalls all of it, so
    /// that the next one knows; afterwards whatever is still unaccounted for was spent, or is out of reach.
    fn gather(&mut self, key: Key, tag: u64, now: Timestamp) {
        let is_due = self.shelf.books.page(&key, tag).is_some_and(
            |page| matches!(&page.side, Side::Till(till) if till.is_inherited() && till.recalled().is_none()),
        );
        if is_due {
            self.recall(key, tag, 1, now);
        }
    }

    /// A peer's operator inspects a counter of this node.
    pub(super) fn on_survey(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        id: u64,
        place: &Place,
        report: &Report,
    ) {
        let reply = self.survey_for(now, from, place, report).unwrap_or(Reply::Elsewhere);
        self.answer(now, from, id, place, reply);
    }

    fn survey_for(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        place: &Place,
        report: &Report,
    ) -> Option<Reply> {
        let limit = self.open_by(now, from, place, true)?;
        let mut page = self.shelf.books.page(&place.subject.key, place.tag)?;
        let moment = page.moment_of(&limit, &self.options, now);
        let decides = page.decides(&limit, &self.options);
        let Side::Till(till) = &mut page.side else { return None };
        // The asker's spending until now is known from here on.
        till.hear(&limit, from, report, (decides, moment));
        let (verdict, shares) = till.survey(&limit, &self.council.me.id, moment);
        page.follow_state(&limit, &self.options);
        drop(page);
        self.gather(place.subject.key, place.tag, now);
        Some(Reply::Surveyed(verdict, shares))
    }

    /// The owner has replied. A node that is not the owner has no result.
    pub(super) fn on_surveyed(&mut self, ask: &Ask, owner: &Member, reply: &Reply) {
        let (verdict, holding) = match reply {
            Reply::Surveyed(verdict, shares) => {
                (*verdict, Holding::told(owner.id.clone(), &self.council.me.id, shares.clone()))
            }
            // An owner of an earlier version.
            Reply::Done(verdict) => (*verdict, Holding::untold(owner.id.clone(), self.held_of(ask))),
            _ => return self.end_surveys(ask),
        };
        for ticket in &ask.tickets {
            if self.waiting.remove(ticket).is_some() {
                let sight = Sight { verdict, holding: Some(holding.clone()) };
                self.outputs.push(Output::Looked(*ticket, sight));
            }
        }
    }

    fn end_surveys(&mut self, ask: &Ask) {
        for ticket in &ask.tickets {
            if self.waiting.remove(ticket).is_some() {
                self.outputs.push(Output::GivenUp(*ticket));
            }
        }
    }

    /// What this node may spend by itself of a counter that it asked about.
    fn held_of(&mut self, ask: &Ask) -> u64 {
        let Some(mut book) = self.shelf.books.get_mut(&ask.key) else { return 0 };
        let limit = book.limit();
        match book.page(ask.tag).map(|page| &page.side) {
            Some(Side::Purse(purse)) => u64::try_from(purse.spendable(&limit)).unwrap_or(0),
            _ => 0,
        }
    }
}
