//! Views of windows: the view in which a window begins, and the active one.

use super::Membership;
use crate::view::View;
use crate::view::proposal::Proposal;
use crate::view::view_log::ViewLog;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::sync::Arc;

/// The view that a window began in, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WindowView {
    /// In this view.
    In(Arc<View>),
    /// Not known, or not decided yet.
    Unknown,
}

impl Membership {
    /// Whether it consented to a view that should be effective by now, and does not know the result.
    pub(crate) fn is_in_doubt(&self, now: Timestamp) -> bool {
        self.undecided_from().is_some_and(|effective_at| effective_at <= now)
    }

    /// The view that a window which starts at `start` begins in. The call begins it: a view that would include it
    /// no longer gets consent.
    pub(crate) fn begin(&mut self, start: Timestamp) -> WindowView {
        if !self.may_begin(start) {
            return WindowView::Unknown;
        }
        let Some(view) = self.view_log.as_ref().and_then(|view_log| view_log.at(start)) else {
            return WindowView::Unknown;
        };
        let view = Arc::clone(view);
        self.latest_begun = self.latest_begun.max(Some(start));
        WindowView::In(view)
    }

    /// Whether it is decided in which view a window that starts at `start` begins.
    pub(crate) fn may_begin(&self, start: Timestamp) -> bool {
        let too_early = self.horizon.is_some_and(|horizon| start > horizon) && !self.is_alone();
        !too_early
            && !self.is_void(start)
            && self.undecided_from().is_none_or(|effective_at| effective_at > start)
    }

    fn is_alone(&self) -> bool {
        self.head().is_some_and(|head| *head.members == [self.me.clone()])
    }

    /// Where several views are possible for a window and this node is in all of them: the number of members of
    /// the largest one. Its share there is available in each.
    pub(crate) fn doubt(&self, start: Timestamp) -> Option<usize> {
        let is_open = |proposal: &&Proposal| {
            self.bound.contains(&proposal.view.id()) && proposal.view.effective_at <= start
        };
        let open: Vec<&View> = self.proposals.iter().filter(is_open).map(|proposal| &proposal.view).collect();
        let last = self.head().filter(|_| !open.is_empty())?;
        let all = || open.iter().copied().chain([last.as_ref()]);
        all().all(|view| view.has(&self.me)).then(|| all().map(|view| view.members.len()).max())?
    }

    /// The newest view that is effective.
    pub(crate) fn current(&self, now: Timestamp) -> Option<&Arc<View>> {
        self.view_log.as_ref()?.at(now)
    }

    /// Until when [`Membership::current`] and [`Membership::settled`] keep their results of `now`, if no frame
    /// arrives.
    pub(crate) fn stays_until(&self, now: Timestamp) -> Timestamp {
        let effective_times = self.view_log.iter().flat_map(ViewLog::iter).map(|view| view.effective_at);
        let void = self.void.iter().flat_map(|(from, to)| [*from, *to]);
        let all = effective_times.chain(void).chain(self.undecided_from());
        let both = all.flat_map(|moment| [moment, crate::clock::shown(moment, self.lead.saturating_neg())]);
        both.filter(|moment| *moment > now).min().unwrap_or(Timestamp::MAX)
    }

    /// Whether this generation has owned `key` since that time, as far back as is known.
    pub(crate) fn owned_since(&self, key: Key, since: Timestamp, now: Timestamp) -> bool {
        let Some(view_log) = &self.view_log else { return false };
        for view in view_log.iter().rev().filter(|view| view.effective_at <= now) {
            if view.owner(key) != Some(&self.me) {
                return false;
            }
            if view.effective_at <= since {
                return true;
            }
        }
        false
    }

    /// The time from which windows wait for the end of a vote.
    fn undecided_from(&self) -> Option<Timestamp> {
        let bound = self.proposals.iter().filter(|proposal| self.bound.contains(&proposal.view.id()));
        bound.map(|proposal| proposal.view.effective_at).min()
    }

    pub(super) fn is_void(&self, start: Timestamp) -> bool {
        self.void.is_some_and(|(from, to)| from <= start && start < to)
    }
}
