//! Who is refused most, and who spends most: the few keys that matter, in memory that does not grow with their number.
//! They are told to operators and are never a label.
//!
//! Nobody waits here: whoever finds the place taken, or has come too often within a moment, adds what it brings to what
//! the next one records. So a count is exact while there is little to count, and an estimate in a flood.

mod sketch;

use hivemind_core::Timestamp;
use hivemind_core::store::Charge;
use serde_json::{Value, json};
pub use sketch::RuleId;
use sketch::{ChargedKey, Sketch, merge_equal_keys};
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 8;
/// How many are recorded in a shard within a moment: 20,000 a second in all, some thousandths of a core.
const IN_A_MOMENT: u64 = 128;
const MOMENT: Duration = Duration::from_millis(50);
/// How long something is told at least; at most it is told twice as long.
const REMEMBERED: Duration = Duration::from_secs(300);
/// The most that one request counts for.
const MOST_AT_ONCE: u64 = 1 << 40;
/// The most that one answer tells.
const MOST_SHOWN: usize = 1_000;

/// What keys are told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankBy {
    Denied,
    Spent,
}

impl RankBy {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "denied" => Some(Self::Denied),
            "spent" => Some(Self::Spent),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Spent => "spent",
        }
    }
}

/// The keys that matter.
#[derive(Debug, Default)]
pub struct TopKeys {
    denied: Ranking,
    spent: Ranking,
}

impl TopKeys {
    /// Counts for the key of a charge: a refusal, or what it has spent, by this rule, if it was one.
    pub fn record(
        &self,
        by: RankBy,
        (charge, rule): (&Charge<'_>, Option<RuleId>),
        amount: u64,
        now: Timestamp,
    ) {
        // Whatever a request claims to cost: no sum of such amounts wraps round.
        let amount = amount.min(MOST_AT_ONCE);
        if amount > 0 {
            let mut folded = KeyHasher::default();
            charge.key.hash(&mut folded);
            self.of(by).record(&ChargedKey { hash: folded.0, parts: charge.parts, rule }, amount, now);
        }
    }

    /// The first of them, as the API shows them while these are the rules in force.
    pub fn shown(&self, by: RankBy, limit: usize, rules: u64, now: Timestamp) -> Value {
        let generation = generation(now);
        let all = self.of(by).shards.iter().flat_map(|shard| shard.counted_by(generation)).collect();
        let mut all = merge_equal_keys(all);
        all.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.parts.cmp(&other.parts)));
        all.truncate(limit.min(MOST_SHOWN));
        let since = generation.saturating_sub(1) * REMEMBERED.as_secs();
        json!({
            "by": by.name(),
            // In seconds, as it always was; every other time of the API is in milliseconds.
            "since": since,
            "since_ms": since * 1_000,
            "keys": all.iter().map(|counted| counted.shown(rules)).collect::<Vec<_>>(),
        })
    }

    const fn of(&self, by: RankBy) -> &Ranking {
        match by {
            RankBy::Denied => &self.denied,
            RankBy::Spent => &self.spent,
        }
    }
}

/// A key is a hash already, under a secret: its halves are laid over each other, and nothing is hashed again.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 ^= half;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn generation(now: Timestamp) -> u64 {
    now.as_nanos() / 1_000_000_000 / REMEMBERED.as_secs()
}

#[derive(Debug, Default)]
struct Ranking {
    shards: [TopShard; SHARDS],
}

#[derive(Debug, Default)]
struct TopShard {
    /// When the next moment begins, and how many were recorded in this one.
    next: AtomicU64,
    recorded: AtomicU64,
    /// What those brought who were not recorded.
    left: AtomicU64,
    generations: Mutex<Generations>,
}

/// Two spans of time, so that what is long past is forgotten.
#[derive(Debug, Default)]
struct Generations {
    number: u64,
    now: Sketch,
    before: Sketch,
}

impl Ranking {
    fn record(&self, key: &ChargedKey<'_>, amount: u64, now: Timestamp) {
        let Some(shard) =
            usize::try_from(key.hash % SHARDS as u64).ok().and_then(|index| self.shards.get(index))
        else {
            return;
        };
        if !shard.has_room(now) {
            shard.left.fetch_add(amount, Ordering::Relaxed);
            return;
        }
        let Ok(mut generations) = shard.generations.try_lock() else {
            shard.left.fetch_add(amount, Ordering::Relaxed);
            return;
        };
        generations.turn_to(generation(now));
        let left =
            if shard.left.load(Ordering::Relaxed) > 0 { shard.left.swap(0, Ordering::Relaxed) } else { 0 };
        generations.now.record(key, amount, left);
    }
}

impl TopShard {
    fn has_room(&self, now: Timestamp) -> bool {
        let nanos = now.as_nanos();
        // A clock that was set back begins a new moment, too.
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(MOMENT).as_nanos();
        if nanos >= next || next > after {
            self.next.store(after, Ordering::Relaxed);
            self.recorded.store(0, Ordering::Relaxed);
        }
        let recorded = self.recorded.load(Ordering::Relaxed);
        if recorded < IN_A_MOMENT {
            // Two at once count as one: this is a bound on work, not a count.
            self.recorded.store(recorded + 1, Ordering::Relaxed);
        }
        recorded < IN_A_MOMENT
    }

    fn counted_by(&self, generation: u64) -> Vec<sketch::KeyCount> {
        let mut generations = self.generations.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        generations.turn_to(generation);
        generations.now.merged(&generations.before)
    }
}

impl Generations {
    fn turn_to(&mut self, number: u64) {
        // Whoever read the clock before another one turned it counts with those that came after.
        if number == self.number || number.saturating_add(1) == self.number {
            return;
        }
        let was_last = number == self.number + 1;
        let before = std::mem::take(&mut self.now);
        self.before = if was_last { before } else { Sketch::default() };
        self.number = number;
    }
}

#[cfg(test)]
mod tests;
