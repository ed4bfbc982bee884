//! All pages of one counter: the window that runs, the one that begins, the one that ends.

use crate::page::{Page, Side};
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};
use smallvec::SmallVec;
use std::time::Duration;

/// Pages that are kept of one counter: the last window, this one and the next, and one more for a clock
/// that stepped. A page that may still be asked for must not go: it would begin anew.
const MOST_PAGES: usize = 4;

/// One counter, as this node has it.
#[derive(Clone, Debug)]
pub(crate) struct Book {
    pub(crate) limit: Limit,
    /// The limit before this one, if there was a reload.
    pub(crate) before: Option<Box<Limit>>,
    /// Whether the limit is this node's own, or one that a peer told.
    pub(crate) own: bool,
    pub(crate) pages: SmallVec<[Page; 1]>,
    /// The ask for rights that is under way.
    pub(crate) asked: Option<u64>,
    /// How much is asked for here, and when that was last written up.
    pub(crate) demand: Demand,
    pub(crate) used: Timestamp,
    /// Where the limit is `eventual`: what this node has counted and heard of, all windows in one.
    pub(crate) counted: Option<Box<State>>,
    /// The window of which this node admitted something before it knew the view, and how much.
    pub(crate) alone: (u64, u64),
    /// A bucket whose owner cannot be reached: this node's part of it, kept here.
    pub(crate) part: Option<Box<State>>,
    /// The window that the slip is about, and what it could spend when it was made.
    pub(crate) front: u64,
    pub(crate) laid: u32,
    /// Whether a request is being tried on it: until that is over nobody else decides on it.
    pub(crate) still: bool,
    /// By how much the mesh clock had been moved forward when it was last opened.
    gained: u64,
}

impl Book {
    /// The mesh clock has been moved forward by so much in all: a bucket earns nothing for that.
    pub(crate) fn wait_for(&mut self, gained: u64) {
        let by = gained.saturating_sub(std::mem::replace(&mut self.gained, gained));
        if by == 0 || !matches!(self.limit, Limit::TokenBucket(_)) {
            return;
        }
        let later = |state: State| State::from_bits(state.bits().0.saturating_add(by), state.bits().1);
        for page in &mut self.pages {
            if let Side::Till(till) = &mut page.side {
                till.state = till.state.map(later);
            }
        }
        let kept = [&mut self.counted, &mut self.part];
        kept.into_iter().flatten().for_each(|state| **state = later(**state));
    }

    pub(crate) fn new(limit: Limit, now: Timestamp, gained: u64) -> Self {
        let demand = Demand { rate: 0.0, at: now };
        Self {
            limit,
            before: None,
            own: false,
            pages: SmallVec::new(),
            demand,
            asked: None,
            used: now,
            counted: None,
            alone: (0, 0),
            part: None,
            front: 0,
            laid: 0,
            still: false,
            gained,
        }
    }

    /// Others have admitted this much, as was just heard: it counts here from now on.
    pub(crate) fn count_others(&mut self, cost: u64, now: Timestamp) {
        if cost > 0 {
            let state = self.counted.as_deref().copied();
            let counted = step(&self.limit, state, Action::Debit, Cost::new(cost), now);
            self.counted = Some(Box::new(counted.state));
        }
    }

    /// What this node admitted of a window whose view it does not know.
    pub(crate) fn alone_in(&self, tag: u64) -> u64 {
        if self.alone.0 == tag { self.alone.1 } else { 0 }
    }

    /// The page that the slip is about.
    #[inline]
    pub(crate) fn front_page(&mut self) -> Option<&mut Page> {
        let front = self.front;
        self.page(front)
    }

    #[inline]
    pub(crate) fn page(&mut self, tag: u64) -> Option<&mut Page> {
        self.pages.iter_mut().rev().find(|page| page.tag == tag)
    }

    /// Adds a page, and drops the oldest where there are too many.
    pub(crate) fn add(&mut self, page: Page) {
        let place = self.pages.iter().position(|other| other.tag > page.tag).unwrap_or(self.pages.len());
        self.pages.insert(place, page);
        if self.pages.len() > MOST_PAGES {
            self.pages.remove(0);
        }
    }
}

/// How much is asked for here, in a second: a mean that forgets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    rate: f32,
    at: Timestamp,
}

impl Demand {
    /// Half a second forgets two thirds: an ask ahead is for the next moments, not for the window.
    const MEMORY: f32 = 0.5;

    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn note(&mut self, cost: u64, now: Timestamp) {
        let kept = self.kept(now);
        self.rate = self.rate * kept + cost.min(1 << 20) as f32 / Self::MEMORY;
        if kept < 1.0 {
            self.at = self.at.max(now);
        }
    }

    fn kept(&self, now: Timestamp) -> f32 {
        let elapsed = now.since(self.at);
        if elapsed < Duration::from_millis(2) { 1.0 } else { (-elapsed.as_secs_f32() / Self::MEMORY).exp() }
    }

    /// What is expected within `span`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate, never negative"
    )]
    pub(crate) fn within(&self, span: Duration, now: Timestamp) -> u64 {
        (self.rate * self.kept(now) * span.as_secs_f32()) as u64
    }
}
