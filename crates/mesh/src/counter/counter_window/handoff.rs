//! Move of a bucket from one view to the next. If the owner changes, allowance held by members is void; the
//! last owner keeps the level, sends it to the next one, and no longer spends it.

use super::{CounterWindow, Side};
use crate::counter::lease::Lease;
use crate::counter::owner_ledger::OwnerLedger;
use crate::membership::BucketMove;
use crate::view::Member;
use crate::view::{View, ViewId};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// How long a bucket earns nothing after its owner changed: the last owner's clock may be that far behind, and
/// it earns there until then.
pub(crate) const HANDOFF_PAUSE: Duration = Duration::from_millis(100);

impl CounterWindow {
    /// Moves a bucket into `view`, a later view than the window's.
    pub(crate) fn hand_off(
        &mut self,
        view: &Arc<View>,
        bucket_move: &BucketMove,
        (me, key, limit): (&Member, Key, &Limit),
        now: Timestamp,
    ) {
        if !bucket_move.stays {
            let (spent, left) = match &self.side {
                // A node that was not the owner in between does not know the level.
                Side::Ledger(_) if !bucket_move.was_held => (0, Some(0)),
                Side::Ledger(ledger) => (ledger.spent_here(), Some(ledger.left(limit, bucket_move.at))),
                Side::Lease(lease) => (lease.spent(), None),
            };
            self.cold.change(|cold| {
                cold.before = cold.before.saturating_add(spent);
                cold.guard.reset();
                cold.left = left.map(|left| (view.id(), u32::try_from(left).unwrap_or(u32::MAX)));
            });
            self.side = if view.owner(key) == Some(me) {
                Side::Ledger(Box::new(OwnerLedger::of_bucket(limit, bucket_move.start, view)))
            } else {
                Side::Lease(Lease::endless(now))
            };
        }
        self.view = Arc::clone(view);
    }

    /// This node's level of a bucket when the owner changed with this view; none if it did not own it.
    pub(crate) fn left_at(&self, view: ViewId) -> Option<u32> {
        self.cold.get().left.filter(|(handed, _)| *handed == view).map(|(_, left)| left)
    }
}
