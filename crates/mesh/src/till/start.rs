//! A bucket that came to this node from another owner. It begins empty at the moment of the change, and once its last owner
//! has said what it held, it holds that, less all that was admitted here since.

use super::Till;
use crate::council::Start;
use crate::page::HANDED;
use crate::view::View;
use hivemind_core::algorithm::Action;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

impl Till {
    /// The counter of a bucket that comes to this node in a view.
    pub(crate) fn of_bucket(limit: &Limit, start: Start, view: &Arc<View>) -> Self {
        let mut till = Self::begun(limit, 0, view, Timestamp::EPOCH);
        if let Some(at) = start.empty_at {
            till.apply(limit, Action::Debit, u64::from(limit.burst()), at.saturating_add(HANDED));
        }
        till.awaits = start.awaits;
        till
    }

    /// Whether its last owner has not said what it held.
    pub(crate) fn awaits(&self) -> bool {
        self.awaits
    }

    /// Its last owner had `level` when it changed hands. That counts once, and nothing that was earned since is added to it:
    /// what an empty bucket has earned, or what was left and is not spent yet, whichever is more.
    pub(crate) fn take_over(&mut self, limit: &Limit, level: u64, now: Timestamp) {
        if !std::mem::take(&mut self.awaits) {
            return;
        }
        self.earn(limit, now);
        let admitted = self.spent.saturating_add(self.aside.get().lent_early);
        let (due, left) = (level.saturating_sub(admitted), self.left(limit, now));
        if due > left {
            self.apply(limit, Action::Refund, due - left, now);
        }
    }
}
