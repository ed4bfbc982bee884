//! How often each client's refusals are told: its first lines of a window, and then how
//! many were left out. A flood must not fill a disk, and fail2ban needs no more lines
//! than its `maxretry`.
//!
//! Invariant: a line is left out only if this client had [`LogSampling`]'s number of
//! lines within the window before it; so whoever bans by that number within that time
//! bans the same clients at the same moment. The table is of a fixed size. Where it
//! overflows, the client with the fewest refusals is forgotten: that costs lines, never
//! a ban, and the loudest stay known.

use super::Key;
use hivemind_core::Timestamp;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const SETS: usize = 1_024;
const WAYS: usize = 8;
/// How many sets a written line looks at for windows that are over.
const SWEPT_SETS: usize = 64;
/// How many clients it tells of at most, so that one request does not pay for all.
const MOST_TOLD: usize = 8;

/// How many lines of each client are written in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSampling {
    first: NonZeroU32,
    window: Duration,
}

impl LogSampling {
    /// The first lines of a client in each window of this length. Take your jail's
    /// `maxretry` and `findtime`: fewer lines, and fail2ban would never see enough.
    #[must_use]
    pub const fn new(first: NonZeroU32, window: Duration) -> Self {
        Self { first, window }
    }

    fn is_over(self, since: Timestamp, now: Timestamp) -> bool {
        // A clock that was set back by more than a window would else silence a client for as long.
        now.since(since) >= self.window || since.since(now) >= self.window
    }
}

/// 20 lines in 60 seconds, as in the jail that is shipped in `deploy/fail2ban`.
impl Default for LogSampling {
    fn default() -> Self {
        const TWENTY: NonZeroU32 = NonZeroU32::MIN.saturating_add(19);
        Self::new(TWENTY, Duration::from_secs(60))
    }
}

/// Lines of one window of one client that were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) client: Key,
    pub(super) lines: u64,
    pub(super) since: Timestamp,
}

/// What to do about one refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sampled {
    pub(super) is_written: bool,
    /// Of windows that are over, to be told now.
    pub(super) left_out: Vec<LeftOut>,
}

#[derive(Clone, Copy)]
struct Seen {
    client: Key,
    since: Timestamp,
    refusals: u64,
}

type Set = [Option<Seen>; WAYS];

pub(super) struct Samples {
    sampling: LogSampling,
    // Keyed by chance, so that nobody can aim at another client's set.
    hasher: RandomState,
    sets: Box<[Mutex<Set>]>,
    next_swept: AtomicUsize,
}

impl Samples {
    pub(super) fn new(sampling: LogSampling) -> Self {
        let sets = (0..SETS).map(|_| Mutex::new([None; WAYS])).collect();
        Self { sampling, hasher: RandomState::new(), sets, next_swept: AtomicUsize::new(0) }
    }

    /// Counts a refusal.
    pub(super) fn count(&self, client: Key, now: Timestamp) -> Sampled {
        let mut left_out = Vec::new();
        let is_written = self.count_one(client, now, &mut left_out);
        if is_written {
            self.sweep(now, &mut left_out);
        }
        Sampled { is_written, left_out }
    }

    /// Everything that was left out and not told yet, for a log that ends.
    pub(super) fn finish(&self) -> Vec<LeftOut> {
        let taken = self.sets.iter().flat_map(|set| std::mem::replace(&mut *lock_of(set), [None; WAYS]));
        taken.flatten().filter_map(|seen| self.left_out(seen)).collect()
    }

    fn count_one(&self, client: Key, now: Timestamp, left_out: &mut Vec<LeftOut>) -> bool {
        let first = u64::from(self.sampling.first.get());
        let Some(mut set) = self.set(self.hasher.hash_one(client)) else { return true };
        if let Some(seen) = set.iter_mut().flatten().find(|seen| seen.client == client) {
            if self.sampling.is_over(seen.since, now) {
                left_out.extend(self.left_out(*seen));
                *seen = Seen { client, since: now, refusals: 0 };
            }
            seen.refusals = seen.refusals.saturating_add(1);
            return seen.refusals <= first;
        }
        let quietest = set.iter_mut().min_by_key(|way| match way {
            None => 0,
            Some(seen) if self.sampling.is_over(seen.since, now) => 0,
            Some(seen) => seen.refusals,
        });
        if let Some(way) = quietest {
            let forgotten = way.replace(Seen { client, since: now, refusals: 1 });
            left_out.extend(forgotten.and_then(|seen| self.left_out(seen)));
        }
        true
    }

    /// Looks for windows that are over and of which something is to be told: a client
    /// that never comes back would else keep its number to itself.
    fn sweep(&self, now: Timestamp, left_out: &mut Vec<LeftOut>) {
        let from = self.next_swept.fetch_add(SWEPT_SETS, Ordering::Relaxed);
        for index in from..from.wrapping_add(SWEPT_SETS) {
            let Some(mut set) = self.sets.get(index % SETS).map(lock_of) else { continue };
            for way in set.iter_mut() {
                if left_out.len() >= MOST_TOLD {
                    return;
                }
                if let Some(seen) = way.take_if(|seen| self.sampling.is_over(seen.since, now)) {
                    left_out.extend(self.left_out(seen));
                }
            }
        }
    }

    fn left_out(&self, seen: Seen) -> Option<LeftOut> {
        let lines = seen.refusals.saturating_sub(self.sampling.first.get().into());
        (lines > 0).then_some(LeftOut { client: seen.client, lines, since: seen.since })
    }

    fn set(&self, hash: u64) -> Option<MutexGuard<'_, Set>> {
        let index = usize::try_from(hash % SETS as u64).ok()?;
        self.sets.get(index).map(lock_of)
    }
}

fn lock_of(set: &Mutex<Set>) -> MutexGuard<'_, Set> {
    // Nothing that holds it can panic half-way.
    set.lock().unwrap_or_else(PoisonError::into_inner)
}
