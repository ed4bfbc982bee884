//! Buckets that move from one view to the next. If the owner changes, allowance held by members is void; the
//! last owner keeps the level, sends it to the next one, and no longer spends it.

use super::{Page, Side};
use crate::council::Passage;
use crate::member::Member;
use crate::purse::Purse;
use crate::till::Till;
use crate::view::{View, ViewId};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// How long a bucket earns nothing after its owner changed: the last owner's clock may be that far behind, and
/// it earns there until then.
pub(crate) const HANDED: Duration = Duration::from_millis(100);

impl Page {
    /// Moves a bucket into `view`, a later view than the window's.
    pub(crate) fn hand_on(
        &mut self,
        view: &Arc<View>,
        passage: &Passage,
        (me, key, limit): (&Member, Key, &Limit),
        now: Timestamp,
    ) {
        if !passage.stays {
            let (spent, left) = match &self.side {
                // A node that was not the owner in between does not know the level.
                Side::Till(_) if !passage.was_held => (0, Some(0)),
                Side::Till(till) => (till.spent_here(), Some(till.left(limit, passage.at))),
                Side::Purse(purse) => (purse.spent(), None),
            };
            self.past.change(|past| {
                past.before = past.before.saturating_add(spent);
                past.guard.begin_anew();
                past.left = left.map(|left| (view.id(), u32::try_from(left).unwrap_or(u32::MAX)));
            });
            self.side = if view.owner(key) == Some(me) {
                Side::Till(Box::new(Till::of_bucket(limit, passage.start, view)))
            } else {
                Side::Purse(Purse::born(now))
            };
        }
        self.view = Arc::clone(view);
    }

    /// This node's level of a bucket when the owner changed with this view; none if it did not own it.
    pub(crate) fn left_at(&self, view: ViewId) -> Option<u32> {
        self.past.get().left.filter(|(handed, _)| *handed == view).map(|(_, left)| left)
    }
}
