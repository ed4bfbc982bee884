//! Inheritance of window shares. A leaver lists the windows it has touched: its shares of all others are
//! complete, and go to the next owners of their keys. They are not sent one by one: the owner of each share
//! follows from the views and from the leavers' handoffs. Shares of silent members are not inherited.

use super::Membership;
use crate::view::Member;
use crate::view::View;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::sync::Arc;

impl Membership {
    /// Whether this generation has left its share of a window that starts at `start` to others.
    pub(crate) fn has_left(&self, start: Timestamp) -> bool {
        self.left.is_some_and(|effective_at| start < effective_at)
    }

    /// The members of the window's first view whose shares of it now belong to this generation, if no member
    /// has touched it.
    pub(crate) fn left_to_me(&self, key: Key, start: Timestamp, now: Timestamp) -> Vec<Member> {
        let Some(view_log) = &self.view_log else { return Vec::new() };
        let Some(first) = view_log.at(start) else { return Vec::new() };
        let later: Vec<&Arc<View>> = view_log
            .iter()
            .filter(|view| view.effective_at > first.effective_at && view.effective_at <= now)
            .collect();
        let is_mine =
            |member: &&Member| **member != self.me && self.is_successor_of(member, key, start, &later);
        first.members.iter().filter(is_mine).cloned().collect()
    }

    /// Follows one share from view to view. A handoff counts as far back as its sender knows all that moved to
    /// it, so earlier moves are covered by the last sender to this generation.
    fn is_successor_of(&self, member: &Member, key: Key, start: Timestamp, later: &[&Arc<View>]) -> bool {
        let mut holder = member;
        for view in later {
            if view.has(holder) {
                continue;
            }
            let Some(next) = view.owner(key) else { return false };
            let is_listed = || self.handed.since(view.id(), &holder.id).is_some_and(|since| since <= start);
            if *next == self.me && !is_listed() {
                return false;
            }
            holder = next;
        }
        *holder == self.me
    }
}
