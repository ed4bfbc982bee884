//! The next owner's side: levels of buckets that were not full, and long windows that a leaver touched.

use super::super::Node;
use crate::counter::Counter;
use crate::counter::counter_window::{CounterWindow, Side};
use crate::frame::interner::CounterRef;
use crate::frame::{BucketLevels, Item};
use crate::membership::handoff_log::{HandoffReceipt, HandoffStage};
use crate::view::Member;
use crate::view::{View, ViewId};
use crate::window::{is_left_to_others, tag_at};
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::Key;
use hivemind_core::{Cost, Limit, Timestamp};
use std::sync::Arc;

impl Node {
    /// Handles levels from the last owner of buckets that moved to this generation with the active view.
    pub(in crate::node) fn on_levels(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        levels_sent: &BucketLevels,
    ) {
        let Self { membership, .. } = self;
        let Some(view) = membership.settled(now).filter(|view| view.id() == levels_sent.view).map(Arc::clone)
        else {
            return;
        };
        let Some(view_log) = membership.view_log() else { return };
        let Some(last) = view.base.and_then(|base| view_log.find(base)).map(Arc::clone) else { return };
        if !last.has(from) || !view.has(&membership.me) {
            return;
        }
        let known: Vec<ViewId> = view_log.iter().map(|view| view.id()).collect();
        membership.handed.keep(|id| known.contains(&id));
        let since = levels_sent.since.min(view.effective_at());
        let new = HandoffReceipt { since, count: levels_sent.count, taken: 0, stage: HandoffStage::Coming };
        let mut so_far = *membership.handed.of(view.id(), &from.id, new);
        if so_far.stage == HandoffStage::Coming {
            self.take_levels(now, from, (&last, &view), levels_sent, &mut so_far);
            *self.membership.handed.of(view.id(), &from.id, new) = so_far;
        }
        // A sender that is ignored gets an acknowledgement of everything, so that it stops repeating.
        let taken = if so_far.stage == HandoffStage::Void { levels_sent.count } else { so_far.taken };
        self.urge(&from.id, Item::Taken { view: view.id(), taken });
    }

    /// Takes the next levels, and with the last of them all unlisted buckets.
    fn take_levels(
        &mut self,
        now: Timestamp,
        from: &Member,
        views: (&View, &View),
        levels_sent: &BucketLevels,
        so_far: &mut HandoffReceipt,
    ) {
        if so_far.count != levels_sent.count || so_far.since != levels_sent.since.min(views.1.effective_at())
        {
            so_far.stage = HandoffStage::Void;
            return;
        }
        for (number, (counter, level)) in (levels_sent.first..).zip(&levels_sent.each) {
            if number < so_far.taken {
                continue;
            }
            if number > so_far.taken || number >= so_far.count {
                break;
            }
            if !self.take_level(now, from, views, counter, *level) {
                so_far.stage = HandoffStage::Void;
                return;
            }
            so_far.taken += 1;
        }
        if so_far.taken == so_far.count {
            so_far.stage = HandoffStage::Whole;
            self.take_the_rest(now, from, views, so_far.since);
        }
    }

    /// Takes one bucket that was not full. Returns false if the sender did not own it, or the table is full.
    fn take_level(
        &mut self,
        now: Timestamp,
        from: &Member,
        (last, view): (&View, &View),
        counter: &CounterRef,
        level: u32,
    ) -> bool {
        let Self { table, membership, options, .. } = self;
        let CounterRef { key, limit } = *counter;
        if is_left_to_others(&limit) {
            return self.take_touched(now, view, counter);
        }
        let is_theirs = last.owner(key) == Some(from) && view.owner(key) == Some(&membership.me);
        if !matches!(limit, Limit::TokenBucket(_)) || !is_theirs || level > limit.burst() {
            return false;
        }
        let here = table.counters.look(&key, Counter::limit);
        if here.is_none() && table.counters.peer_opened() >= options.max_keys.div_ceil(2) {
            return false;
        }
        let by = here.unwrap_or(limit);
        let is_open = table.open(membership, options, (key, &by, 0), now).map(drop).is_ok();
        if here.is_none() {
            table.counters.mark_peer_opened(&key);
        }
        let Some(mut window) = table.counters.window(&key, 0).filter(|_| is_open) else { return false };
        if let Side::Ledger(ledger) = &mut window.side {
            // A level of another limit is meaningless.
            ledger.take_over(&by, if by == limit { u64::from(level) } else { 0 }, now);
        }
        true
    }

    /// A window that a leaver has touched: the leaver's holding comes back by itself, and its share is not
    /// inherited. Returns false if it is not this node's window, or the table is full.
    fn take_touched(&mut self, now: Timestamp, view: &View, counter: &CounterRef) -> bool {
        let Self { table, membership, options, .. } = self;
        let CounterRef { key, limit } = *counter;
        let here = table.counters.look(&key, Counter::limit);
        let is_full = here.is_none() && table.counters.peer_opened() >= options.max_keys.div_ceil(2);
        if view.owner(key) != Some(&membership.me) || is_full {
            return false;
        }
        let by = here.unwrap_or(limit);
        // Its window exists as long as it is running, and so does this mark.
        let Ok(mut counter) = table.open(membership, options, (key, &by, tag_at(&by, now)), now) else {
            return false;
        };
        counter.cold.change(|cold| cold.touched = cold.touched.max(Some(view.effective_at())));
        drop(counter);
        if here.is_none() {
            table.counters.mark_peer_opened(&key);
        }
        true
    }

    /// All buckets that were not full are listed: an unlisted one that was requested here before was full then.
    fn take_the_rest(
        &mut self,
        now: Timestamp,
        from: &Member,
        (last, view): (&View, &View),
        since: Timestamp,
    ) {
        let awaits = |window: &CounterWindow| matches!(&window.side, Side::Ledger(ledger) if ledger.awaits());
        let mut rest: Vec<(Key, Limit)> = Vec::new();
        for shard in self.table.counters.shards().each() {
            let open = shard.entries.iter().filter(|entry| {
                entry.counter.windows.iter().any(|window| window.view.id() == view.id() && awaits(window))
            });
            let theirs = open.filter(|entry| last.owner(entry.key) == Some(from));
            rest.extend(theirs.map(|entry| (entry.key, entry.counter.limit())));
        }
        for (key, limit) in rest {
            if let Some(mut window) = self.table.counters.window(&key, 0)
                && let Side::Ledger(ledger) = &mut window.side
            {
                ledger.take_over(&limit, earned(&limit, since, view.effective_at()), now);
            }
        }
    }
}

/// The level of a bucket that was empty at `since`; full if that is the epoch.
fn earned(limit: &Limit, since: Timestamp, at: Timestamp) -> u64 {
    if since == Timestamp::EPOCH {
        return u64::from(limit.burst());
    }
    let empty = step(limit, None, Action::Debit, Cost::new(u64::from(limit.burst())), since);
    step(limit, Some(empty.state), Action::Peek, Cost::new(0), at).verdict.available
}
