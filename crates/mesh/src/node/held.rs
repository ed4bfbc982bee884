//! The usual case on the shortest way: one charge on a counter that is known, with rights to it
//! held here. One look-up, no allocation, nobody asked. Whatever takes more is decided elsewhere.

use super::Node;
use crate::codec::{period_nanos, tag_at};
use crate::options::Consistency;
use crate::page::Side;
use crate::purse::signed;
use hivemind_core::store::{Charge, Context, Op, Outcome, Verdict};
use hivemind_core::{Cost, Limit, Timestamp};

impl Node {
    /// Decides a charge that is alone in its request and passes by rights held here. `None` says that it
    /// takes more, and that nothing was recorded.
    #[inline]
    pub(super) fn decide_held(&mut self, charge: &Charge<'_>, context: Context) -> Option<Verdict> {
        let now = context.now;
        let consistency = charge.sharing.consistency.unwrap_or(self.options.consistency);
        let by_rights = matches!(consistency, Consistency::Exact | Consistency::Bounded);
        // Nothing can be asked for without rights, too: that is the owner's to say.
        if charge.op != Op::Spend || !by_rights || charge.cost == Cost::ZERO {
            return None;
        }
        let (limit, cost) = (charge.limit, charge.cost.get());
        let is_bucket = matches!(limit, Limit::TokenBucket(_));
        let (epoch, book) = self.shelf.fresh(charge.key, limit, now)?;
        let tag = tag_at(limit, now);
        let page = book.pages.iter_mut().rev().find(|page| page.tag == tag && page.epoch == epoch)?;
        let moment = page.moment_of(limit, &self.options, now);
        let purse = match &mut page.side {
            Side::Purse(purse) => purse,
            Side::Till(till) => return till.spend(limit, cost, moment),
        };
        let full = i64::from(limit.burst());
        let most = if is_bucket { full } else { full - purse.net_spent() };
        if signed(cost) > purse.unspent().min(most) {
            return None;
        }
        let available = u64::try_from(purse.unspent().saturating_add(purse.left.max(0))).unwrap_or(0);
        purse.spend(cost);
        book.demand.note(cost, now);
        if !book.listed {
            book.listed = true;
            self.listed.push(charge.key);
        }
        let remaining = available.saturating_sub(cost);
        let reset_after = ends(limit, tag, now).since(now);
        Some(Verdict { outcome: Outcome::Admitted, available, remaining, reset_after })
    }
}

/// When a window ends; for a bucket, when its next token is earned.
pub(super) fn ends(limit: &Limit, tag: u64, now: Timestamp) -> Timestamp {
    match limit {
        Limit::TokenBucket(_) => now.saturating_add(limit.period().length() / limit.requests().max(1)),
        _ => Timestamp::from_nanos(tag.saturating_add(1).saturating_mul(period_nanos(limit))),
    }
}
