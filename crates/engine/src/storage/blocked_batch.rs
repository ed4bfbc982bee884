//! Block list filter: separates the blocked charges of a batch from the others.
//!
//! Blocked keys are refused until their block ends, in every mode. Other charges of the same batch are peeked at and
//! not spent, even if windows count refusals (`on_refusal`), because a block does not exceed a limit. Refunds and
//! debits are applied as usual.

use crate::block_list::BlockList;
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Op, Outcome, Parts, Verdict, Verdicts};
use smallvec::SmallVec;
use std::time::Duration;

/// Verdicts, with the charges that were refused by the block list.
pub struct StorageVerdicts {
    pub verdicts: Verdicts,
    /// Which charges are blocked; none if no key of the batch is.
    pub blocked: Option<Box<[bool]>>,
}

impl From<Verdicts> for StorageVerdicts {
    #[inline]
    fn from(verdicts: Verdicts) -> Self {
        Self { verdicts, blocked: None }
    }
}

/// A batch with blocked keys.
pub(super) struct BlockedBatch<'a> {
    blocks: &'a BlockList,
    /// Remaining block time of each charge; none if it is not blocked.
    waits: SmallVec<[Option<Duration>; 2]>,
    /// The charges that are not blocked, as passed to the store.
    pub(super) others: SmallVec<[Charge<'a>; 2]>,
}

impl<'a> BlockedBatch<'a> {
    /// Filters a batch; none if no key of it is blocked.
    pub(super) fn of(batch: &[Charge<'a>], blocks: &'a BlockList, now: Timestamp) -> Option<Self> {
        let snapshot = blocks.snapshot(now);
        let mut last: Option<(Parts<'_>, Option<Duration>)> = None;
        let mut wait = |charge: &Charge<'a>| {
            if !matches!(charge.op, Op::Spend | Op::Peek) {
                return None;
            }
            // Charges of one descriptor are adjacent.
            match last {
                Some((parts, wait)) if parts == charge.parts => wait,
                _ => {
                    let wait = snapshot.wait(charge.parts);
                    last = Some((charge.parts, wait));
                    wait
                }
            }
        };
        let waits: SmallVec<[Option<Duration>; 2]> = batch.iter().map(&mut wait).collect();
        if waits.iter().all(Option::is_none) {
            return None;
        }
        let others = batch.iter().zip(&waits).filter(|(_, wait)| wait.is_none()).map(|(charge, _)| {
            let op = if charge.op == Op::Spend { Op::Peek } else { charge.op };
            Charge { op, ..*charge }
        });
        Some(Self { blocks, others: others.collect(), waits })
    }

    /// The items of `all` that belong to charges that are not blocked.
    pub(super) fn of_others<T: Copy>(&self, all: &[T]) -> SmallVec<[T; 2]> {
        all.iter().zip(&self.waits).filter(|(_, wait)| wait.is_none()).map(|(one, _)| *one).collect()
    }

    /// The verdicts of the refused batch, in the order of its charges.
    pub(super) fn refused(&self, of_others: &Verdicts) -> Verdicts {
        self.blocks.count_refused();
        let mut of_others = of_others.each().iter();
        let each = self.waits.iter().filter_map(|wait| match wait {
            Some(wait) => Some(blocked(*wait)),
            None => of_others.next().copied(),
        });
        Verdicts::new(false, each)
    }

    /// The verdicts in shadow mode: the block list changes the reported verdicts, but not the decision.
    pub(super) fn reported(&self, decided: &Verdicts) -> Verdicts {
        let each =
            self.waits.iter().zip(decided.each()).map(|(wait, verdict)| wait.map_or(*verdict, blocked));
        Verdicts::new(decided.committed, each)
    }
}

impl BlockedBatch<'_> {
    /// Like [`BlockedBatch::refused`], with the charges that are blocked.
    pub(super) fn refuses(&self, of_others: &Verdicts) -> StorageVerdicts {
        StorageVerdicts { verdicts: self.refused(of_others), blocked: Some(self.blocked()) }
    }

    /// Like [`BlockedBatch::reported`], with the charges that are blocked.
    pub(super) fn reports(&self, decided: &Verdicts) -> StorageVerdicts {
        StorageVerdicts { verdicts: self.reported(decided), blocked: Some(self.blocked()) }
    }

    fn blocked(&self) -> Box<[bool]> {
        self.waits.iter().map(Option::is_some).collect()
    }
}

fn blocked(wait: Duration) -> Verdict {
    let outcome = Outcome::Refused { retry_after: Some(wait) };
    Verdict { outcome, available: 0, remaining: 0, reset_after: wait }
}
