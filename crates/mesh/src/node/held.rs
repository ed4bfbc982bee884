//! The usual case on the shortest way: one charge on a counter that is known, with rights to it
//! held here. One look-up, no allocation, nobody asked. Whatever takes more is decided elsewhere.

use crate::options::Consistency;
use crate::parts::Parts;
use crate::window::period_nanos;
use hivemind_core::store::{Charge, Context, Op, Verdict};
use hivemind_core::{Cost, Limit, Timestamp};

impl Parts {
    /// Decides a charge that is alone in its request and passes by rights held here, at a moment of this node's own
    /// clock. `None` says that it takes more, and that nothing was recorded.
    #[inline]
    pub(crate) fn decide_held(
        &self,
        charge: &Charge<'_>,
        context: Context,
        consistency: Consistency,
    ) -> Option<Verdict> {
        let now = self.mesh_time(context.now);
        let consistency = charge.sharing.consistency.unwrap_or(consistency);
        let by_rights = matches!(consistency, Consistency::Exact | Consistency::Bounded);
        // Nothing can be asked for without rights, too: that is the owner's to say.
        if charge.op != Op::Spend || !by_rights || charge.cost == Cost::ZERO || !self.is_fresh(now) {
            return None;
        }
        let epoch = self.epoch();
        let mut part = self.part(charge.key);
        let slip = part.find(charge.key)?;
        let verdict = slip.spend(charge.limit, charge.cost.get(), now, epoch)?;
        if slip.is_news() {
            slip.listed = true;
            part.listed.push(charge.key);
        }
        Some(verdict)
    }
}

/// When a window ends; for a bucket, when its next token is earned.
pub(super) fn ends(limit: &Limit, tag: u64, now: Timestamp) -> Timestamp {
    match limit {
        Limit::TokenBucket(_) => now.saturating_add(limit.period().length() / limit.requests().max(1)),
        _ => Timestamp::from_nanos(tag.saturating_add(1).saturating_mul(period_nanos(limit))),
    }
}
