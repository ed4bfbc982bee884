//! Comparison of two rule sets on the same requests, each with its own, initially empty counters.

#[cfg(test)]
mod tests;
mod text;

use super::engine::{Engine, ReplayDecision};
use super::timeline::Timeline;
use hivemind_core::store::OnRefusal;
use hivemind_core::{Descriptor, Rules, Timestamp};
use hivemind_telemetry::redact_once;
use std::collections::HashMap;

/// Maximum number of keys that are counted individually.
const MOST_KEYS: usize = 100_000;
/// Maximum size of all these keys: the caller of a simulation chooses them.
const MOST_KEY_BYTES: usize = 16 << 20;
/// Maximum length of stored texts, in bytes.
const LONGEST_TEXT: usize = 128;

/// Decides requests under both rule sets and counts the results.
pub struct Comparison {
    engines: Both<Engine>,
    pub requests: u64,
    pub total: Both<Total>,
    /// Requests admitted by the current rules and limited by the new ones.
    pub newly_limited: u64,
    pub newly_allowed: u64,
    /// Times of the first and the last request.
    pub span_ms: Option<(u64, u64)>,
    /// Requests, and how many are limited by each rule set.
    pub timeline: Timeline<3>,
    keys: HashMap<ComparedKey, KeyResults>,
    key_bytes: usize,
    /// Requests of keys beyond `MOST_KEYS` and `MOST_KEY_BYTES`.
    pub unnamed: u64,
    /// Requests with truncated texts.
    pub cut: u64,
}

/// A value for the current rules and one for the new rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Both<T> {
    pub now: T,
    pub then: T,
}

/// Result of a rule set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub allowed: u64,
    pub limited: u64,
    /// Admitted requests without a matching limit.
    pub unlimited: u64,
}

impl Total {
    fn add(&mut self, taken: &ReplayDecision) {
        self.allowed += u64::from(taken.allow);
        self.limited += u64::from(!taken.allow);
        self.unlimited += u64::from(taken.remaining.is_none());
    }
}

/// The key named by a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComparedKey {
    pub domain: String,
    pub entries: Vec<(String, String)>,
}

impl ComparedKey {
    /// Its memory, without the overhead of the allocator.
    fn size(&self) -> usize {
        let texts = self.entries.iter().map(|(key, value)| key.len() + value.len());
        size_of::<(Self, KeyResults)>()
            + self.domain.len()
            + size_of_val(&*self.entries)
            + texts.sum::<usize>()
    }
}

/// Results of a key's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyResults {
    pub requests: u64,
    pub limited: Both<u64>,
}

impl Comparison {
    pub fn new(rules: Both<Rules>, max_keys: usize, on_refusal: OnRefusal) -> Self {
        let engine = |rules| Engine::new(rules, max_keys, on_refusal);
        Self {
            engines: Both { now: engine(rules.now), then: engine(rules.then) },
            requests: 0,
            total: Both::default(),
            newly_limited: 0,
            newly_allowed: 0,
            span_ms: None,
            timeline: Timeline::default(),
            keys: HashMap::new(),
            key_bytes: 0,
            unnamed: 0,
            cut: 0,
        }
    }

    /// Decides a request under both rule sets, at its time in nanoseconds: a bucket of 4000 per second refills four times
    /// per millisecond.
    pub fn decide(&mut self, at: Timestamp, domain: &str, descriptors: &[Descriptor<'_>]) {
        let (mut over_now, mut over_then) = (Vec::new(), Vec::new());
        let Both { now, then } = &mut self.engines;
        let now = now.decide_all(at, domain, descriptors, |is_over| over_now.push(is_over));
        let then = then.decide_all(at, domain, descriptors, |is_over| over_then.push(is_over));
        // Reports are in milliseconds.
        let t_ms = at.as_nanos() / 1_000_000;
        self.requests += 1;
        self.total.now.add(&now);
        self.total.then.add(&then);
        self.newly_limited += u64::from(now.allow && !then.allow);
        self.newly_allowed += u64::from(!now.allow && then.allow);
        self.timeline.add(t_ms, [1, u64::from(!now.allow), u64::from(!then.allow)]);
        let (first, last) = self.span_ms.unwrap_or((t_ms, t_ms));
        self.span_ms = Some((first.min(t_ms), last.max(t_ms)));
        for ((descriptor, is_now), is_then) in descriptors.iter().zip(over_now).zip(over_then) {
            self.count(domain, descriptor, Both { now: is_now, then: is_then });
        }
    }

    fn count(&mut self, domain: &str, descriptor: &Descriptor<'_>, is_over: Both<bool>) {
        // Hashes a credential before it is truncated: otherwise two clients' credentials could become equal, and a
        // truncated one might not be recognized. Recorded decisions contain the hash already.
        let entries = descriptor.entries.iter().map(|(key, value)| (*key, redact_once(key, value)));
        let entries: Vec<_> = entries.collect();
        self.cut += u64::from(entries.iter().any(|(key, value)| key.len().max(value.len()) > LONGEST_TEXT));
        let entries = entries.iter().map(|(key, value)| (cut(key), cut(value)));
        let who = ComparedKey { domain: cut(domain), entries: entries.collect() };
        if !self.keys.contains_key(&who) {
            let size = who.size();
            if self.keys.len() >= MOST_KEYS || self.key_bytes + size > MOST_KEY_BYTES {
                self.unnamed += 1;
                return;
            }
            self.key_bytes += size;
        }
        let tally = self.keys.entry(who).or_default();
        tally.requests += 1;
        tally.limited.now += u64::from(is_over.now);
        tally.limited.then += u64::from(is_over.then);
    }

    /// The keys limited by either rule set, those with the largest difference first.
    pub fn first(&self, count: usize) -> Vec<(&ComparedKey, KeyResults)> {
        let limited = self.keys.iter().filter(|(_, tally)| tally.limited != Both::default());
        let mut all: Vec<(&ComparedKey, KeyResults)> = limited.map(|(who, tally)| (who, *tally)).collect();
        let weight = |Both { now, then }: Both<u64>| (now.abs_diff(then), now.max(then));
        all.sort_by(|(one, x), (other, y)| {
            weight(y.limited).cmp(&weight(x.limited)).then_with(|| one.cmp(other))
        });
        all.truncate(count);
        all
    }

    /// Number of decisions that shared a counter because the store was full.
    pub fn overflowed(&self) -> u64 {
        self.engines.now.overflowed() + self.engines.then.overflowed()
    }
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default().to_owned()
}
