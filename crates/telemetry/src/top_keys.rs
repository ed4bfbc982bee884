//! Top keys: the keys with most refusals and with most hits, in constant memory. Operators see them; they are never
//! labels of metrics.
//!
//! No thread waits: if a shard is locked, or over its rate, the hits are added to the next record. So counts are exact
//! under low load, and estimates under high load.

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
/// Records per shard and moment: 20,000 per second in total, some thousandths of a core.
const IN_A_MOMENT: u64 = 128;
const MOMENT: Duration = Duration::from_millis(50);
/// Shortest time for which a key is listed; the longest is twice this.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Largest count of one request.
const MOST_AT_ONCE: u64 = 1 << 40;
/// Most rows of a response.
const MOST_SHOWN: usize = 1_000;

/// Order of the keys.
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

/// The keys with the highest counts.
#[derive(Debug, Default)]
pub struct TopKeys {
    denied: Ranking,
    spent: Ranking,
}

impl TopKeys {
    /// Counts a refusal or the spent hits for the key of a charge, with its rule if any.
    pub fn record(
        &self,
        by: RankBy,
        (charge, rule): (&Charge<'_>, Option<RuleId>),
        amount: u64,
        now: Timestamp,
    ) {
        // Clamped, so that no sum of costs overflows.
        let amount = amount.min(MOST_AT_ONCE);
        if amount > 0 {
            let mut folded = KeyHasher::default();
            charge.key.hash(&mut folded);
            self.of(by).record(&ChargedKey { hash: folded.0, parts: charge.parts, rule }, amount, now);
        }
    }

    /// The first rows for the API; `rules` identifies the active rules.
    pub fn shown(&self, by: RankBy, limit: usize, rules: u64, now: Timestamp) -> Value {
        let generation = generation(now);
        let all = self.of(by).shards.iter().flat_map(|shard| shard.counted_by(generation)).collect();
        let mut all = merge_equal_keys(all);
        all.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.parts.cmp(&other.parts)));
        all.truncate(limit.min(MOST_SHOWN));
        let since = generation.saturating_sub(1) * REMEMBERED.as_secs();
        json!({
            "by": by.name(),
            // In seconds for compatibility; every other time of the API is in milliseconds.
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

/// A key is already a keyed hash: its halves are combined, and nothing is hashed again.
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
    /// Start of the next moment, and the number of records in this one.
    next: AtomicU64,
    recorded: AtomicU64,
    /// Hits that were not recorded.
    left: AtomicU64,
    generations: Mutex<Generations>,
}

/// Two generations, so that old counts expire.
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
        // A clock that was set back also begins a new moment.
        let next = self.next.load(Ordering::Relaxed);
        let after = now.saturating_add(MOMENT).as_nanos();
        if nanos >= next || next > after {
            self.next.store(after, Ordering::Relaxed);
            self.recorded.store(0, Ordering::Relaxed);
        }
        let recorded = self.recorded.load(Ordering::Relaxed);
        if recorded < IN_A_MOMENT {
            // Two threads may count as one: this bounds the work and is not a count.
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
        // A thread that read the clock before the turn counts in the new generation.
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
