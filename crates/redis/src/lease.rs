//! Leases: a slice of a busy window's budget that this node has taken in Redis, and
//! spends without asking.
//!
//! Bounded by construction: what is leased is counted in Redis first, so no window ever
//! admits more than its limit, whatever becomes of the node. The price is on the other
//! side: what a node holds unspent is refused elsewhere, a slice for each node at most and
//! a quarter of what was left, until it is given back (after `longest`) or its window ends.
//! What is lost with a node, or with a call that gives back and is not answered in time, stays
//! counted until its window ends.
//!
//! Windows only: a token that was taken from a bucket and is spent later comes on top of the
//! burst that has refilled meanwhile, so a bucket's promise would not hold.

use crate::options;
use crate::over_cache::Ahead;
use crate::state::{self, TIME_BYTES};
use crate::table::{Ephemeral, Table};
use crate::{KeyName, Prefix, script};
use hivemind_core::algorithm::{State, Step};
use hivemind_core::store::{Charge, Context, Counters, Key, Mode, Op, Verdict, Verdicts, decide_on};
use hivemind_core::{Limit, Timestamp};
use smallvec::SmallVec;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Leases {
    terms: options::LeaseOptions,
    prefix: Prefix,
    held: Table<Held>,
    /// Rests of leases that ended early, until they are given back.
    ended: Mutex<Vec<(Key, Held)>>,
}

/// So many rests are kept to be given back; what is more stays counted until its window ends.
const MOST_ENDED: usize = 16_384;

/// What is known of one window that was asked for lately.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Units taken and not spent yet.
    pub(crate) left: u64,
    /// The counter as if only what was spent were counted; none until something is leased.
    view: Option<State>,
    ahead: Ahead,
    /// When it was asked for, and when it is stale: by the lease's time, or with its window.
    asked: Timestamp,
    until: Timestamp,
    pub(crate) began: [u8; TIME_BYTES],
    pub(crate) limit: Limit,
    pub(crate) name: KeyName,
    last_asked: Timestamp,
    /// Until then a slice is on its way, and no other is asked for: a node holds one at most.
    asked_until: Timestamp,
}

impl Ephemeral for Held {
    fn is_over(&self, now: Timestamp) -> bool {
        // A clock that was set back says nothing of how long ago it was.
        now < self.asked || now >= self.until
    }

    fn is_owing(&self) -> bool {
        self.left > 0
    }
}

/// What a call has to ask for a counter besides its charge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    /// A stale rest, and the window that it was taken from.
    pub(crate) returned: Option<(u64, [u8; TIME_BYTES])>,
    /// Whether to take a slice.
    pub(crate) slice: Option<u32>,
}

impl Leases {
    pub(crate) fn new(terms: options::LeaseOptions, prefix: Prefix) -> Self {
        Self { terms, prefix, held: Table::default(), ended: Mutex::default() }
    }

    /// Admits the batch, if all its counters are leased and enough is left.
    pub(crate) fn admit(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        if self.held.is_empty() || !batch.iter().all(can_be_leased) {
            return None;
        }
        let mut views = Views::default();
        let mut ahead = Ahead::default();
        for (index, charge) in batch.iter().enumerate() {
            if batch.iter().take(index).any(|earlier| earlier.key == charge.key) {
                return None; // Twice on one counter is rare, and Redis can tell.
            }
            let taken = self.held.with(charge.key, |held| {
                // What costs nothing is no more than a look, which takes a lease as well.
                let spendable = !held.is_over(context.now) && held.left >= charge.cost.get();
                let view = held.view.filter(|_| spendable)?;
                held.left -= charge.cost.get();
                Some((view, held.ahead, held.began))
            });
            let Some((view, of, began)) = taken.flatten() else {
                self.put_back(batch, &views);
                return None;
            };
            ahead = if index == 0 { of } else { ahead.max(of) };
            views.states.push((charge.key, view));
            views.began.push(began);
        }
        let verdicts = decide_on(batch, Context { now: ahead.from(context.now), ..context }, &mut views);
        if !verdicts.committed {
            self.put_back(batch, &views);
            return None; // A limit was lowered meanwhile.
        }
        for (key, view) in views.written {
            // Unless it was given back meanwhile.
            self.held.with(key, |held| held.view = held.view.map(|_| view));
        }
        Some(verdicts)
    }

    /// What was taken of another window meanwhile is none of this one's.
    fn put_back(&self, batch: &[Charge<'_>], views: &Views) {
        for (charge, began) in batch.iter().zip(&views.began) {
            let kept = self.held.with(charge.key, |held| {
                if held.began == *began {
                    held.left += charge.cost.get();
                }
            });
            if kept.is_none() {
                self.keep_rest(charge.key, Held { left: charge.cost.get(), ..self.asked(charge, *began) });
            }
        }
    }

    /// What to ask for besides a charge: a slice, if its counter was asked for a moment ago.
    pub(crate) fn wish(&self, charge: &Charge<'_>, now: Timestamp) -> Wish {
        if !can_be_leased(charge) {
            return Wish::default();
        }
        let known = self.held.with(charge.key, |held| {
            let is_busy = now.since(held.last_asked) < self.terms.longest;
            let returned = (held.left > 0).then_some((held.left, held.began));
            (held.left, held.view) = (0, None);
            // Requests under way at once are not that far apart, unless the clock was set back.
            let is_set_back = now.saturating_add(self.terms.longest) < held.last_asked;
            let is_on_its_way = now < held.asked_until && !is_set_back;
            let asks = is_busy && !is_on_its_way;
            held.last_asked = now;
            if asks {
                held.asked_until = now.saturating_add(self.terms.longest);
            }
            Wish { returned, slice: asks.then_some(self.terms.slice) }
        });
        known.unwrap_or_else(|| {
            let unknown = Held {
                asked: now,
                until: now.saturating_add(self.terms.longest),
                last_asked: now,
                asked_until: now,
                ..self.asked(charge, [0; TIME_BYTES])
            };
            self.held.insert(charge.key, unknown, now);
            Wish::default()
        })
    }

    /// Notes what a call took for a charge: a quarter of what was left, up to the slice.
    pub(crate) fn took(
        &self,
        charge: &Charge<'_>,
        verdict: &Verdict,
        view: State,
        (asked, decided): (Timestamp, Timestamp),
    ) -> u64 {
        let taken = u64::from(self.terms.slice).min(verdict.remaining / 4);
        let ahead = Ahead::of(asked, decided);
        let period = u64::try_from(charge.limit.period().length().as_nanos()).unwrap_or(u64::MAX);
        let window_ends = (decided.as_nanos() / period + 1).saturating_mul(period);
        // In our time, told too early by as much as the answer took.
        let left_of_window = Duration::from_nanos(window_ends.saturating_sub(decided.as_nanos()));
        let until = asked.saturating_add(self.terms.longest.min(left_of_window));
        let began = state::beginning(charge.limit, view);
        let noted = self.held.with(charge.key, |held| {
            held.left = if held.began == began { held.left + taken } else { taken };
            held.asked_until = asked;
            (held.view, held.ahead, held.began, held.limit) = (Some(view), ahead, began, *charge.limit);
            (held.asked, held.until) = (asked, until);
        });
        if noted.is_none() {
            // It came so late that its place was given up.
            self.keep_rest(charge.key, Held { left: taken, ..self.asked(charge, began) });
        }
        taken
    }

    /// A counter of which nothing is leased.
    fn asked(&self, charge: &Charge<'_>, began: [u8; TIME_BYTES]) -> Held {
        let never = Timestamp::from_nanos(0);
        Held {
            left: 0,
            view: None,
            ahead: Ahead::default(),
            asked: never,
            until: never,
            began,
            limit: *charge.limit,
            name: script::name(&self.prefix, charge),
            last_asked: never,
            asked_until: never,
        }
    }

    /// Its counter starts anew: what was taken from the old one is none of the new one's.
    pub(crate) fn forget(&self, key: Key) {
        self.held.remove(key);
    }

    /// It is decided otherwise: what is left of its lease is given back soon.
    pub(crate) fn end(&self, key: Key) {
        if let Some(held) = self.held.remove(key) {
            self.keep_rest(key, held);
        }
    }

    /// Keeps what is left of a lease that ended until it is given back.
    fn keep_rest(&self, key: Key, held: Held) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_owing() && ended.len() < MOST_ENDED {
            ended.push((key, held));
        }
    }

    /// What has become stale, or ended, with a rest in it.
    pub(crate) fn stale(&self, now: Timestamp) -> Vec<(Key, Held)> {
        let mut stale = self.held.take_over(now);
        stale.append(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        stale.retain(|(_, held)| held.left > 0);
        stale
    }
}

fn can_be_leased(charge: &Charge<'_>) -> bool {
    charge.op == Op::Spend && charge.mode == Mode::Enforce && !matches!(charge.limit, Limit::TokenBucket(_))
}

#[derive(Default)]
struct Views {
    states: SmallVec<[(Key, State); 2]>,
    written: SmallVec<[(Key, State); 2]>,
    began: SmallVec<[[u8; TIME_BYTES]; 2]>,
}

impl Counters for Views {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        self.states.iter().find(|(key, _)| *key == charge.key).map(|(_, state)| *state)
    }

    fn write(&mut self, charge: &Charge<'_>, step: &Step) {
        self.written.push((charge.key, step.state));
    }
}
