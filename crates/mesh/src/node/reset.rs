//! Reset of a counter, by an operator or a closed connection. Its owner applies it, whichever node asks;
//! members learn of it from the owner's next update. No holding and nothing in flight becomes void
//! (`counter/owner_ledger/reset.rs`). The operator receives the result: the request is repeated with the same number
//! until the owner replies, and applied once. Spending after the reset stays, even if the request is repeated.

use super::owner_requests::{Ask, AskKind};
use super::remote::RemoteCounter;
use super::{Node, Output, Ticket};
use crate::counter::counter_window::Side;
use crate::frame::{OwnerReply, Want, WindowRef};
use crate::view::Member;
use hivemind_core::store::{Key, LocalStore};
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// The remembered resets of a peer: it repeats one for a few seconds.
const MOST_RESETS: usize = 256;

/// The result of a reset.
///
/// ```
/// use hivemind_core::{Limit, Period, Timestamp, store::Key};
/// use hivemind_mesh::{MeshOptions, Node, NodeId, Reset};
/// use std::time::Duration;
///
/// let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
/// let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
/// let mut reset = |node: &mut Node| node.reset(Key::from_bits(7, 11), &limit, Duration::from_secs(1), now);
/// assert_eq!(reset(&mut node), Reset::NoOwner);
/// node.found(now);
/// assert_eq!(reset(&mut node), Reset::Done); // It owns all keys.
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// It is done.
    Done,
    /// The owner applies it; the outputs report it with this ticket.
    Later(Ticket),
    /// No owner is known.
    NoOwner,
}

/// A reset that the owner has not confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resetting {
    key: Key,
    limit: Limit,
    until: Timestamp,
    asked: Timestamp,
    /// The request's number, equal in all repetitions.
    id: u64,
}

impl Resetting {
    pub(super) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        earlier(&mut self.until);
        earlier(&mut self.asked);
    }
}

/// The location of a counter that was reset here.
enum CounterLocation {
    Here,
    There(RemoteCounter),
    Nowhere,
}

impl Node {
    /// Resets the spending of one counter, here and at its owner if the message arrives.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Timestamp, store::Key};
    /// # use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let node = &mut mesh_nodes(1, &MeshOptions::default(), now)[0];
    /// node.forget(Key::from_bits(7, 11), &limit, now); // A connection was closed.
    /// ```
    pub fn forget(&mut self, key: Key, limit: &Limit, now: Timestamp) {
        let now = self.mesh_time(now);
        if let CounterLocation::There(remote) = self.forget_here(key, limit, now) {
            self.ask(&remote, AskKind::Forget, Vec::new(), Want::Forget, now);
            self.flush_urgent(now);
        }
    }

    /// The same, and the owner is asked until it replies, for at most `within`.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Timestamp, store::Key};
    /// # use hivemind_mesh::{MeshOptions, Reset, testing::mesh_nodes};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let node = &mut mesh_nodes(1, &MeshOptions::default(), now)[0];
    /// let second = std::time::Duration::from_secs(1);
    /// assert_eq!(node.reset(Key::from_bits(7, 11), &limit, second, now), Reset::Done);
    /// ```
    pub fn reset(&mut self, key: Key, limit: &Limit, within: Duration, now: Timestamp) -> Reset {
        let now = self.mesh_time(now);
        match self.forget_here(key, limit, now) {
            CounterLocation::Here => Reset::Done,
            CounterLocation::Nowhere => Reset::NoOwner,
            CounterLocation::There(remote) => {
                let (ticket, id) = (Ticket(self.number()), self.number());
                let until = now.saturating_add(within);
                self.resets.insert(ticket, Resetting { key, limit: *limit, until, asked: now, id });
                self.ask_as(id, &remote, AskKind::Forget, vec![ticket], Want::Forget, now);
                self.flush_urgent(now);
                Reset::Later(ticket)
            }
        }
    }

    fn forget_here(&mut self, key: Key, limit: &Limit, now: Timestamp) -> CounterLocation {
        self.local.0.forget_now(key);
        let location = self.location_of(key, limit, now);
        let tag = self.table.tag(&self.membership, &self.options, (key, limit), now);
        let Some(mut counter) = self.table.counters.get_mut(&key) else { return location };
        counter.counted = None;
        counter.cold.change(|cold| cold.local_bucket = None);
        let Some(window) = counter.window(tag) else { return location };
        let moment = window.moment_of(limit, &self.options, now);
        if let Side::Ledger(ledger) = &mut window.side {
            ledger.reset(limit, moment);
            counter.set_queued(true);
        }
        location
    }

    /// The location of a counter, without any change.
    fn location_of(&mut self, key: Key, limit: &Limit, now: Timestamp) -> CounterLocation {
        let Self { table, membership, options, .. } = self;
        let tag = table.tag(membership, options, (key, limit), now);
        let Ok(mut counter) = table.open(membership, options, (key, limit, tag), now) else {
            return CounterLocation::Nowhere;
        };
        match counter.window(tag) {
            Some(window) if matches!(window.side, Side::Ledger(_)) => CounterLocation::Here,
            Some(window) if window.view.owner(key).is_some() => {
                CounterLocation::There(RemoteCounter { key, limit: *limit, tag })
            }
            _ => CounterLocation::Nowhere,
        }
    }

    /// Repeats requests to owners without a reply, and gives up expired ones.
    pub(super) fn repeat_resets(&mut self, now: Timestamp) {
        let pause = self.options.ask_timeout * 2;
        let due: Vec<Ticket> = self
            .resets
            .iter()
            .filter(|(_, reset)| reset.until <= now || now.since(reset.asked) >= pause)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in due {
            let Some(mut reset) = self.resets.remove(&ticket) else { continue };
            if reset.until <= now {
                self.outputs.push(Output::GivenUp(ticket));
                continue;
            }
            reset.asked = now;
            match self.location_of(reset.key, &reset.limit, now) {
                CounterLocation::Here => {
                    // This node is the owner by now, and has not applied it as the owner.
                    self.forget_here(reset.key, &reset.limit, now);
                    self.outputs.push(Output::Reset(ticket));
                }
                CounterLocation::Nowhere => {
                    self.resets.insert(ticket, reset);
                }
                CounterLocation::There(remote) => {
                    self.resets.insert(ticket, reset);
                    self.ask_as(reset.id, &remote, AskKind::Forget, vec![ticket], Want::Forget, now);
                }
            }
        }
        self.flush_urgent(now);
    }

    /// Handles the reply to a reset. If the peer is not the owner, the request is repeated to the current owner.
    pub(super) fn on_forgotten(&mut self, ask: &Ask, reply: &OwnerReply) {
        if *reply == OwnerReply::Elsewhere {
            return;
        }
        for ticket in &ask.tickets {
            if self.resets.remove(ticket).is_some() {
                self.outputs.push(Output::Reset(*ticket));
            }
        }
    }

    /// A peer requests a reset of this node's counter. It is applied once per number, and confirmed on every
    /// repetition: a reply may have been lost.
    pub(super) fn on_forget(&mut self, now: Timestamp, from: &Arc<Member>, id: u64, window_ref: &WindowRef) {
        let Some(link) = self.links.get(&from.id) else { return };
        if link.reset.contains(&id) {
            let is_here = self.table.counters.window(&window_ref.counter.key, window_ref.tag).is_some();
            let reply = if is_here { OwnerReply::Granted } else { OwnerReply::Seen(None) };
            return self.answer(now, from, id, window_ref, reply);
        }
        let reply = self.forget_for(now, from, window_ref).unwrap_or(OwnerReply::Elsewhere);
        if reply != OwnerReply::Elsewhere
            && let Some(link) = self.links.get_mut(&from.id)
        {
            link.reset.push_back(id);
            if link.reset.len() > MOST_RESETS {
                link.reset.pop_front();
            }
        }
        self.answer(now, from, id, window_ref, reply);
    }

    fn forget_for(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        window_ref: &WindowRef,
    ) -> Option<OwnerReply> {
        let key = window_ref.counter.key;
        let is_bucket = matches!(window_ref.counter.limit, Limit::TokenBucket(_));
        if !self.table.counters.contains_key(&key) && !is_bucket {
            // A window without a counter here needs no reset, if this node is the owner. A bucket may begin
            // empty here.
            let view = self.membership.current(now).filter(|view| view.id() == window_ref.view)?;
            return (*view.owner(key)? == self.membership.me).then_some(OwnerReply::Seen(None));
        }
        let limit = self.open_for_peer(now, from, window_ref)?;
        let mut counter = self.table.counters.get_mut(&key)?;
        let window = counter.window(window_ref.tag)?;
        let moment = window.moment_of(&limit, &self.options, now);
        let Side::Ledger(ledger) = &mut window.side else { return None };
        ledger.reset(&limit, moment);
        counter.counted = None;
        counter.cold.change(|cold| cold.local_bucket = None);
        counter.set_queued(true);
        Some(OwnerReply::Granted)
    }
}
