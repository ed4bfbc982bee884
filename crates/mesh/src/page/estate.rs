//! A window's page whose parts change hands because members left: what each had at first, what comes to this node, what it gives up.

use super::{Page, Regime, Side};
use crate::member::Member;
use crate::options::MeshOptions;
use crate::purse::Purse;
use crate::view::View;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};

impl Page {
    /// What a member of the view that a window begins in has of it at first.
    pub(crate) fn part_of(
        member: &Member,
        view: &View,
        (key, limit): (Key, &Limit),
        options: &MeshOptions,
    ) -> u64 {
        let members = view.members().len();
        let share = Regime::of(limit, members, options).share();
        let others = share.saturating_mul(members.saturating_sub(1) as u64);
        if view.owner(key) == Some(member) { u64::from(limit.burst()).saturating_sub(others) } else { share }
    }

    /// Others who left have left so much of it to this node.
    pub(crate) fn inherit(&mut self, more: u64, limit: &Limit, now: Timestamp) {
        let held = u64::try_from(self.unspent(limit, now)).unwrap_or(0);
        self.side = Side::Purse(Purse::new(held.saturating_add(more).min(u64::from(limit.burst()))));
    }

    /// This node has left its part of it to others.
    pub(crate) fn give_up(&mut self) {
        self.side = Side::Purse(Purse::new(0));
        self.began_with = 0;
    }
}
