//! A batch with keys in it that an operator has blocked. They are refused until their time, in whatever mode; what is
//! charged beside them is looked at and not spent, as beside any other refusal. What is given back or taken in any case is so
//! here, too.

use crate::blocks::Blocks;
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Op, Outcome, Verdict, Verdicts};
use smallvec::SmallVec;
use std::time::Duration;

/// A batch with blocked keys in it.
pub(super) struct Screened<'a> {
    /// How long each of its charges is blocked, if it is.
    waits: SmallVec<[Option<Duration>; 2]>,
    /// The others, as the store is asked for them.
    pub(super) others: SmallVec<[Charge<'a>; 2]>,
}

impl<'a> Screened<'a> {
    /// None where nothing of it is blocked.
    #[cold]
    pub(super) fn of(batch: &[Charge<'a>], blocks: &Blocks, now: Timestamp) -> Option<Self> {
        let wait = |charge: &Charge<'_>| {
            let is_judged = matches!(charge.op, Op::Spend | Op::Peek);
            is_judged.then(|| blocks.until(charge.parts, now)).flatten().map(|until| until.since(now))
        };
        let waits: SmallVec<[Option<Duration>; 2]> = batch.iter().map(wait).collect();
        if waits.iter().all(Option::is_none) {
            return None;
        }
        let others = batch.iter().zip(&waits).filter(|(_, wait)| wait.is_none()).map(|(charge, _)| {
            let op = if charge.op == Op::Spend { Op::Peek } else { charge.op };
            Charge { op, ..*charge }
        });
        Some(Self { others: others.collect(), waits })
    }

    /// What belongs to its other charges, of what belongs to all.
    pub(super) fn of_others<T: Copy>(&self, all: &[T]) -> SmallVec<[T; 2]> {
        all.iter().zip(&self.waits).filter(|(_, wait)| wait.is_none()).map(|(one, _)| *one).collect()
    }

    /// All verdicts, with those of the others in their places: the batch is refused.
    pub(super) fn refused(&self, of_others: &Verdicts) -> Verdicts {
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

fn blocked(wait: Duration) -> Verdict {
    let outcome = Outcome::Refused { retry_after: Some(wait) };
    Verdict { outcome, available: 0, remaining: 0, reset_after: wait }
}
