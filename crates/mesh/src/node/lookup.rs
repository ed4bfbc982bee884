//! Counter lookup for a charge: the counter itself, allowance of it, or only its owner.

use super::Node;
use super::remote::{RemoteCounter, WaitStage};
use crate::counter::LimitSource;
use crate::counter::counter_table::WindowUnavailable;
use crate::counter::counter_window::{Regime, Side};
use crate::counter::lease::signed;
use crate::node::batch::{KnownState, OwnedCharge, StateExtras};
use crate::options::{Consistency, OnUnreachable};
use crate::window::ends_at;
use crate::window::tag_at;
use hivemind_core::{Limit, Timestamp};

/// The known state of a charge's counter, and its place.
pub(super) enum CounterLookup {
    Here(KnownState),
    /// The owner decides it, and its state was not read yet.
    Remote(RemoteCounter),
}

impl Node {
    /// The known state of a shared counter; none if too many are shared already.
    pub(super) fn find(
        &mut self,
        charge: &OwnedCharge,
        now: Timestamp,
        stage: &WaitStage,
        last: bool,
    ) -> Option<CounterLookup> {
        let Self { table, membership, options, peers, clock, .. } = self;
        let (limit, me) = (&charge.limit, membership.me.clone());
        let tag = table.tag(membership, options, (charge.key, limit), now);
        match table.open(membership, options, (charge.key, limit, tag), now).map(drop) {
            Err(WindowUnavailable::Full) => return None,
            Err(WindowUnavailable::NoView) => return self.find_without_view(charge, tag, now),
            Ok(()) => {}
        }
        let mut counter = table.open(membership, options, (charge.key, limit, tag), now).ok()?;
        counter.source = if membership.rules.are_fresh(now) { LimitSource::Alike } else { LimitSource::Own };
        counter.peer_opened = false;
        // The state found here stays until the batch is settled.
        counter.is_frozen = true;
        let window = counter.window(tag)?;
        let members = window.view.members().len();
        let regime = Regime::of(limit, members, options);
        if charge.consistency == Consistency::Eventual {
            let own = counter.counted.as_deref().copied();
            let known =
                KnownState::Counter { state: own, limit: *limit, moment: now, extras: StateExtras::NONE };
            return Some(CounterLookup::Here(known));
        }
        let ends = ends_at(limit, tag, now);
        Some(match &window.side {
            Side::Ledger(ledger) => {
                let moment = window.moment_of(limit, options, now);
                let decides = regime == Regime::Decides;
                let (refused, refundable) = (ledger.refused(decides), ledger.refundable(limit, decides));
                let extras = StateExtras { counts_refusals: decides, refused, refundable };
                CounterLookup::Here(KnownState::Counter {
                    state: ledger.state,
                    limit: ledger.room(limit),
                    moment,
                    extras,
                })
            }
            Side::Lease(lease) => {
                let owner = window.view.owner(charge.key);
                let slew = clock.slew;
                let heard = owner.is_some_and(|owner| {
                    peers.is_heard(owner, now) && !peers.is_apart(&owner.id, limit, slew)
                });
                let bounded = charge.consistency == Consistency::Bounded;
                let decides = regime == Regime::Decides;
                // A lease knows its own spending, and only the owner the spending of all nodes.
                let is_sure = matches!(stage, WaitStage::Sure) || stage.seen(charge.key).is_some();
                if heard && (is_sure || decides && !bounded) {
                    return Some(match stage.seen(charge.key) {
                        Some(seen) => {
                            let moment = now;
                            let extras = StateExtras::NONE;
                            CounterLookup::Here(KnownState::Counter {
                                state: seen.0,
                                limit: *limit,
                                moment,
                                extras,
                            })
                        }
                        None if last => CounterLookup::Here(nothing(charge, now)),
                        None => CounterLookup::Remote(RemoteCounter { key: charge.key, limit: *limit, tag }),
                    });
                }
                let can = if heard {
                    lease.spendable(limit)
                } else {
                    let shares = charge.on_unreachable == OnUnreachable::Share;
                    let is_bucket = matches!(limit, Limit::TokenBucket(_));
                    if shares && is_bucket && lease.unspent() < signed(charge.cost) && window.view.has(&me) {
                        let share = super::local_counters::evenly(limit, members);
                        let known = KnownState::LocalShare {
                            state: counter.cold.get().local_bucket,
                            limit: share,
                            moment: now,
                        };
                        return Some(CounterLookup::Here(known));
                    }
                    match charge.on_unreachable {
                        OnUnreachable::Share => lease.unspent().max(window.even_share(limit, options)),
                        OnUnreachable::Refuse => lease.unspent(),
                        OnUnreachable::Admit => i64::MAX / 2,
                    }
                };
                // The owner was asked for the amount that was missing then, so that is compared with the amount
                // missing now.
                let lacking = u64::try_from(signed(charge.cost).saturating_sub(can)).unwrap_or(0);
                let exhausted = lease.is_exhausted(lacking, now);
                let final_word = last || !heard || exhausted || bounded;
                let left = if heard { lease.left } else { 0 };
                CounterLookup::Here(KnownState::Allowance { can, left, own: lease.spent(), ends, final_word })
            }
        })
    }
}

/// A counter of which nothing is available in time.
pub(super) fn nothing(charge: &OwnedCharge, now: Timestamp) -> KnownState {
    let ends = ends_at(&charge.limit, tag_at(&charge.limit, now), now);
    KnownState::Allowance { can: 0, left: 0, own: 0, ends, final_word: true }
}
