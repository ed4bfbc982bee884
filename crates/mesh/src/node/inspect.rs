//! Inspection: an operator inspects one counter at any node. Its owner reports what all nodes may still spend
//! and how much each holds; without its reply the inspection fails. It spends nothing.

use super::decide::{BatchAttempt, Try};
use super::inspection::{Holding, Inspection};
use super::owner_requests::{Ask, AskKind};
use super::remote::{RemoteCounter, WaitStage};
use super::{Node, NodeDecision, Output, Ticket, WaitingRequest};
use crate::counter::counter_window::Side;
use crate::frame::{MemberReport, OwnerReply, Want, WindowRef};
use crate::node::batch::OwnedCharge;
use crate::options::Consistency;
use crate::view::Member;
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
    /// # use hivemind_mesh::{NodeDecision, MeshOptions, testing::mesh_nodes};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let charge = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
    /// let node = &mut mesh_nodes(1, &MeshOptions::default(), now)[0];
    /// let looked = node.look(&charge, Context::at(now)); // It owns all keys.
    /// assert!(matches!(looked, Some(NodeDecision::Now(inspection)) if inspection.verdict.remaining == 2));
    /// ```
    pub fn look(&mut self, charge: &Charge<'_>, context: Context) -> Option<NodeDecision<Inspection>> {
        let batch = std::slice::from_ref(charge);
        let context = self.by_mesh_clock(context);
        if self.is_local(batch) {
            let verdicts = self.local.0.decide_now(batch, context);
            return verdicts.each().first().map(|verdict| NodeDecision::Now(Inspection::local(*verdict)));
        }
        self.table.counters.see(context.now);
        let charges = OwnedCharge::list(batch, &self.options).into_vec();
        let charge = *charges.first()?;
        if !self.can_ask(&charge, context.now) {
            return None;
        }
        if charge.consistency == Consistency::Eventual {
            let attempt = self.attempt(Ticket(0), &charges, context, &WaitStage::Fresh, Try::Last);
            let BatchAttempt::Done(verdicts) = attempt else { return None };
            return verdicts.each().first().map(|verdict| NodeDecision::Now(Inspection::local(*verdict)));
        }
        let tag = self.table.tag(&self.membership, &self.options, (charge.key, &charge.limit), context.now);
        let remote = RemoteCounter { key: charge.key, limit: charge.limit, tag };
        if let Some(inspection) = self.inspect_here(&remote, context.now) {
            return Some(NodeDecision::Now(inspection));
        }
        let ticket = Ticket(self.number());
        self.ask(&remote, AskKind::Inspect, vec![ticket], Want::Inspect, context.now)?;
        let until = self.patience(context);
        let waiting = WaitingRequest {
            batch: charges,
            context,
            until,
            stage: WaitStage::Inspecting,
            is_operators: true,
        };
        self.waiting.insert(ticket, waiting);
        self.flush_urgent(context.now);
        Some(NodeDecision::Later(ticket))
    }

    /// A counter that this node owns.
    fn inspect_here(&mut self, remote: &RemoteCounter, now: Timestamp) -> Option<Inspection> {
        let me = &self.membership.me.id;
        let window = self.table.counters.window(&remote.key, remote.tag)?;
        let moment = window.moment_of(&remote.limit, &self.options, now);
        let Side::Ledger(ledger) = &window.side else { return None };
        let (verdict, shares) = ledger.inspect(&remote.limit, me, moment);
        let inspection = Inspection { verdict, holding: Some(Holding::reported(me.clone(), me, shares)) };
        drop(window);
        self.gather(remote.key, remote.tag, now);
        Some(inspection)
    }

    /// After a view change only its holder knows a part of a window. The first inspection recalls all of it, so
    /// that the next one knows; afterwards whatever is still unaccounted for was spent, or is out of reach.
    fn gather(&mut self, key: Key, tag: u64, now: Timestamp) {
        let is_due = self.table.counters.window(&key, tag).is_some_and(
            |window| matches!(&window.side, Side::Ledger(ledger) if ledger.is_inherited() && ledger.recalled().is_none()),
        );
        if is_due {
            self.recall(key, tag, 1, now);
        }
    }

    /// A peer's operator inspects a counter of this node.
    pub(super) fn on_inspect(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        id: u64,
        window_ref: &WindowRef,
        report: &MemberReport,
    ) {
        let reply = self.inspect_for(now, from, window_ref, report).unwrap_or(OwnerReply::Elsewhere);
        self.answer(now, from, id, window_ref, reply);
    }

    fn inspect_for(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        window_ref: &WindowRef,
        report: &MemberReport,
    ) -> Option<OwnerReply> {
        let limit = self.open_by(now, from, window_ref, true)?;
        let mut window = self.table.counters.window(&window_ref.counter.key, window_ref.tag)?;
        let moment = window.moment_of(&limit, &self.options, now);
        let decides = window.decides(&limit, &self.options);
        let Side::Ledger(ledger) = &mut window.side else { return None };
        // The asker's spending until now is known from here on.
        ledger.apply_report(&limit, from, report, (decides, moment));
        let (verdict, shares) = ledger.inspect(&limit, &self.membership.me.id, moment);
        window.follow_state(&limit, &self.options);
        drop(window);
        self.gather(window_ref.counter.key, window_ref.tag, now);
        Some(OwnerReply::Inspected(verdict, shares))
    }

    /// The owner has replied. A node that is not the owner has no result.
    pub(super) fn on_inspected(&mut self, ask: &Ask, owner: &Member, reply: &OwnerReply) {
        let (verdict, holding) = match reply {
            OwnerReply::Inspected(verdict, shares) => {
                (*verdict, Holding::reported(owner.id.clone(), &self.membership.me.id, shares.clone()))
            }
            // An owner of an earlier version.
            OwnerReply::Done(verdict) => (*verdict, Holding::unreported(owner.id.clone(), self.held_of(ask))),
            _ => return self.end_inspections(ask),
        };
        for ticket in &ask.tickets {
            if self.waiting.remove(ticket).is_some() {
                let inspection = Inspection { verdict, holding: Some(holding.clone()) };
                self.outputs.push(Output::Looked(*ticket, inspection));
            }
        }
    }

    fn end_inspections(&mut self, ask: &Ask) {
        for ticket in &ask.tickets {
            if self.waiting.remove(ticket).is_some() {
                self.outputs.push(Output::GivenUp(*ticket));
            }
        }
    }

    /// What this node may spend by itself of a counter that it asked about.
    fn held_of(&mut self, ask: &Ask) -> u64 {
        let Some(mut counter) = self.table.counters.get_mut(&ask.key) else { return 0 };
        let limit = counter.limit();
        match counter.window(ask.tag).map(|window| &window.side) {
            Some(Side::Lease(lease)) => u64::try_from(lease.spendable(&limit)).unwrap_or(0),
            _ => 0,
        }
    }
}
