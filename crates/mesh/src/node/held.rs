//! The fast path: one charge on a known counter with allowance held here. One lookup, no allocation, no
//! request. Everything else is decided by the node.

use crate::options::Consistency;
use crate::parts::Parts;
use crate::window::period_nanos;
use hivemind_core::store::{Charge, Context, Op, Verdict};
use hivemind_core::{Cost, Limit, Timestamp};

impl Parts {
    /// Decides a single charge that passes with allowance held here, at a time of this node's clock. Returns
    /// `None` otherwise; then nothing was recorded.
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
        // A charge of cost 0 passes without allowance, which is for the owner to decide.
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

/// The end of a window; for a bucket, the time of its next token.
pub(super) fn ends(limit: &Limit, tag: u64, now: Timestamp) -> Timestamp {
    match limit {
        Limit::TokenBucket(_) => now.saturating_add(limit.period().length() / limit.requests().max(1)),
        _ => Timestamp::from_nanos(tag.saturating_add(1).saturating_mul(period_nanos(limit))),
    }
}
