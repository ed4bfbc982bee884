//! Counters that are known to be over: what they refuse is refused here, without asking.
//!
//! What is kept is the state that Redis told, and a request is decided on it by the pure
//! algorithms at its own moment. Nobody's spending can make a state admit more, so what it
//! refuses would be refused. Only what is given back elsewhere, a counter that an operator
//! resets elsewhere, or a flushed Redis could admit more, and so a state is believed for
//! [`BELIEVED_FOR`] at most. What this node gives back or forgets itself, it knows at once;
//! a raised limit too, since the limit is the request's own.
//!
//! A refusal that has to be recorded is not decided here, with one exception: a fixed
//! window that is full counts refused hits on and on (`on_refusal: count_refusing`), and
//! that changes nothing until its end but what a refund would free. Such hits are owed, and
//! told with the next call on that counter, if its window is still the same.

use crate::state;
use crate::state::TIME_BYTES;
use crate::table::{Ephemeral, Table};
use hivemind_core::algorithm::{Action, State, Step, step};
use hivemind_core::store::{Charge, Context, Counters, Key, Op, Verdicts, decide_on};
use hivemind_core::{Cost, Limit, Timestamp};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a state is believed.
pub(crate) const BELIEVED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct OverCache {
    known: Table<Known>,
    /// How often this node gave something back: an answer that was asked for before is not kept.
    given_back: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    state: State,
    /// How much Redis' clock is ahead of ours at most.
    ahead: Ahead,
    asked: Timestamp,
    owed: u64,
}

impl Ephemeral for Known {
    fn is_over(&self, now: Timestamp) -> bool {
        // A clock that was set back says nothing of how long ago it was.
        now < self.asked || now >= self.asked.saturating_add(BELIEVED_FOR)
    }
}

/// How far the clock that decides is ahead of ours, told too high by the time an answer takes:
/// what is reckoned with it is never earlier than it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ahead(i128);

impl Ahead {
    /// Of an answer that tells `decided` to a request of the moment `asked`.
    pub(crate) fn of(asked: Timestamp, decided: Timestamp) -> Self {
        Self(i128::from(decided.as_nanos()) - i128::from(asked.as_nanos()))
    }

    pub(crate) fn from(self, ours: Timestamp) -> Timestamp {
        let nanos = (i128::from(ours.as_nanos()) + self.0).max(0);
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Hits that were refused here and are owed to the window that began then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) units: u64,
    pub(crate) began: [u8; TIME_BYTES],
    pub(crate) window: u64,
}

/// A moment in this node's givings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl OverCache {
    /// Refuses the batch, if all it takes to know that is known.
    pub(crate) fn refuse(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        if self.known.is_empty() {
            return None;
        }
        let mut ahead = Ahead(i128::MIN);
        let mut views = Views::default();
        for charge in batch {
            if !matches!(charge.op, Op::Spend | Op::Peek) {
                return None;
            }
            let known = self.known.with(charge.key, |known| *known)?;
            if known.is_over(context.now) {
                return None;
            }
            ahead = ahead.max(known.ahead);
            views.states.push((charge.key, known.state));
        }
        views.now = ahead.from(context.now);
        let verdicts = decide_on(batch, Context { now: views.now, ..context }, &mut views);
        if verdicts.committed || views.has_to_be_recorded {
            return None;
        }
        for (key, state, units) in views.owed {
            self.known.with(key, |known| {
                known.state = state;
                known.owed = known.owed.saturating_add(units);
            });
        }
        Some(verdicts)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.given_back.load(Ordering::Acquire))
    }

    /// What is owed to a charge's counter; it is told now.
    pub(crate) fn take_owed(&self, charge: &Charge<'_>) -> Option<Owed> {
        let known = self.known.with(charge.key, |known| {
            let told = *known;
            known.owed = 0;
            told
        })?;
        let began = state::beginning(charge.limit, known.state);
        (known.owed > 0).then(|| Owed { units: known.owed, began, window: known.state.bits().0 })
    }

    /// Keeps what an answer told of the counters of a batch: all of them after a refusal,
    /// and what is known of them already in any case.
    pub(crate) fn learn(
        &self,
        batch: &[Charge<'_>],
        (context, decided): (Context, Timestamp),
        (committed, mark): (bool, Mark),
        state_of: impl Fn(&Charge<'_>) -> Option<State>,
    ) {
        if batch.iter().any(|charge| charge.op == Op::Refund) {
            self.given_back.fetch_add(1, Ordering::AcqRel);
            for charge in batch {
                self.known.remove(charge.key);
            }
            return;
        }
        if committed && self.known.is_empty() {
            return;
        }
        for charge in batch {
            let is_known = || self.known.with(charge.key, |_| ()).is_some();
            if committed && !is_known() {
                continue;
            }
            match state_of(charge) {
                Some(state) if mark == self.mark() => {
                    let ahead = Ahead::of(context.now, decided);
                    let owed = self.known.with(charge.key, |known| known.owed).unwrap_or(0);
                    self.known.insert(
                        charge.key,
                        Known { state, ahead, asked: context.now, owed },
                        context.now,
                    );
                }
                _ => drop(self.known.remove(charge.key)),
            }
        }
    }

    /// This node forgot a counter.
    pub(crate) fn forget(&self, key: Key) {
        self.given_back.fetch_add(1, Ordering::AcqRel);
        self.known.remove(key);
    }
}

/// The states that are known, and whether deciding on them leaves something to record.
#[derive(Default)]
struct Views {
    now: Timestamp,
    states: SmallVec<[(Key, State); 2]>,
    owed: SmallVec<[(Key, State, u64); 2]>,
    has_to_be_recorded: bool,
}

impl Counters for Views {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        self.states.iter().find(|(key, _)| *key == charge.key).map(|(_, state)| *state)
    }

    fn write(&mut self, charge: &Charge<'_>, after: &Step) {
        let before = self.read(charge);
        if before == Some(after.state) {
            return;
        }
        let look = step(charge.limit, before, Action::Peek, Cost::ZERO, self.now);
        let in_its_window = look.state.bits().0 == after.state.bits().0 && before == Some(look.state);
        let is_full = look.verdict.remaining == 0 && matches!(charge.limit, Limit::FixedWindow(_));
        if !(is_full && in_its_window) {
            self.has_to_be_recorded = true;
            return;
        }
        self.owed.push((charge.key, after.state, charge.cost.get()));
        if let Some((_, state)) = self.states.iter_mut().find(|(key, _)| *key == charge.key) {
            *state = after.state;
        }
    }
}
