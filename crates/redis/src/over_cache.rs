//! Over cache: counters known to be over their limit, whose requests are refused without a call.
//!
//! The cache stores the states that Redis returned. The pure algorithms decide a request on such a state at the
//! time of the request. Spending elsewhere never makes a state admit more, so Redis would refuse the same
//! requests. Only a refund on another node, a reset by an operator or a flushed Redis could admit more, so a state
//! is trusted for [`TRUSTED_FOR`] at most. Refunds and resets on this node, and raised limits, apply immediately.
//!
//! A refusal that has to be recorded is not decided here, with one exception: a full fixed window also counts
//! refused hits (`on_refusal: count_refusing`), which changes only what a refund would free. Such hits are owed:
//! the next call on that counter reports them, if its window is still the same.

use crate::counter_cache::{CounterCache, Expiring};
use crate::state;
use crate::state::TIME_BYTES;
use hivemind_core::algorithm::{Action, State, Step, step};
use hivemind_core::store::{Charge, Context, Counters, Key, Op, Verdicts, decide_on};
use hivemind_core::{Cost, Limit, Timestamp};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a state is trusted.
pub(crate) const TRUSTED_FOR: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct OverCache {
    entries: CounterCache<OverEntry>,
    /// Refunds and resets on this node: a response to an earlier call is not stored.
    given_back: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct OverEntry {
    state: State,
    /// Upper bound of the lead of Redis' clock over ours.
    ahead: Ahead,
    asked: Timestamp,
    owed: u64,
}

impl Expiring for OverEntry {
    fn is_expired(&self, now: Timestamp) -> bool {
        // After a clock was set back, the age is unknown.
        now < self.asked || now >= self.asked.saturating_add(TRUSTED_FOR)
    }
}

/// Upper bound of the lead of the deciding clock over ours: it includes the latency of a response, so a converted
/// time is never too early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ahead(i128);

impl Ahead {
    /// The lead that follows from a request at `asked` and a decision at `decided`.
    pub(crate) fn of(asked: Timestamp, decided: Timestamp) -> Self {
        Self(i128::from(decided.as_nanos()) - i128::from(asked.as_nanos()))
    }

    pub(crate) fn from(self, ours: Timestamp) -> Timestamp {
        let nanos = (i128::from(ours.as_nanos()) + self.0).max(0);
        Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Hits that were refused here and are owed to the window with this start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwedHits {
    pub(crate) units: u64,
    pub(crate) began: [u8; TIME_BYTES],
    pub(crate) window: u64,
}

/// A number of refunds and resets on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl OverCache {
    /// Refuses the batch, if the cached states suffice for that.
    pub(crate) fn refuse(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        if self.entries.is_empty() {
            return None;
        }
        let mut ahead = Ahead(i128::MIN);
        let mut views = CachedViews::default();
        for charge in batch {
            if !matches!(charge.op, Op::Spend | Op::Peek) {
                return None;
            }
            let known = self.entries.with(charge.key, |known| *known)?;
            if known.is_expired(context.now) {
                return None;
            }
            ahead = ahead.max(known.ahead);
            views.states.push((charge.key, known.state));
        }
        views.now = ahead.from(context.now);
        let verdicts = decide_on(batch, Context { now: views.now, ..context }, &mut views);
        if verdicts.committed || views.must_be_recorded {
            return None;
        }
        for (key, state, units) in views.owed {
            self.entries.with(key, |known| {
                known.state = state;
                known.owed = known.owed.saturating_add(units);
            });
        }
        Some(verdicts)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.given_back.load(Ordering::Acquire))
    }

    /// Takes the owed hits of a charge's counter, to report them.
    pub(crate) fn take_owed(&self, charge: &Charge<'_>) -> Option<OwedHits> {
        let known = self.entries.with(charge.key, |known| {
            let before = *known;
            known.owed = 0;
            before
        })?;
        let began = state::beginning(charge.limit, known.state);
        (known.owed > 0).then(|| OwedHits { units: known.owed, began, window: known.state.bits().0 })
    }

    /// Stores the states of a response: all of them after a refusal, otherwise only those of cached counters.
    pub(crate) fn record(
        &self,
        batch: &[Charge<'_>],
        (context, decided): (Context, Timestamp),
        (committed, mark): (bool, Mark),
        state_of: impl Fn(&Charge<'_>) -> Option<State>,
    ) {
        if batch.iter().any(|charge| charge.op == Op::Refund) {
            self.given_back.fetch_add(1, Ordering::AcqRel);
            for charge in batch {
                self.entries.remove(charge.key);
            }
            return;
        }
        if committed && self.entries.is_empty() {
            return;
        }
        for charge in batch {
            let is_known = || self.entries.with(charge.key, |_| ()).is_some();
            if committed && !is_known() {
                continue;
            }
            match state_of(charge) {
                Some(state) if mark == self.mark() => {
                    let ahead = Ahead::of(context.now, decided);
                    let owed = self.entries.with(charge.key, |known| known.owed).unwrap_or(0);
                    self.entries.insert(
                        charge.key,
                        OverEntry { state, ahead, asked: context.now, owed },
                        context.now,
                    );
                }
                _ => drop(self.entries.remove(charge.key)),
            }
        }
    }

    /// Drops a counter that this node reset or refunded.
    pub(crate) fn forget(&self, key: Key) {
        self.given_back.fetch_add(1, Ordering::AcqRel);
        self.entries.remove(key);
    }
}

/// The cached states of a batch, and whether its decision has to be recorded.
#[derive(Default)]
struct CachedViews {
    now: Timestamp,
    states: SmallVec<[(Key, State); 2]>,
    owed: SmallVec<[(Key, State, u64); 2]>,
    must_be_recorded: bool,
}

impl Counters for CachedViews {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        self.states.iter().find(|(key, _)| *key == charge.key).map(|(_, state)| *state)
    }

    fn write(&mut self, charge: &Charge<'_>, after: &Step) {
        let before = self.read(charge);
        if before == Some(after.state) {
            return;
        }
        let peeked = step(charge.limit, before, Action::Peek, Cost::ZERO, self.now);
        let in_its_window = peeked.state.bits().0 == after.state.bits().0 && before == Some(peeked.state);
        let is_full = peeked.verdict.remaining == 0 && matches!(charge.limit, Limit::FixedWindow(_));
        if !(is_full && in_its_window) {
            self.must_be_recorded = true;
            return;
        }
        self.owed.push((charge.key, after.state, charge.cost.get()));
        if let Some((_, state)) = self.states.iter_mut().find(|(key, _)| *key == charge.key) {
            *state = after.state;
        }
    }
}
