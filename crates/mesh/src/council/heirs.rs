//! Who leaves a mesh says which windows it has touched: its parts of all others are whole, and go to the owners that their keys
//! have from then on. Nobody is told of each: whose part is whose now follows from the views, and from who told that it left all.
//! Of those that are silent nobody inherits.

use super::Council;
use crate::member::Member;
use crate::view::View;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::sync::Arc;

impl Council {
    /// Whether this run has left its part of a window that starts at `start` to others.
    pub(crate) fn has_left(&self, start: Timestamp) -> bool {
        self.left.is_some_and(|fence| start < fence)
    }

    /// Those who were there when a window began and whose parts of it are this run's now, if it is one that nobody has touched.
    pub(crate) fn left_to_me(&self, key: Key, start: Timestamp, now: Timestamp) -> Vec<Member> {
        let Some(chain) = &self.chain else { return Vec::new() };
        let Some(first) = chain.at(start) else { return Vec::new() };
        let later: Vec<&Arc<View>> =
            chain.iter().filter(|view| view.fence > first.fence && view.fence <= now).collect();
        let is_mine = |member: &&Member| **member != self.me && self.is_heir_of(member, key, start, &later);
        first.members.iter().filter(is_mine).cloned().collect()
    }

    /// Follows one part from view to view. What it is worth to be told by somebody is said by when that one can account for all that
    /// came to it: so what went by others before is covered by the last one who told this run.
    fn is_heir_of(&self, member: &Member, key: Key, start: Timestamp, later: &[&Arc<View>]) -> bool {
        let mut holder = member;
        for view in later {
            if view.has(holder) {
                continue;
            }
            let Some(next) = view.owner(key) else { return false };
            let told = || self.handed.since(view.id(), &holder.id).is_some_and(|since| since <= start);
            if *next == self.me && !told() {
                return false;
            }
            holder = next;
        }
        *holder == self.me
    }
}
