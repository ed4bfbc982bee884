//! Counters whose window is in no view that this node knows: it was cut off in the middle of a vote, or has no
//! peers.

use super::Node;
use super::lookup::CounterLookup;
use crate::counter::counter_window::Regime;
use crate::counter::lease::signed;
use crate::node::batch::{KnownState, OwnedCharge, StateExtras};
use crate::options::{Consistency, OnUnreachable};
use crate::window::ends_at;
use crate::window::period_nanos;
use hivemind_core::{Limit, Timestamp};

impl Node {
    /// What a node has of a counter without a known view. Between two views it may use the smaller of its two
    /// shares, which is deducted when the window begins; a bucket has no such share.
    pub(super) fn find_without_view(
        &mut self,
        charge: &OwnedCharge,
        tag: u64,
        now: Timestamp,
    ) -> Option<CounterLookup> {
        let Self { table, membership, options, .. } = self;
        let limit = &charge.limit;
        let counter = table.counters.get_mut(&charge.key)?;
        if charge.consistency == Consistency::Eventual {
            let state = counter.counted.as_deref().copied();
            let known = KnownState::Counter { state, limit: *limit, moment: now, extras: StateExtras::NONE };
            return Some(CounterLookup::Here(known));
        }
        let own = counter.alone_in(tag);
        let ends = ends_at(limit, tag, now);
        let can = match charge.on_unreachable {
            OnUnreachable::Refuse => 0,
            OnUnreachable::Admit => i64::MAX / 2,
            OnUnreachable::Share if matches!(limit, Limit::TokenBucket(_)) => 0,
            OnUnreachable::Share => {
                let start = Timestamp::from_nanos(tag.saturating_mul(period_nanos(limit)));
                let part = membership.doubt(start).map_or(0, |members| {
                    let share = Regime::of(limit, members, options).share();
                    if share > 0 { share } else { u64::from(limit.requests()).div_ceil(members as u64) }
                });
                signed(part.saturating_sub(own))
            }
        };
        Some(CounterLookup::Here(KnownState::Allowance { can, left: 0, own, ends, final_word: true }))
    }
}
