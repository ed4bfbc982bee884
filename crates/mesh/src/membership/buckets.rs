//! Buckets across views. They have no windows that begin in a view: they move from one owner to the next when a view
//! takes effect. How a bucket begins that moved to this generation, and whether a bucket that is here stayed.

use super::Membership;
use crate::clock::shown;
use crate::view::Member;
use crate::view::View;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

/// How a bucket begins that moved to this generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketStart {
    /// When it was empty at the latest, by this node's clock; none if it was full.
    pub(crate) empty_at: Option<Timestamp>,
    /// Whether its last owner may still send its level.
    pub(crate) awaits: bool,
}

/// The move of a bucket's counter window from one view to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketMove {
    /// Its owner is the same in both views, and in all between them.
    pub(crate) stays: bool,
    /// Its owner was the same up to the last view before.
    pub(crate) was_held: bool,
    /// When its owner changed, by this node's clock.
    pub(crate) at: Timestamp,
    pub(crate) start: BucketStart,
}

impl Membership {
    /// The present by the later median of all clocks. Counters without windows change their owner by it: by
    /// their own clocks one node would still keep a bucket while another has it already.
    pub(crate) fn by_all(&self, now: Timestamp) -> Timestamp {
        shown(now, self.lead).max(self.passed)
    }

    /// A time of that clock as this node's clock shows it.
    fn here(&self, moment: Timestamp) -> Timestamp {
        shown(moment, self.lead.saturating_neg())
    }

    /// The active view for counters without windows; none while a vote on the active view is open.
    pub(crate) fn settled(&self, now: Timestamp) -> Option<&Arc<View>> {
        let now = self.by_all(now);
        let undecided = self.is_in_doubt(now) || self.is_void(now);
        self.view_log.as_ref().filter(|_| !undecided)?.at(now)
    }

    /// A view is active for buckets. Whatever clocks show next, none goes back: the next owner may have
    /// received the levels.
    pub(crate) fn pass(&mut self, view: &View) {
        self.passed = self.passed.max(view.effective_at);
    }

    /// How a bucket begins that is owned by this generation in `view` and has no window here: nothing of it was
    /// spent here since.
    pub(crate) fn start(&self, key: Key, limit: &Limit, view: &View, now: Timestamp) -> BucketStart {
        let long_ago = self.by_all(now).since(Timestamp::EPOCH.saturating_add(limit.longest_memory()));
        let long_ago = Timestamp::EPOCH.saturating_add(long_ago);
        let empty_since = |moment: Timestamp| {
            (moment > Timestamp::EPOCH && moment > long_ago).then(|| self.here(moment).min(now))
        };
        let mut mine: Option<&Arc<View>> = None;
        let views = self.view_log.iter().flat_map(|view_log| view_log.iter().rev());
        for earlier in views.filter(|earlier| earlier.effective_at <= view.effective_at) {
            let owner = earlier.owner(key);
            if owner == Some(&self.me) {
                mine = Some(earlier);
                if earlier.effective_at <= long_ago {
                    break;
                }
                continue;
            }
            let Some(mine) = mine else { break };
            let known_since = owner.and_then(|former| self.handed.since(mine.id(), &former.id));
            let awaits = known_since.is_none() && mine.id() == view.id();
            return BucketStart { empty_at: empty_since(known_since.unwrap_or(mine.effective_at)), awaits };
        }
        let empty_at = mine.map_or(Some(now), |mine| empty_since(mine.effective_at));
        BucketStart { empty_at, awaits: false }
    }

    /// The move of a bucket's counter window from one view to another.
    pub(crate) fn bucket_move(
        &self,
        (key, limit): (Key, &Limit),
        from: &View,
        to: &View,
        now: Timestamp,
    ) -> BucketMove {
        let owner = from.owner(key);
        let view_log = self.view_log.as_ref().filter(|view_log| view_log.find(from.id()).is_some());
        let was_held = view_log.is_some_and(|view_log| {
            let mut between = view_log
                .iter()
                .filter(|view| view.effective_at > from.effective_at && view.effective_at < to.effective_at);
            between.all(|view| view.owner(key) == owner)
        });
        let stays = was_held && to.owner(key) == owner;
        let at = self.here(to.effective_at).min(now);
        BucketMove { stays, was_held, at, start: self.start(key, limit, to, now) }
    }

    /// The time since which this generation knows the buckets that moved to it with a view, as far as their
    /// owners sent them.
    pub(crate) fn accounted_since(&self, view: &View) -> Timestamp {
        let Some(base) = view.base.filter(|_| view.has(&self.me)) else { return Timestamp::EPOCH };
        let Some(base) = self.view_log.as_ref().and_then(|view_log| view_log.find(base)) else {
            return view.effective_at;
        };
        let named = |view: &View, member: &Member| view.members.iter().any(|other| other.id == member.id);
        let was_there = named(base, &self.me);
        // A node that stays keeps its keys, so they came from nodes that left, or from all to a node that
        // joined.
        let came_from = base.members.iter().filter(|former| {
            let is_past = former.id == self.me.id;
            **former != self.me && (is_past || !was_there || !named(view, former))
        });
        let since =
            came_from.map(|former| self.handed.since(view.id(), &former.id).unwrap_or(view.effective_at));
        since.max().unwrap_or(Timestamp::EPOCH)
    }
}
