//! Looks up a charge's counter: the counter itself, allowance of it, or only its owner.

use super::Node;
use super::held::ends;
use super::remote::{Stage, Unseen};
use crate::batch::{Beside, Known, Owed};
use crate::book::Source;
use crate::options::{Consistency, OnUnreachable};
use crate::page::{Regime, Side};
use crate::purse::signed;
use crate::shelf::NoPage;
use crate::window::tag_at;
use hivemind_core::{Limit, Timestamp};

/// The known state of a charge's counter, and its place.
pub(super) enum Found {
    Here(Known),
    /// The owner decides it, and its state was not read yet.
    Unseen(Unseen),
}

impl Node {
    /// The known state of a shared counter; none if too many are shared already.
    pub(super) fn find(&mut self, charge: &Owed, now: Timestamp, stage: &Stage, last: bool) -> Option<Found> {
        let Self { shelf, council, options, peers, clock, .. } = self;
        let (limit, me) = (&charge.limit, council.me.clone());
        let tag = shelf.tag(council, options, (charge.key, limit), now);
        match shelf.open(council, options, (charge.key, limit, tag), now).map(drop) {
            Err(NoPage::Full) => return None,
            Err(NoPage::NoView) => return self.find_without_view(charge, tag, now),
            Ok(()) => {}
        }
        let mut book = shelf.open(council, options, (charge.key, limit, tag), now).ok()?;
        book.source = if council.rules.are_fresh(now) { Source::Alike } else { Source::Own };
        book.told = false;
        // The state found here stays until the batch is settled.
        book.still = true;
        let page = book.page(tag)?;
        let members = page.view.members().len();
        let regime = Regime::of(limit, members, options);
        if charge.consistency == Consistency::Eventual {
            let counted = book.counted.as_deref().copied();
            let known =
                Known::Counter { state: counted, limit: *limit, moment: now, beside: Beside::NOTHING };
            return Some(Found::Here(known));
        }
        let ends = ends(limit, tag, now);
        Some(match &page.side {
            Side::Till(till) => {
                let moment = page.moment_of(limit, options, now);
                let decides = regime == Regime::Decides;
                let (refused, refundable) = (till.refused(decides), till.refundable(limit, decides));
                let beside = Beside { counts_refusals: decides, refused, refundable };
                Found::Here(Known::Counter { state: till.state, limit: till.room(limit), moment, beside })
            }
            Side::Purse(purse) => {
                let owner = page.view.owner(charge.key);
                let slew = clock.slew;
                let heard = owner.is_some_and(|owner| {
                    peers.is_heard(owner, now) && !peers.is_apart(&owner.id, limit, slew)
                });
                let bounded = charge.consistency == Consistency::Bounded;
                let decides = regime == Regime::Decides;
                // A lease knows its own spending, and only the owner the spending of all nodes.
                let is_sure = matches!(stage, Stage::Sure) || stage.seen(charge.key).is_some();
                if heard && (is_sure || decides && !bounded) {
                    return Some(match stage.seen(charge.key) {
                        Some(seen) => {
                            let moment = now;
                            let beside = Beside::NOTHING;
                            Found::Here(Known::Counter { state: seen.0, limit: *limit, moment, beside })
                        }
                        None if last => Found::Here(nothing(charge, now)),
                        None => Found::Unseen(Unseen { key: charge.key, limit: *limit, tag }),
                    });
                }
                let can = if heard {
                    purse.spendable(limit)
                } else {
                    let shares = charge.on_unreachable == OnUnreachable::Share;
                    let is_bucket = matches!(limit, Limit::TokenBucket(_));
                    if shares && is_bucket && purse.unspent() < signed(charge.cost) && page.view.has(&me) {
                        let part = super::alone::evenly(limit, members);
                        let known = Known::Part { state: book.aside.get().part, limit: part, moment: now };
                        return Some(Found::Here(known));
                    }
                    match charge.on_unreachable {
                        OnUnreachable::Share => purse.unspent().max(page.even_part(limit, options)),
                        OnUnreachable::Refuse => purse.unspent(),
                        OnUnreachable::Admit => i64::MAX / 2,
                    }
                };
                // The owner was asked for the amount that was missing then, so that is compared with the amount
                // missing now.
                let lacking = u64::try_from(signed(charge.cost).saturating_sub(can)).unwrap_or(0);
                let exhausted = purse.is_exhausted(lacking, now);
                let final_word = last || !heard || exhausted || bounded;
                let left = if heard { purse.left } else { 0 };
                Found::Here(Known::Rights { can, left, own: purse.spent(), ends, final_word })
            }
        })
    }
}

/// A counter of which nothing is available in time.
pub(super) fn nothing(charge: &Owed, now: Timestamp) -> Known {
    let ends = ends(&charge.limit, tag_at(&charge.limit, now), now);
    Known::Rights { can: 0, left: 0, own: 0, ends, final_word: true }
}
