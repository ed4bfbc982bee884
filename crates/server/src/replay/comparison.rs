//! The same requests under two sets of rules, each on counters of its own that begin empty: who is limited under which.

mod shown;
#[cfg(test)]
mod tests;

use super::engine::{Engine, Taken};
use super::timeline::Timeline;
use hivemind_core::store::OnRefusal;
use hivemind_core::{Descriptor, Rules, Timestamp};
use hivemind_telemetry::redact_once;
use std::collections::HashMap;

/// More names than these are not told one by one.
const MOST_KEYS: usize = 100_000;
/// As much of a name as is kept.
const LONGEST_TEXT: usize = 128;

/// Decides under both, and counts what becomes of it.
pub(crate) struct Comparison {
    engines: Both<Engine>,
    pub(crate) requests: u64,
    pub(crate) total: Both<Total>,
    /// Those that the one lets pass and the other does not.
    pub(crate) newly_limited: u64,
    pub(crate) newly_allowed: u64,
    /// When the first of them was, and when the last.
    pub(crate) span_ms: Option<(u64, u64)>,
    /// Requests, and how many of them are limited under each.
    pub(crate) timeline: Timeline<3>,
    keys: HashMap<Who, Tally>,
    /// Requests of names that there was no room for.
    pub(crate) unnamed: u64,
    /// Requests with texts of which only the beginning is kept.
    pub(crate) cut: u64,
}

/// Of the rules that are, and of those that are to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Both<T> {
    pub(crate) now: T,
    pub(crate) then: T,
}

/// What a set of rules comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) allowed: u64,
    pub(crate) limited: u64,
    /// Of those that pass: under no limit.
    pub(crate) unlimited: u64,
}

impl Total {
    fn add(&mut self, taken: &Taken) {
        self.allowed += u64::from(taken.allow);
        self.limited += u64::from(!taken.allow);
        self.unlimited += u64::from(taken.remaining.is_none());
    }
}

/// Whom a descriptor names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Who {
    pub(crate) domain: String,
    pub(crate) entries: Vec<(String, String)>,
}

/// What became of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) requests: u64,
    pub(crate) limited: Both<u64>,
}

impl Comparison {
    pub(crate) fn new(rules: Both<Rules>, max_keys: usize, on_refusal: OnRefusal) -> Self {
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
            unnamed: 0,
            cut: 0,
        }
    }

    /// Decides a request under both, at its time to the nanosecond: a bucket of 4000 a second refills four times a millisecond.
    pub(crate) fn decide(&mut self, at: Timestamp, domain: &str, descriptors: &[Descriptor<'_>]) {
        let (mut over_now, mut over_then) = (Vec::new(), Vec::new());
        let Both { now, then } = &mut self.engines;
        let now = now.decide_all(at, domain, descriptors, |is_over| over_now.push(is_over));
        let then = then.decide_all(at, domain, descriptors, |is_over| over_then.push(is_over));
        // People read milliseconds.
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
        // The hash of all of a credential: cut first, those of two clients may be one, and half of one may not look like it.
        // What is remembered has the hash already.
        let entries = descriptor.entries.iter().map(|(key, value)| (*key, redact_once(key, value)));
        let entries: Vec<_> = entries.collect();
        self.cut += u64::from(entries.iter().any(|(key, value)| key.len().max(value.len()) > LONGEST_TEXT));
        let entries = entries.iter().map(|(key, value)| (cut(key), cut(value)));
        let who = Who { domain: cut(domain), entries: entries.collect() };
        if self.keys.len() >= MOST_KEYS && !self.keys.contains_key(&who) {
            self.unnamed += 1;
            return;
        }
        let tally = self.keys.entry(who).or_default();
        tally.requests += 1;
        tally.limited.now += u64::from(is_over.now);
        tally.limited.then += u64::from(is_over.then);
    }

    /// Those who are limited under either, the first of them those for whom most changes.
    pub(crate) fn first(&self, count: usize) -> Vec<(&Who, Tally)> {
        let limited = self.keys.iter().filter(|(_, tally)| tally.limited != Both::default());
        let mut all: Vec<(&Who, Tally)> = limited.map(|(who, tally)| (who, *tally)).collect();
        let weight = |Both { now, then }: Both<u64>| (now.abs_diff(then), now.max(then));
        all.sort_by(|(one, x), (other, y)| {
            weight(y.limited).cmp(&weight(x.limited)).then_with(|| one.cmp(other))
        });
        all.truncate(count);
        all
    }

    /// Decisions that had to share a bucket for want of room.
    pub(crate) fn overflowed(&self) -> u64 {
        self.engines.now.overflowed() + self.engines.then.overflowed()
    }
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default().to_owned()
}
