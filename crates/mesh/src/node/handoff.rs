//! Handoff of buckets to other owners with a view. The last owner stops when the view takes effect, and sends
//! each next owner the levels of its buckets that were not full, in chunks that are repeated until
//! acknowledged. Buckets that it does not list were full, as far back as it knows. So no bucket begins empty
//! while its last owner lives; a dead owner sends nothing, and its buckets begin empty (docs/decisions/013).
//! A leaver lists the long windows that it touched in the same way; unlisted ones belong to the next owner,
//! untouched (`membership/inheritance.rs`).

use super::Node;
use crate::frame::interner::CounterRef;
use crate::frame::{BucketLevels, Item, MOST_LEVELS};
use crate::view::Member;
use crate::view::NodeId;
use crate::view::{View, ViewId};
use crate::window::is_left_to_others;
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

mod receive;

/// How long a next owner without a reply receives its levels.
const PATIENCE: Duration = Duration::from_secs(3);

/// The handoff state of this generation's former buckets.
#[derive(Clone, Debug)]
pub(super) struct Handoff {
    /// The view that buckets are in here.
    view: Option<Arc<View>>,
    /// The time since which this generation knows all buckets that it had: others moved to it unaccounted for.
    since: Timestamp,
    transfers: Vec<LevelTransfer>,
}

/// The levels for one next owner.
#[derive(Clone, Debug)]
struct LevelTransfer {
    view: ViewId,
    to: Member,
    levels: Vec<(CounterRef, u32)>,
    taken: usize,
    /// When it was last sent, if nothing was acknowledged since; and when something was last acknowledged.
    sent: Option<Timestamp>,
    moved: Timestamp,
}

impl LevelTransfer {
    fn chunk(&self, since: Timestamp) -> Item {
        let few = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let each = self.levels.iter().skip(self.taken).take(MOST_LEVELS).copied().collect();
        let (count, first) = (few(self.levels.len()), few(self.taken));
        Item::Levels(BucketLevels { view: self.view, since, count, first, each })
    }
}

impl Handoff {
    pub(super) fn new() -> Self {
        Self { view: None, since: Timestamp::EPOCH, transfers: Vec::new() }
    }

    /// Another mesh: this generation had none of its buckets.
    pub(super) fn reset(&mut self, now: Timestamp) {
        *self = Self { since: now, ..Self::new() };
    }

    /// Whether everything about the newest view has been sent.
    pub(super) fn is_done(&self, head: Option<ViewId>) -> bool {
        self.transfers.is_empty() && self.view.as_ref().map(|view| view.id()) == head
    }

    pub(super) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        for transfer in &mut self.transfers {
            transfer.sent.iter_mut().chain([&mut transfer.moved]).for_each(&earlier);
        }
    }

    /// A next owner acknowledged this many.
    pub(super) fn on_taken(&mut self, from: &Member, view: ViewId, taken: u32, now: Timestamp) {
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        self.transfers.retain_mut(|transfer| {
            let is_it = transfer.to == *from && transfer.view == view;
            if is_it && taken > transfer.taken {
                (transfer.taken, transfer.sent, transfer.moved) = (taken, None, now);
            }
            !is_it || taken < transfer.levels.len()
        });
    }
}

impl Node {
    /// Follows the view that buckets are in, and sends levels to next owners.
    pub(super) fn send_handoffs(&mut self, now: Timestamp) {
        let Some(view) = self.membership.settled(now).map(Arc::clone) else { return };
        if self.handoff.view.as_ref().is_none_or(|last| last.id() != view.id()) {
            self.membership.pass(&view);
            self.table.views_changed();
            let last = self.handoff.view.replace(Arc::clone(&view));
            self.handoff.transfers.clear();
            let follows = last.as_ref().is_some_and(|last| view.base == Some(last.id()));
            self.handoff.since = self.account(last.as_deref().filter(|_| follows), &view);
            if let Some(last) = last.filter(|_| follows) {
                self.pack(&last, &view, now);
            }
        }
        let (pause, since) = (self.options.sync_interval, self.handoff.since);
        let may_send = self.budget.has_room();
        let mut due = Vec::new();
        self.handoff.transfers.retain_mut(|transfer| {
            // What the budget does not allow immediately is sent at the repetition interval.
            let at_once = may_send && transfer.sent.is_none();
            if at_once || now.since(transfer.sent.unwrap_or(transfer.moved)) >= pause {
                transfer.sent = Some(now);
                due.push((transfer.to.id.clone(), transfer.chunk(since)));
            }
            now.since(transfer.moved) < PATIENCE
        });
        for (to, item) in due {
            // In a separate frame: a peer that cannot read it loses nothing else.
            self.send(&to, super::Lane::Ask, &[item], now);
        }
    }

    /// The time since which this generation knows the buckets that it had until this view.
    fn account(&self, last: Option<&View>, view: &View) -> Timestamp {
        let (membership, since) = (&self.membership, self.handoff.since);
        match last {
            Some(last) if last.has(&membership.me) => since.max(membership.accounted_since(last)),
            Some(_) => Timestamp::EPOCH, // It had none.
            None => {
                // Which of them moved to it with views that it did not see active is unknown.
                let base =
                    view.base.map(|base| membership.view_log().and_then(|view_log| view_log.find(base)));
                let had_some = base.is_some_and(|base| base.is_none_or(|base| base.has(&membership.me)));
                if had_some { since.max(view.effective_at()) } else { since }
            }
        }
    }

    /// Lists the levels of buckets that move to others with this view.
    fn pack(&mut self, last: &View, view: &Arc<View>, now: Timestamp) {
        let me = self.membership.me.clone();
        // Over the cap, counters are counted alone, and their levels are unknown.
        let is_full = self.table.counters.len() >= self.options.max_keys;
        if !self.options.handoff || is_full || !last.has(&me) {
            return;
        }
        let named = |view: &View, id: &NodeId| view.members().iter().any(|other| other.id == *id);
        let stays = named(view, &me.id);
        let next = view.members().iter().filter(|to| to.id != me.id && !(stays && named(last, &to.id)));
        let mut lists: BTreeMap<Member, Vec<(CounterRef, u32)>> =
            next.map(|to| (to.clone(), Vec::new())).collect();
        if lists.is_empty() {
            return;
        }
        let Self { table, membership, options, .. } = self;
        for (key, limit, _) in table.counters.windows() {
            let goes = last.owner(key) == Some(&me) && view.owner(key) != Some(&me);
            if !matches!(limit, Limit::TokenBucket(_)) || !goes {
                continue;
            }
            let Ok(mut counter) = table.open(membership, options, (key, &limit, 0), now) else { return };
            let left = counter.window(0).and_then(|window| window.left_at(view.id()));
            let transfer = view.owner(key).and_then(|owner| lists.get_mut(owner));
            if let (Some(left), Some(transfer)) = (left.filter(|left| *left < limit.burst()), transfer) {
                transfer.push((CounterRef { key, limit }, left));
            }
        }
        if !stays {
            // From here on it touches no other. Listed after the buckets: of those each chunk counts by itself,
            // of these all or nothing.
            membership.left = Some(view.effective_at());
            for (key, limit) in table.counters.all().into_iter().filter(|(_, limit)| is_left_to_others(limit))
            {
                if let Some(transfer) = view.owner(key).and_then(|owner| lists.get_mut(owner)) {
                    transfer.push((CounterRef { key, limit }, 0));
                }
            }
        }
        let transfer = |(to, levels)| {
            let (view, taken) = (view.id(), 0);
            LevelTransfer { view, to, levels, taken, sent: None, moved: now }
        };
        self.handoff.transfers = lists.into_iter().map(transfer).collect();
    }
}
