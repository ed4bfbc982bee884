//! A bucket's page that goes from one view to the next. If its owner is another one there, what members held of it is
//! void; its last owner keeps what was left of it, for the next one to be told, and spends nothing of that any more.

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

/// A bucket that changed hands earns nothing for so long: the clock of who had it may be as much behind, and then it
/// earns there still.
pub(crate) const HANDED: Duration = Duration::from_millis(100);

impl Page {
    /// Moves a bucket's page into `view`, a later one than the page's.
    pub(crate) fn hand_on(
        &mut self,
        view: &Arc<View>,
        passage: &Passage,
        (me, key, limit): (&Member, Key, &Limit),
        now: Timestamp,
    ) {
        if !passage.stays {
            let (spent, left) = match &self.side {
                // One that was another's in between knows nothing of it.
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

    /// What this node had left of a bucket when it went to another with this view; none if it had none of it.
    pub(crate) fn left_at(&self, view: ViewId) -> Option<u32> {
        self.past.get().left.filter(|(handed, _)| *handed == view).map(|(_, left)| left)
    }
}
