//! Inheritance of a window's shares when members leave: the initial share of each member, what this node
//! inherits, and what it gives up.

use super::{CounterWindow, Regime, Side};
use crate::counter::lease::Lease;
use crate::options::MeshOptions;
use crate::view::Member;
use crate::view::View;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};

impl CounterWindow {
    /// The initial share of a member of the view in which the window begins.
    pub(crate) fn initial_share(
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

    /// Leavers left this much of it to this node.
    pub(crate) fn inherit(&mut self, more: u64, limit: &Limit, now: Timestamp) {
        let held = u64::try_from(self.unspent(limit, now)).unwrap_or(0);
        self.side = Side::Lease(Lease::new(held.saturating_add(more).min(u64::from(limit.burst()))));
    }

    /// This node has left its share to others.
    pub(crate) fn give_up(&mut self) {
        self.side = Side::Lease(Lease::new(0));
        self.began_with = 0;
    }
}
