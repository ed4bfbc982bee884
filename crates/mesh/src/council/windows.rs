//! In which view a window begins, and which view is active now.

use super::Council;
use crate::chain::Chain;
use crate::motion::Motion;
use crate::view::View;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::sync::Arc;

/// The view that a window began in, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// In this view.
    In(Arc<View>),
    /// Not known, or not decided yet.
    Unknown,
}

impl Council {
    /// Whether it consented to a view whose fence has passed, and does not know the result.
    pub(crate) fn is_in_doubt(&self, now: Timestamp) -> bool {
        self.undecided_from().is_some_and(|fence| fence <= now)
    }

    /// The view that a window which starts at `start` begins in. The call begins it: a fence that would put it
    /// into another view no longer gets consent.
    pub(crate) fn begin(&mut self, start: Timestamp) -> Begun {
        if !self.may_begin(start) {
            return Begun::Unknown;
        }
        let Some(view) = self.chain.as_ref().and_then(|chain| chain.at(start)) else { return Begun::Unknown };
        let view = Arc::clone(view);
        self.latest_begun = self.latest_begun.max(Some(start));
        Begun::In(view)
    }

    /// Whether it is decided in which view a window that starts at `start` begins.
    pub(crate) fn may_begin(&self, start: Timestamp) -> bool {
        let too_early = self.horizon.is_some_and(|horizon| start > horizon) && !self.is_alone();
        !too_early && !self.is_void(start) && self.undecided_from().is_none_or(|fence| fence > start)
    }

    fn is_alone(&self) -> bool {
        self.head().is_some_and(|head| *head.members == [self.me.clone()])
    }

    /// Where several views are possible for a window and this node is in all of them: the number of members of
    /// the largest one. Its share there is available in each.
    pub(crate) fn doubt(&self, start: Timestamp) -> Option<usize> {
        let is_open = |motion: &&Motion| self.bound.contains(&motion.view.id()) && motion.view.fence <= start;
        let open: Vec<&View> = self.motions.iter().filter(is_open).map(|motion| &motion.view).collect();
        let last = self.head().filter(|_| !open.is_empty())?;
        let all = || open.iter().copied().chain([last.as_ref()]);
        all().all(|view| view.has(&self.me)).then(|| all().map(|view| view.members.len()).max())?
    }

    /// The newest view whose fence has passed.
    pub(crate) fn current(&self, now: Timestamp) -> Option<&Arc<View>> {
        self.chain.as_ref()?.at(now)
    }

    /// Until when [`Council::current`] and [`Council::settled`] keep their results of `now`, if no frame
    /// arrives.
    pub(crate) fn stays_until(&self, now: Timestamp) -> Timestamp {
        let fences = self.chain.iter().flat_map(Chain::iter).map(|view| view.fence);
        let void = self.void.iter().flat_map(|(from, to)| [*from, *to]);
        let all = fences.chain(void).chain(self.undecided_from());
        let both = all.flat_map(|moment| [moment, crate::clock::shown(moment, self.lead.saturating_neg())]);
        both.filter(|moment| *moment > now).min().unwrap_or(Timestamp::MAX)
    }

    /// Whether this generation has owned `key` since that time, as far back as is known.
    pub(crate) fn owned_since(&self, key: Key, since: Timestamp, now: Timestamp) -> bool {
        let Some(chain) = &self.chain else { return false };
        for view in chain.iter().rev().filter(|view| view.fence <= now) {
            if view.owner(key) != Some(&self.me) {
                return false;
            }
            if view.fence <= since {
                return true;
            }
        }
        false
    }

    /// The time from which windows wait for the end of a vote.
    fn undecided_from(&self) -> Option<Timestamp> {
        let bound = self.motions.iter().filter(|motion| self.bound.contains(&motion.view.id()));
        bound.map(|motion| motion.view.fence).min()
    }

    pub(super) fn is_void(&self, start: Timestamp) -> bool {
        self.void.is_some_and(|(from, to)| from <= start && start < to)
    }
}
