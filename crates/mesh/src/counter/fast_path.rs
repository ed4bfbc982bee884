//! The fast path: one charge on a known counter with allowance held here. One lookup, no allocation, no
//! request. Everything else is decided by the node.

use crate::counter::shards::Shards;
use crate::options::Consistency;
use hivemind_core::Cost;
use hivemind_core::store::{Charge, Context, Op, Verdict};

impl Shards {
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
        let uses_allowance = matches!(consistency, Consistency::Exact | Consistency::Bounded);
        // A charge of cost 0 passes without allowance, which is for the owner to decide.
        if charge.op != Op::Spend || !uses_allowance || charge.cost == Cost::ZERO || !self.is_fresh(now) {
            return None;
        }
        let epoch = self.epoch();
        let mut shard = self.shard(charge.key);
        let entry = shard.find(charge.key)?;
        let verdict = entry.spend(charge.limit, charge.cost.get(), now, epoch)?;
        if entry.needs_update() {
            entry.queued = true;
            shard.queued.push(charge.key);
        }
        Some(verdict)
    }
}
