//! One counter on this node: the windows that are ending, running and beginning.

use crate::annex::Annex;
use crate::lately::Lately;
use crate::options::MeshOptions;
use crate::page::{Page, Side};
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};
use smallvec::SmallVec;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

/// The windows kept per counter: the last, the present and the next one, and one more for a clock that stepped.
/// A window that may still be requested must stay: it would begin again.
const MOST_PAGES: usize = 4;

/// One counter on this node.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    limit: Arc<Limit>,
    /// Where the limit came from.
    pub(crate) source: Source,
    /// Whether a peer caused it to be opened and no local request has used it since.
    pub(crate) told: bool,
    /// Room for two: the last window is kept while the next one runs.
    pub(crate) pages: SmallVec<[Page; 2]>,
    /// The grant request that is in flight.
    pub(crate) asked: Option<NonZeroU64>,
    /// The local demand, and when it was last updated.
    pub(crate) demand: Demand,
    pub(crate) used: Timestamp,
    /// For an `eventual` limit: what this node counted and received, all windows in one.
    pub(crate) counted: Option<Box<State>>,
    pub(crate) aside: Annex<Aside>,
    /// The window of the fast-path entry, and what the entry could spend when it was built.
    pub(crate) front: u64,
    pub(crate) laid: u32,
    /// Whether a batch is being tried on it: until that ends no other decision uses it.
    pub(crate) still: bool,
    /// The mesh clock's total forward adjustment when it was last opened.
    gained: u64,
}

/// Where a counter's limit came from, since this node's last reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// From no source yet, or from a peer with other rules.
    Others,
    /// From a peer with the same rules, or a request that may have been in flight during the reload.
    Alike,
    /// From a request to this node.
    Own,
}

/// Fields that most counters do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Aside {
    /// The limit before this one, if there was a reload.
    pub(crate) before: Option<Limit>,
    /// The last two windows in which this node admitted something before it knew the view, and how much.
    alone: [(u64, u64); 2],
    /// A bucket whose owner cannot be reached: this node's share of it, kept here.
    pub(crate) part: Option<State>,
    /// A leaver had touched it: this node inherits nothing of windows that began before then.
    pub(crate) touched: Option<Timestamp>,
}

impl Book {
    /// The mesh clock's total forward adjustment is now `gained`: a bucket earns nothing for it.
    pub(crate) fn wait_for(&mut self, gained: u64) {
        let by = gained.saturating_sub(std::mem::replace(&mut self.gained, gained));
        if by == 0 || !matches!(*self.limit, Limit::TokenBucket(_)) {
            return;
        }
        let later = |state: State| State::from_bits(state.bits().0.saturating_add(by), state.bits().1);
        for page in &mut self.pages {
            if let Side::Till(till) = &mut page.side {
                till.state = till.state.map(later);
            }
        }
        self.counted.iter_mut().for_each(|state| **state = later(**state));
        self.aside.change(|aside| aside.part = aside.part.map(later));
    }

    /// The clock was set back: shifts all times back.
    pub(crate) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp), now: Timestamp) {
        earlier(&mut self.used);
        self.demand.at = Lately::at(now);
        for page in &mut self.pages {
            match &mut page.side {
                Side::Till(till) => till.forget_times(now),
                Side::Purse(purse) => purse.forget_times(now),
            }
        }
    }

    /// Adds what a sliding window counted after the next one was opened to the weight in that one.
    #[inline]
    pub(crate) fn weigh_last(&mut self) {
        if self.pages.len() < 2 || !matches!(*self.limit, Limit::SlidingWindow(_)) {
            return;
        }
        for place in 1..self.pages.len() {
            let (before, after) = self.pages.split_at_mut(place);
            if let (Some(last), Some(next)) = (before.last(), after.first_mut())
                && last.tag.checked_add(1) == Some(next.tag)
                && let (Side::Till(last), Side::Till(till)) = (&last.side, &mut next.side)
            {
                till.weigh(last, next.tag);
            }
        }
    }

    pub(crate) fn new(limit: Arc<Limit>, now: Timestamp, gained: u64) -> Self {
        let demand = Demand { rate: 0.0, at: Lately::at(now) };
        Self {
            limit,
            source: Source::Others,
            told: false,
            pages: SmallVec::new(),
            demand,
            asked: None,
            used: now,
            counted: None,
            aside: Annex::default(),
            front: 0,
            laid: 0,
            still: false,
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
        self.aside.change(|aside| {
            let larger = aside.before.filter(|before| before.requests() > old.requests());
            aside.before = larger.or(Some(*old));
        });
        for page in &mut self.pages {
            page.change_limit((&old, &self.limit), options, now);
        }
    }

    /// What this node admitted in a window whose view it does not know.
    pub(crate) fn alone_in(&self, tag: u64) -> u64 {
        let known = self.aside.get().alone;
        known.iter().filter(|(window, _)| *window == tag).map(|(_, admitted)| *admitted).sum()
    }

    /// Counts this node's own actions in such a window.
    pub(crate) fn note_alone(&mut self, tag: u64, action: Action, spends: bool, cost: u64) {
        let admitted = self.alone_in(tag);
        let admitted = match action {
            _ if spends || action == Action::Debit => admitted.saturating_add(cost),
            Action::Refund => admitted.saturating_sub(cost),
            _ => return,
        };
        let [mut earlier, mut later] = self.aside.get().alone;
        if tag == earlier.0 {
            earlier.1 = admitted;
        } else if tag == later.0 {
            later.1 = admitted;
        } else if tag > earlier.0 {
            (earlier, later) =
                if tag > later.0 { (later, (tag, admitted)) } else { ((tag, admitted), later) };
        }
        self.aside.change(|aside| aside.alone = [earlier, later]);
    }

    /// Whether it admitted something alone in this window or the one before it.
    pub(crate) fn was_alone_lately(&self, present: u64) -> bool {
        let known = self.aside.get().alone;
        known.into_iter().any(|(window, admitted)| admitted > 0 && window.saturating_add(2) > present)
    }

    /// The window of the fast-path entry.
    #[inline]
    pub(crate) fn front_page(&mut self) -> Option<&mut Page> {
        let front = self.front;
        self.page(front)
    }

    #[inline]
    pub(crate) fn page(&mut self, tag: u64) -> Option<&mut Page> {
        self.pages.iter_mut().rev().find(|page| page.tag == tag)
    }

    /// Adds a window; if there are too many, drops the one furthest from it, mostly the oldest.
    pub(crate) fn add(&mut self, page: Page) {
        let tag = page.tag;
        let place = self.pages.iter().position(|other| other.tag > tag).unwrap_or(self.pages.len());
        self.pages.insert(place, page);
        let (first, last) = (self.pages.first(), self.pages.last());
        let far = |other: Option<&Page>| other.map_or(0, |other| other.tag.abs_diff(tag));
        let oldest_goes = far(first) >= far(last);
        if self.pages.len() > MOST_PAGES {
            self.pages.remove(if oldest_goes { 0 } else { self.pages.len() - 1 });
        }
    }
}

/// Local demand per second: an exponentially weighted mean.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    rate: f32,
    at: Lately,
}

impl Demand {
    /// Half a second forgets two thirds: a grant ahead is for the next moments, not for the window.
    const MEMORY: f32 = 0.5;

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn note(&mut self, cost: u64, now: Timestamp) {
        let kept = self.kept(now);
        self.rate = self.rate * kept + cost.min(1 << 20) as f32 / Self::MEMORY;
        if kept < 1.0 {
            self.at = Lately::at(now);
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
    use crate::member::Member;
    use crate::options::MeshOptions;
    use crate::owner::NodeId;
    use crate::view::View;
    use hivemind_core::Period;
    use hivemind_core::store::Key;
    use std::sync::Arc;

    /// Fails when the first one is dropped even if it is the new one (as first written).
    #[test]
    fn a_page_that_is_added_stays_and_the_furthest_from_it_goes() {
        let limit = Limit::fixed_window(10, Period::SECOND);
        let me = Member::new(NodeId::new("a"), 1);
        let view = Arc::new(View::founded(me.clone(), Timestamp::EPOCH));
        for (tags, added, stay) in [
            ([5, 6, 7, 8], 9, [6, 7, 8, 9]),
            ([5, 6, 7, 8], 2, [2, 5, 6, 7]),
            ([1, 6, 7, 8], 9, [6, 7, 8, 9]),
            ([1, 2, 3, 90], 4, [1, 2, 3, 4]),
        ] {
            let mut book = Book::new(Arc::new(limit), Timestamp::EPOCH, 0);
            for tag in tags.into_iter().chain([added]) {
                let key = Key::from_bits(1, 1);
                let options = MeshOptions::default();
                book.add(Page::begun(tag, Arc::clone(&view), (&me, key, &limit), &options, Timestamp::EPOCH));
            }
            assert_eq!(book.pages.iter().map(|page| page.tag).collect::<Vec<_>>(), stay);
        }
    }
}
