//! Leases: slices of a busy window that this node has taken in Redis and spends without further calls.
//!
//! Invariant: Redis counts a slice before the node spends it, so no window admits more than its limit, even if the
//! node crashes. The cost: other nodes refuse what this node holds unspent, at most one slice per node and a
//! quarter of what was left, until the node returns it (after `longest`) or the window ends. A lease that is lost
//! with its node, or in a return without a response, stays counted until its window ends.
//!
//! Only windows are leased: a bucket refills while a node holds its tokens, so spending them later would exceed
//! its burst.

use crate::counter_cache::{CounterCache, Expiring};
use crate::options;
use crate::over_cache::Ahead;
use crate::state::{self, TIME_BYTES};
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
    entries: CounterCache<LeaseEntry>,
    /// Unspent parts of leases that ended early, until they are returned.
    ended: Mutex<Vec<(Key, LeaseEntry)>>,
}

/// Most ended leases that are kept for their return; others stay counted until their window ends.
const MOST_ENDED: usize = 16_384;

/// A recently requested counter, with the lease of its window.
#[derive(Clone, Debug)]
pub(crate) struct LeaseEntry {
    /// Units taken and not spent yet.
    pub(crate) left: u64,
    /// The state of the counter as if only spent units were counted; `None` until a slice is leased.
    view: Option<State>,
    ahead: Ahead,
    /// When it was requested, and when it becomes stale: after `longest`, or with its window.
    requested: Timestamp,
    until: Timestamp,
    pub(crate) began: [u8; TIME_BYTES],
    pub(crate) limit: Limit,
    pub(crate) name: KeyName,
    last_requested: Timestamp,
    /// Until this time a slice is requested, and no other one is: a node holds one at most.
    requested_until: Timestamp,
}

impl Expiring for LeaseEntry {
    fn is_expired(&self, now: Timestamp) -> bool {
        // After a clock was set back, the age is unknown.
        now < self.requested || now >= self.until
    }

    fn must_be_kept(&self) -> bool {
        self.left > 0
    }
}

/// Requests of a call for a counter in addition to its charge.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeaseRequest {
    /// Units of a stale lease, and the start of their window.
    pub(crate) returned: Option<(u64, [u8; TIME_BYTES])>,
    /// Whether to take a slice.
    pub(crate) slice: Option<u32>,
}

impl Leases {
    pub(crate) fn new(terms: options::LeaseOptions, prefix: Prefix) -> Self {
        Self { terms, prefix, entries: CounterCache::default(), ended: Mutex::default() }
    }

    /// Admits the batch, if all its counters are leased and enough is left.
    pub(crate) fn admit(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        if self.entries.is_empty() || !batch.iter().all(can_be_leased) {
            return None;
        }
        let mut views = LeaseViews::default();
        let mut ahead = Ahead::default();
        for (index, charge) in batch.iter().enumerate() {
            if batch.iter().take(index).any(|earlier| earlier.key == charge.key) {
                return None; // Two charges on one counter are rare; Redis decides them.
            }
            let taken = self.entries.with(charge.key, |entry| {
                // A cost of zero is a peek, which also needs a lease.
                let spendable = !entry.is_expired(context.now) && entry.left >= charge.cost.get();
                let view = entry.view.filter(|_| spendable)?;
                entry.left -= charge.cost.get();
                Some((view, entry.ahead, entry.began))
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
            return None; // The limit was lowered in the meantime.
        }
        for (key, view) in views.written {
            // Unless it was returned in the meantime.
            self.entries.with(key, |entry| entry.view = entry.view.map(|_| view));
        }
        Some(verdicts)
    }

    /// Puts spent units back, unless the lease is of another window by now.
    fn put_back(&self, batch: &[Charge<'_>], views: &LeaseViews) {
        for (charge, began) in batch.iter().zip(&views.began) {
            let kept = self.entries.with(charge.key, |entry| {
                if entry.began == *began {
                    entry.left += charge.cost.get();
                }
            });
            if kept.is_none() {
                self.keep_rest(
                    charge.key,
                    LeaseEntry { left: charge.cost.get(), ..self.unleased(charge, *began) },
                );
            }
        }
    }

    /// What a call requests in addition to a charge: a slice, if the counter was requested recently.
    pub(crate) fn request(&self, charge: &Charge<'_>, now: Timestamp) -> LeaseRequest {
        if !can_be_leased(charge) {
            return LeaseRequest::default();
        }
        let known = self.entries.with(charge.key, |entry| {
            let is_busy = now.since(entry.last_requested) < self.terms.longest;
            let returned = (entry.left > 0).then_some((entry.left, entry.began));
            (entry.left, entry.view) = (0, None);
            // Concurrent requests are not that far apart, unless the clock was set back.
            let is_set_back = now.saturating_add(self.terms.longest) < entry.last_requested;
            let is_requested = now < entry.requested_until && !is_set_back;
            let leases = is_busy && !is_requested;
            entry.last_requested = now;
            if leases {
                entry.requested_until = now.saturating_add(self.terms.longest);
            }
            LeaseRequest { returned, slice: leases.then_some(self.terms.slice) }
        });
        known.unwrap_or_else(|| {
            let unknown = LeaseEntry {
                requested: now,
                until: now.saturating_add(self.terms.longest),
                last_requested: now,
                requested_until: now,
                ..self.unleased(charge, [0; TIME_BYTES])
            };
            self.entries.insert(charge.key, unknown, now);
            LeaseRequest::default()
        })
    }

    /// Records what a call leased for a charge: a quarter of what was left, up to the slice.
    pub(crate) fn record_taken(
        &self,
        charge: &Charge<'_>,
        verdict: &Verdict,
        view: State,
        (requested, decided): (Timestamp, Timestamp),
    ) -> u64 {
        let taken = u64::from(self.terms.slice).min(verdict.remaining / 4);
        let ahead = Ahead::of(requested, decided);
        let period = u64::try_from(charge.limit.period().length().as_nanos()).unwrap_or(u64::MAX);
        let window_ends = (decided.as_nanos() / period + 1).saturating_mul(period);
        // In our time, too early by the latency of the response.
        let left_of_window = Duration::from_nanos(window_ends.saturating_sub(decided.as_nanos()));
        let until = requested.saturating_add(self.terms.longest.min(left_of_window));
        let began = state::beginning(charge.limit, view);
        let noted = self.entries.with(charge.key, |entry| {
            entry.left = if entry.began == began { entry.left + taken } else { taken };
            entry.requested_until = requested;
            (entry.view, entry.ahead, entry.began, entry.limit) = (Some(view), ahead, began, *charge.limit);
            (entry.requested, entry.until) = (requested, until);
        });
        if noted.is_none() {
            // The response was so late that the entry was dropped.
            self.keep_rest(charge.key, LeaseEntry { left: taken, ..self.unleased(charge, began) });
        }
        taken
    }

    /// An entry without a lease.
    fn unleased(&self, charge: &Charge<'_>, began: [u8; TIME_BYTES]) -> LeaseEntry {
        let never = Timestamp::from_nanos(0);
        LeaseEntry {
            left: 0,
            view: None,
            ahead: Ahead::default(),
            requested: never,
            until: never,
            began,
            limit: *charge.limit,
            name: script::name(&self.prefix, charge),
            last_requested: never,
            requested_until: never,
        }
    }

    /// Drops the lease of a counter that was reset: its units do not count for the new counter.
    pub(crate) fn forget(&self, key: Key) {
        self.entries.remove(key);
    }

    /// Ends a lease early, because its counter is decided in another way; the rest is returned soon.
    pub(crate) fn end(&self, key: Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.keep_rest(key, entry);
        }
    }

    /// Keeps the unspent part of an ended lease until it is returned.
    fn keep_rest(&self, key: Key, entry: LeaseEntry) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if entry.must_be_kept() && ended.len() < MOST_ENDED {
            ended.push((key, entry));
        }
    }

    /// Removes and returns the leases that are stale or ended and have unspent units.
    pub(crate) fn stale(&self, now: Timestamp) -> Vec<(Key, LeaseEntry)> {
        let mut stale = self.entries.take_expired(now);
        stale.append(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        stale.retain(|(_, entry)| entry.left > 0);
        stale
    }
}

fn can_be_leased(charge: &Charge<'_>) -> bool {
    charge.op == Op::Spend && charge.mode == Mode::Enforce && !matches!(charge.limit, Limit::TokenBucket(_))
}

#[derive(Default)]
struct LeaseViews {
    states: SmallVec<[(Key, State); 2]>,
    written: SmallVec<[(Key, State); 2]>,
    began: SmallVec<[[u8; TIME_BYTES]; 2]>,
}

impl Counters for LeaseViews {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        self.states.iter().find(|(key, _)| *key == charge.key).map(|(_, state)| *state)
    }

    fn write(&mut self, charge: &Charge<'_>, step: &Step) {
        self.written.push((charge.key, step.state));
    }
}
