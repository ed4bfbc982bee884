//! A batch with keys in it that an operator has blocked. They are refused until their time, in whatever mode; what is
//! charged beside them is looked at and not spent, also where windows count what they refuse (`on_refusal`): a block is no
//! request too many. What is given back or taken in any case is so here, too.

use crate::blocks::Blocks;
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Op, Outcome, Parts, Verdict, Verdicts};
use smallvec::SmallVec;
use std::time::Duration;

/// What was decided, and what of it was refused because an operator has blocked it.
pub(crate) struct Ruled {
    pub(crate) verdicts: Verdicts,
    /// Which charges; none where nothing of the batch is blocked.
    pub(crate) blocked: Option<Box<[bool]>>,
}

impl From<Verdicts> for Ruled {
    #[inline]
    fn from(verdicts: Verdicts) -> Self {
        Self { verdicts, blocked: None }
    }
}

/// A batch with blocked keys in it.
pub(super) struct Screened<'a> {
    blocks: &'a Blocks,
    /// How long each of its charges is blocked, if it is.
    waits: SmallVec<[Option<Duration>; 2]>,
    /// The others, as the store is asked for them.
    pub(super) others: SmallVec<[Charge<'a>; 2]>,
}

impl<'a> Screened<'a> {
    /// None where nothing of it is blocked.
    pub(super) fn of(batch: &[Charge<'a>], blocks: &'a Blocks, now: Timestamp) -> Option<Self> {
        let looked = blocks.look(now);
        let mut last: Option<(Parts<'_>, Option<Duration>)> = None;
        let mut wait = |charge: &Charge<'a>| {
            if !matches!(charge.op, Op::Spend | Op::Peek) {
                return None;
            }
            // Charges of one descriptor stand side by side.
            match last {
                Some((parts, wait)) if parts == charge.parts => wait,
                _ => {
                    let wait = looked.wait(charge.parts);
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

    /// What belongs to its other charges, of what belongs to all.
    pub(super) fn of_others<T: Copy>(&self, all: &[T]) -> SmallVec<[T; 2]> {
        all.iter().zip(&self.waits).filter(|(_, wait)| wait.is_none()).map(|(one, _)| *one).collect()
    }

    /// All verdicts, with those of the others in their places: the batch is refused.
    pub(super) fn refused(&self, of_others: &Verdicts) -> Verdicts {
        self.blocks.count_refused();
        let mut of_others = of_others.each().iter();
        let each = self.waits.iter().filter_map(|wait| match wait {
            Some(wait) => Some(blocked(*wait)),
            None => of_others.next().copied(),
        });
        Verdicts::new(false, each)
    }

    /// All verdicts of a batch that was decided as if nothing was blocked, and stays so: it is only told.
    pub(super) fn told(&self, decided: &Verdicts) -> Verdicts {
        let each =
            self.waits.iter().zip(decided.each()).map(|(wait, verdict)| wait.map_or(*verdict, blocked));
        Verdicts::new(decided.committed, each)
    }
}

impl Screened<'_> {
    /// The same, with which of them are blocked.
    pub(super) fn refuses(&self, of_others: &Verdicts) -> Ruled {
        Ruled { verdicts: self.refused(of_others), blocked: Some(self.blocked()) }
    }

    /// As [`Screened::told`], with which of them are blocked.
    pub(super) fn tells(&self, decided: &Verdicts) -> Ruled {
        Ruled { verdicts: self.told(decided), blocked: Some(self.blocked()) }
    }

    fn blocked(&self) -> Box<[bool]> {
        self.waits.iter().map(Option::is_some).collect()
    }
}

fn blocked(wait: Duration) -> Verdict {
    let outcome = Outcome::Refused { retry_after: Some(wait) };
    Verdict { outcome, available: 0, remaining: 0, reset_after: wait }
}
