//! Requests to owners: one per counter at a time, shared by all decisions that wait for it. The owner grants,
//! or recalls unspent allowance and delays its reply for a moment, or replies that nothing is left. That reply
//! is remembered, so a flood of refusals does not cause a flood of requests.

use super::remote::RemoteCounter;
use super::{Node, Ticket};
use crate::counter::counter_window::Side;
use crate::frame::interner::CounterRef;
use crate::frame::{Item, OwnerReply, OwnerUpdate, Want, WindowRef};
use crate::node::batch::{OwnedCharge, Trial};
use crate::options::Consistency;
use crate::view::Member;
use crate::view::NodeId;
use crate::window::tag_at;
use hivemind_core::algorithm::Action;
use hivemind_core::store::{Context, Key, Op};
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::time::Duration;

/// How much demand a grant request covers.
const HORIZON: Duration = Duration::from_millis(60);

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskKind {
    Grant,
    Look,
    Do,
    Forget,
    Inspect,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) id: u64,
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) kind: AskKind,
    pub(super) least: u64,
    /// What the owner spends for it, if it does; refunded if no decision waits for it any more.
    pub(super) spends: u64,
    /// The account number in the request.
    serial: u64,
    /// The owner that was asked, and may reply.
    to: Member,
    pub(super) sent: Timestamp,
    /// Without duplicates: a decision over many counters joins all their requests again after every reply;
    /// duplicates would double with each one.
    pub(super) tickets: BTreeSet<Ticket>,
}

impl Node {
    /// Sends a request to the owner of a counter. Without an owner nothing is sent, and the time runs out.
    pub(super) fn ask(
        &mut self,
        remote: &RemoteCounter,
        kind: AskKind,
        tickets: Vec<Ticket>,
        want: Want,
        now: Timestamp,
    ) -> Option<u64> {
        let id = self.number();
        self.ask_as(id, remote, kind, tickets, want, now)
    }

    /// The same with a number that may be in use already: a repeated request is served once.
    pub(super) fn ask_as(
        &mut self,
        id: u64,
        remote: &RemoteCounter,
        kind: AskKind,
        tickets: Vec<Ticket>,
        want: Want,
        now: Timestamp,
    ) -> Option<u64> {
        let mut window = self.table.counters.window(&remote.key, remote.tag)?;
        let to = window.view.owner(remote.key)?.clone();
        let Side::Lease(lease) = &mut window.side else { return None };
        lease.mark_sent(now);
        let counter = CounterRef { key: remote.key, limit: remote.limit };
        let (serial, report) = (lease.serial(), lease.report());
        let window_ref = WindowRef { counter, view: window.view.id(), tag: remote.tag };
        let item = Item::Ask { id, window_ref, report, want };
        drop(window);
        let needed = match want {
            Want::Grant { need, .. } => need,
            _ => 0,
        };
        let spends = match want {
            Want::Do { action: Action::Spend { .. }, cost } => cost,
            _ => 0,
        };
        self.urge(&to.id, item);
        let (key, tag) = (remote.key, remote.tag);
        let tickets = tickets.into_iter().collect();
        let ask = Ask { id, key, tag, kind, least: needed, spends, serial, to, sent: now, tickets };
        self.asks.insert(id, ask);
        self.asked = self.asked.saturating_add(1);
        Some(id)
    }

    pub(super) fn urge(&mut self, to: &NodeId, item: Item) {
        if let Some(link) = self.links.get_mut(to) {
            link.urgent.push(item);
        }
    }

    /// Requests the allowance that a batch lacks. Returns whether it has to wait for any.
    pub(super) fn request_missing_allowance(
        &mut self,
        ticket: Ticket,
        batch: &[OwnedCharge],
        trials: &[Trial],
        context: Context,
    ) -> bool {
        let mut waits = false;
        for (charge, trial) in batch.iter().zip(trials) {
            if trial.lacks > 0 {
                waits |= self.request_allowance(Some(ticket), charge, trial.lacks, context.now);
            }
        }
        waits
    }

    /// A bounded limit never waits, but the next request must find what this one lacked.
    pub(super) fn request_for_next(&mut self, batch: &[OwnedCharge], trials: &[Trial], context: Context) {
        let mut asked = false;
        for (charge, trial) in batch.iter().zip(trials) {
            let bounded = charge.consistency == Consistency::Bounded;
            if bounded && charge.op == Op::Spend && !trial.verdict.is_admitted() {
                asked |= self.request_allowance(None, charge, charge.cost, context.now);
            }
        }
        if asked {
            self.flush_urgent(context.now);
        }
    }

    fn request_allowance(
        &mut self,
        ticket: Option<Ticket>,
        charge: &OwnedCharge,
        lacks: u64,
        now: Timestamp,
    ) -> bool {
        let tag = tag_at(&charge.limit, now);
        let Some(mut counter) = self.table.counters.get_mut(&charge.key) else { return false };
        if let Some(id) = counter.asked
            && let Some(ask) = self.asks.get_mut(&id.get())
            && ask.tag == tag
        {
            ask.tickets.extend(ticket);
            return true;
        }
        let Some(window) = counter.window(tag) else { return false };
        let Side::Lease(lease) = &window.side else { return false };
        if lease.is_exhausted(lacks, now) {
            return false;
        }
        // Nothing is granted beyond the window's end.
        let rest = match charge.limit {
            Limit::TokenBucket(_) => HORIZON,
            _ => crate::window::ends_at(&charge.limit, tag, now).since(now),
        };
        let ahead = counter.demand.within(HORIZON.min(rest), now);
        drop(counter);
        let remote = RemoteCounter { key: charge.key, limit: charge.limit, tag };
        let want = Want::Grant { need: lacks, ahead };
        let id = self.ask(&remote, AskKind::Grant, ticket.into_iter().collect(), want, now);
        if let Some(mut counter) = self.table.counters.get_mut(&charge.key) {
            counter.asked = id.and_then(NonZeroU64::new);
        }
        id.is_some()
    }

    /// Handles the owner's reply.
    pub(super) fn on_answer(
        &mut self,
        now: Timestamp,
        from: &Member,
        id: u64,
        window_ref: &WindowRef,
        update: &OwnerUpdate,
        reply: &OwnerReply,
    ) {
        let key = window_ref.counter.key;
        // Numbers can be guessed: only the owner that was asked may reply.
        let asked = self.asks.get(&id).is_some_and(|ask| ask.to == *from && ask.key == key);
        let ask = if asked { self.asks.remove(&id) } else { None };
        let sent_tag = window_ref.tag;
        let window_ref = &self.window_ref_here(now, window_ref);
        if let Some(mut counter) = self.table.counters.get_mut(&key) {
            if counter.asked.is_some_and(|other| other.get() == id) && asked {
                counter.asked = None;
            }
            let limit = counter.limit();
            // A late grant is kept for the next request.
            if let Some(window) = counter.window(window_ref.tag)
                && window.view.id() == window_ref.view
                && window.view.owner(key) == Some(from)
                && let Side::Lease(lease) = &mut window.side
                && !matches!(reply, OwnerReply::Elsewhere | OwnerReply::Seen(None))
            {
                window.tag = window.tag.max(sent_tag);
                if ask.as_ref().is_some_and(|ask| ask.kind == AskKind::Grant && ask.serial == 0) {
                    lease.adopt(update.serial);
                }
                if update.serial > lease.serial() {
                    window.replace_lease(now); // Its account is expired.
                }
                window.apply_update(update, &limit, now);
                if let (OwnerReply::Exhausted, Some(ask), Side::Lease(lease)) =
                    (reply, &ask, &mut window.side)
                    && update.serial == lease.serial()
                {
                    let until = now.saturating_add(self.options.sync_interval / 2);
                    lease.remember_exhausted(ask.least, until);
                }
            }
        }
        let Some(ask) = ask else { return };
        match ask.kind {
            AskKind::Grant => {
                let last = *reply == OwnerReply::Elsewhere;
                for ticket in &ask.tickets {
                    if last { self.give_up(*ticket, now) } else { self.retry(*ticket, now) }
                }
            }
            AskKind::Forget => self.on_forgotten(&ask, reply),
            AskKind::Inspect => self.on_inspected(&ask, from, reply),
            AskKind::Look | AskKind::Do => self.on_remote_answer(now, &ask, reply),
        }
    }
}
