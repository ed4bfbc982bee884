//! Counters whose window is in no view that this node knows: it was cut off in the middle of a vote, or has no
//! peers.

use super::Node;
use super::find::Found;
use super::held::ends;
use crate::batch::{Beside, Known, Owed};
use crate::options::{Consistency, OnUnreachable};
use crate::page::Regime;
use crate::purse::signed;
use crate::window::period_nanos;
use hivemind_core::{Limit, Timestamp};

impl Node {
    /// What a node has of a counter without a known view. Between two views it may use the smaller of its two
    /// shares, which is deducted when the window begins; a bucket has no such share.
    pub(super) fn find_without_view(&mut self, charge: &Owed, tag: u64, now: Timestamp) -> Option<Found> {
        let Self { shelf, council, options, .. } = self;
        let limit = &charge.limit;
        let book = shelf.books.get_mut(&charge.key)?;
        if charge.consistency == Consistency::Eventual {
            let state = book.counted.as_deref().copied();
            let known = Known::Counter { state, limit: *limit, moment: now, beside: Beside::NOTHING };
            return Some(Found::Here(known));
        }
        let own = book.alone_in(tag);
        let ends = ends(limit, tag, now);
        let can = match charge.on_unreachable {
            OnUnreachable::Refuse => 0,
            OnUnreachable::Admit => i64::MAX / 2,
            OnUnreachable::Share if matches!(limit, Limit::TokenBucket(_)) => 0,
            OnUnreachable::Share => {
                let start = Timestamp::from_nanos(tag.saturating_mul(period_nanos(limit)));
                let part = council.doubt(start).map_or(0, |members| {
                    let share = Regime::of(limit, members, options).share();
                    if share > 0 { share } else { u64::from(limit.requests()).div_ceil(members as u64) }
                });
                signed(part.saturating_sub(own))
            }
        };
        Some(Found::Here(Known::Rights { can, left: 0, own, ends, final_word: true }))
    }
}
