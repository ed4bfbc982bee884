//! One counter on this node: the windows that are ending, running and beginning.

pub(crate) mod cold_fields;
pub(crate) mod counter_map;
pub(crate) mod counter_table;
pub(crate) mod counter_window;
mod fast_path;
pub(crate) mod fast_path_entry;
pub(crate) mod grant_guard;
pub(crate) mod lease;
pub(crate) mod limit_interner;
pub(crate) mod owner_ledger;
pub(crate) mod recent_instant;
pub(crate) mod shards;

use crate::counter::cold_fields::ColdFields;
use crate::counter::counter_window::{CounterWindow, Side};
use crate::counter::recent_instant::RecentInstant;
use crate::options::MeshOptions;
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};
use smallvec::SmallVec;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// The windows kept per counter: the last, the present and the next one, and one more for a clock that stepped.
/// A window that may still be requested must stay: it would begin again.
const MOST_WINDOWS: usize = 4;

/// One counter on this node.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    limit: Arc<Limit>,
    /// Where the limit came from.
    pub(crate) source: LimitSource,
    /// Whether a peer caused it to be opened and no local request has used it since.
    pub(crate) peer_opened: bool,
    /// Room for two: the last window is kept while the next one runs.
    pub(crate) windows: SmallVec<[CounterWindow; 2]>,
    /// The grant request that is in flight.
    pub(crate) asked: Option<NonZeroU64>,
    /// The local demand, and when it was last updated.
    pub(crate) demand: Demand,
    pub(crate) used: Timestamp,
    /// For an `eventual` limit: what this node counted and received, all windows in one.
    pub(crate) counted: Option<Box<State>>,
    pub(crate) cold: ColdFields<CounterColdFields>,
    /// The window of the fast-path entry, and what the entry could spend when it was built.
    pub(crate) entry_tag: u64,
    pub(crate) entry_start: u32,
    /// Whether a batch is being tried on it: until that ends no other decision uses it.
    pub(crate) is_frozen: bool,
    /// The mesh clock's total forward adjustment when it was last opened.
    gained: u64,
}

/// Where a counter's limit came from, since this node's last reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitSource {
    /// From no source yet, or from a peer with other rules.
    Others,
    /// From a peer with the same rules, or a request that may have been in flight during the reload.
    Alike,
    /// From a request to this node.
    Own,
}

/// Fields that most counters do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CounterColdFields {
    /// The limit before this one, if there was a reload.
    pub(crate) before: Option<Limit>,
    /// The last two windows in which this node admitted something before it knew the view, and how much.
    alone: [(u64, u64); 2],
    /// A bucket whose owner cannot be reached: this node's share of it, kept here.
    pub(crate) local_bucket: Option<State>,
    /// A leaver had touched it: this node inherits nothing of windows that began before then.
    pub(crate) touched: Option<Timestamp>,
}

impl Counter {
    /// The mesh clock's total forward adjustment is now `gained`: a bucket earns nothing for it.
    pub(crate) fn wait_for(&mut self, gained: u64) {
        let by = gained.saturating_sub(std::mem::replace(&mut self.gained, gained));
        if by == 0 || !matches!(*self.limit, Limit::TokenBucket(_)) {
            return;
        }
        let later = |state: State| State::from_bits(state.bits().0.saturating_add(by), state.bits().1);
        for window in &mut self.windows {
            if let Side::Ledger(ledger) = &mut window.side {
                ledger.state = ledger.state.map(later);
            }
        }
        self.counted.iter_mut().for_each(|state| **state = later(**state));
        self.cold.change(|cold| cold.local_bucket = cold.local_bucket.map(later));
    }

    /// The clock was set back: shifts all times back.
    pub(crate) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp), now: Timestamp) {
        earlier(&mut self.used);
        self.demand.at = RecentInstant::at(now);
        for window in &mut self.windows {
            match &mut window.side {
                Side::Ledger(ledger) => ledger.forget_times(now),
                Side::Lease(lease) => lease.forget_times(now),
            }
        }
    }

    /// Adds what a sliding window counted after the next one was opened to the weight in that one.
    #[inline]
    pub(crate) fn weigh_last(&mut self) {
        if self.windows.len() < 2 || !matches!(*self.limit, Limit::SlidingWindow(_)) {
            return;
        }
        for place in 1..self.windows.len() {
            let (before, after) = self.windows.split_at_mut(place);
            if let (Some(last), Some(next)) = (before.last(), after.first_mut())
                && last.tag.checked_add(1) == Some(next.tag)
                && let (Side::Ledger(last), Side::Ledger(ledger)) = (&last.side, &mut next.side)
            {
                ledger.weigh(last, next.tag);
            }
        }
    }

    pub(crate) fn new(limit: Arc<Limit>, now: Timestamp, gained: u64) -> Self {
        let demand = Demand { rate: 0.0, at: RecentInstant::at(now) };
        Self {
            limit,
            source: LimitSource::Others,
            peer_opened: false,
            windows: SmallVec::new(),
            demand,
            asked: None,
            used: now,
            counted: None,
            cold: ColdFields::default(),
            entry_tag: 0,
            entry_start: 0,
            is_frozen: false,
            gained,
        }
    }

    /// Other nodes admitted this amount, as just received: counts it here.
    pub(crate) fn count_others(&mut self, cost: u64, now: Timestamp) {
        if cost > 0 {
            let state = self.counted.as_deref().copied();
            let counted = step(&self.limit, state, Action::Debit, Cost::new(cost), now);
            self.counted = Some(Box::new(counted.state));
        }
    }

    pub(crate) fn limit(&self) -> Limit {
        *self.limit
    }

    /// A reload gave the counter another limit: shares follow it from now on.
    pub(crate) fn change_limit(&mut self, limit: Arc<Limit>, options: &MeshOptions, now: Timestamp) {
        let old = std::mem::replace(&mut self.limit, limit);
        // After two reloads in a row some members may know neither: the larger share is assumed.
        self.cold.change(|cold| {
            let larger = cold.before.filter(|before| before.requests() > old.requests());
            cold.before = larger.or(Some(*old));
        });
        for window in &mut self.windows {
            window.change_limit((&old, &self.limit), options, now);
        }
    }

    /// What this node admitted in a window whose view it does not know.
    pub(crate) fn alone_in(&self, tag: u64) -> u64 {
        let known = self.cold.get().alone;
        known.iter().filter(|(number, _)| *number == tag).map(|(_, admitted)| *admitted).sum()
    }

    /// Counts this node's own actions in such a window.
    pub(crate) fn record_alone(&mut self, tag: u64, action: Action, spends: bool, cost: u64) {
        let admitted = self.alone_in(tag);
        let admitted = match action {
            _ if spends || action == Action::Debit => admitted.saturating_add(cost),
            Action::Refund => admitted.saturating_sub(cost),
            _ => return,
        };
        let [mut earlier, mut later] = self.cold.get().alone;
        if tag == earlier.0 {
            earlier.1 = admitted;
        } else if tag == later.0 {
            later.1 = admitted;
        } else if tag > earlier.0 {
            (earlier, later) =
                if tag > later.0 { (later, (tag, admitted)) } else { ((tag, admitted), later) };
        }
        self.cold.change(|cold| cold.alone = [earlier, later]);
    }

    /// Whether it admitted something alone in this window or the one before it.
    pub(crate) fn was_recently_alone(&self, present: u64) -> bool {
        let known = self.cold.get().alone;
        known.into_iter().any(|(number, admitted)| admitted > 0 && number.saturating_add(2) > present)
    }

    /// The window of the fast-path entry.
    #[inline]
    pub(crate) fn entry_window(&mut self) -> Option<&mut CounterWindow> {
        let entry_tag = self.entry_tag;
        self.window(entry_tag)
    }

    #[inline]
    pub(crate) fn window(&mut self, tag: u64) -> Option<&mut CounterWindow> {
        self.windows.iter_mut().rev().find(|window| window.tag == tag)
    }

    /// Adds a window; if there are too many, drops the one furthest from it, mostly the oldest.
    pub(crate) fn add(&mut self, window: CounterWindow) {
        let tag = window.tag;
        let place = self.windows.iter().position(|other| other.tag > tag).unwrap_or(self.windows.len());
        self.windows.insert(place, window);
        let (first, last) = (self.windows.first(), self.windows.last());
        let far = |other: Option<&CounterWindow>| other.map_or(0, |other| other.tag.abs_diff(tag));
        let oldest_goes = far(first) >= far(last);
        if self.windows.len() > MOST_WINDOWS {
            self.windows.remove(if oldest_goes { 0 } else { self.windows.len() - 1 });
        }
    }
}

/// Local demand per second: an exponentially weighted mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    rate: f32,
    at: RecentInstant,
}

impl Demand {
    /// Half a second forgets two thirds: a grant ahead is for the next moments, not for the window.
    const MEMORY: f32 = 0.5;

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn note(&mut self, cost: u64, now: Timestamp) {
        let kept = self.kept(now);
        self.rate = self.rate * kept + cost.min(1 << 20) as f32 / Self::MEMORY;
        if kept < 1.0 {
            self.at = RecentInstant::at(now);
        }
    }

    fn kept(self, now: Timestamp) -> f32 {
        let elapsed = self.at.ago(now);
        if elapsed < Duration::from_millis(2) { 1.0 } else { (-elapsed.as_secs_f32() / Self::MEMORY).exp() }
    }

    /// The demand expected within `span`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, never negative"
    )]
    pub(crate) fn within(self, span: Duration, now: Timestamp) -> u64 {
        (self.rate * self.kept(now) * span.as_secs_f32()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::MeshOptions;
    use crate::view::Member;
    use crate::view::NodeId;
    use crate::view::View;
    use hivemind_core::Period;
    use hivemind_core::store::Key;
    use std::sync::Arc;

    /// Fails when the first one is dropped even if it is the new one (as first written).
    #[test]
    fn full_counter_drops_the_furthest_window() {
        let limit = Limit::fixed_window(10, Period::SECOND);
        let me = Member::new(NodeId::new("a"), 1);
        let view = Arc::new(View::founded(me.clone(), Timestamp::EPOCH));
        for (tags, added, stay) in [
            ([5, 6, 7, 8], 9, [6, 7, 8, 9]),
            ([5, 6, 7, 8], 2, [2, 5, 6, 7]),
            ([1, 6, 7, 8], 9, [6, 7, 8, 9]),
            ([1, 2, 3, 90], 4, [1, 2, 3, 4]),
        ] {
            let mut counter = Counter::new(Arc::new(limit), Timestamp::EPOCH, 0);
            for tag in tags.into_iter().chain([added]) {
                let key = Key::from_bits(1, 1);
                let options = MeshOptions::default();
                counter.add(CounterWindow::begin(
                    tag,
                    Arc::clone(&view),
                    (&me, key, &limit),
                    &options,
                    Timestamp::EPOCH,
                ));
            }
            assert_eq!(counter.windows.iter().map(|window| window.tag).collect::<Vec<_>>(), stay);
        }
    }
}
