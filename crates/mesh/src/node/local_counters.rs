//! Counters that this node keeps by itself, in a separate store: those that are not shared, those over the cap,
//! and those without a known view. In one batch with shared counters they are checked first and settled last,
//! so the batch stays atomic.

use super::Node;
use crate::node::batch::OwnedCharge;
use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Mode, Op, Parts, Verdict};
use hivemind_core::{Cost, Limit, Period, Rate, Timestamp};
use std::sync::Arc;

const NO_PARTS: Parts<'static> = Parts { domain: "", entries: &[] };

/// Shared with decisions outside the node: these counters have their own locks.
pub(super) struct LocalCounters(pub(super) Arc<MemoryStore>);

impl std::fmt::Debug for LocalCounters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalCounters(..)")
    }
}

impl Node {
    /// The verdict of the charge at `place`, after earlier charges on the same counter.
    pub(super) fn peek_alone(
        &self,
        batch: &[OwnedCharge],
        place: usize,
        limit: &Limit,
        context: Context,
    ) -> Option<Verdict> {
        let charge = batch.get(place)?;
        let before = batch.iter().take(place).filter(|one| one.key == charge.key && one.op == Op::Spend);
        let before: u64 = before.map(|one| one.cost).sum();
        let cost = charge.cost.saturating_add(before);
        let peek = as_charge(&OwnedCharge { op: Op::Peek, cost, ..*charge }, limit);
        self.local.0.decide_now(&[peek], context).each().first().copied()
    }

    /// Applies a batch's result to the counters kept here alone, and sets their verdicts.
    pub(super) fn settle_alone(
        &mut self,
        batch: &[OwnedCharge],
        alone: &[(usize, Limit)],
        committed: bool,
        (verdicts, context): (&mut [Verdict], Context),
    ) {
        let nothing = Limit::fixed_window(0, Period::SECOND);
        let places = alone.iter().filter_map(|(place, limit)| Some((batch.get(*place)?, limit)));
        let mut charges: Vec<Charge<'_>> = places.map(|(charge, limit)| as_charge(charge, limit)).collect();
        if !committed && let Some(first) = batch.first() {
            // One more charge that refuses: the counters then keep what a refused batch leaves.
            let refuses = OwnedCharge { key: Key::from_bits(0, 0), op: Op::Peek, cost: 1, ..*first };
            charges.push(Charge { mode: Mode::Enforce, ..as_charge(&refuses, &nothing) });
        }
        let settled = self.local.0.decide_now(&charges, context);
        for ((place, _), verdict) in alone.iter().zip(settled.each()) {
            if let Some(kept) = verdicts.get_mut(*place) {
                *kept = *verdict;
            }
        }
    }
}

impl Node {
    /// Refunds spending of a counter kept here alone.
    pub(super) fn refund_alone(&mut self, charge: &OwnedCharge, limit: &Limit, now: Timestamp) {
        let refund = OwnedCharge { op: Op::Refund, ..*charge };
        self.local.0.decide_now(&[as_charge(&refund, limit)], Context::at(now));
    }
}

/// Whether the batch commits is decided already, so a refusal must not stop it.
fn as_charge<'a>(charge: &OwnedCharge, limit: &'a Limit) -> Charge<'a> {
    Charge {
        cost: Cost::new(charge.cost),
        op: charge.op,
        mode: Mode::Shadow,
        ..Charge::spend(charge.key, NO_PARTS, limit)
    }
}

/// An even share of a bucket, at least one token.
pub(super) fn evenly(bucket: &Limit, members: usize) -> Limit {
    let members = u32::try_from(members.max(1)).unwrap_or(u32::MAX);
    let share = |amount: u32| amount.div_ceil(members).max(u32::from(amount > 0));
    let rate = Rate::new(share(bucket.requests()), bucket.period());
    rate.and_then(|rate| Limit::token_bucket(rate, share(bucket.burst()))).unwrap_or(*bucket)
}
