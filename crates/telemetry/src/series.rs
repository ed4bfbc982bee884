//! Series by domain and rule: requests and response times. Names come only from the rules, and their number is bounded;
//! everything else is counted under `other`.
//!
//! A request finds its series by the index of its rule, without hashing a name and without a lock.

mod overview;
mod response_times;

use response_times::ResponseTimes;

use super::family::{Family, MetricValue, as_level};
use super::timings::Timings;
use hivemind_core::{Period, Timestamp};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Most series with their own names.
const MOST_KEYS: usize = 1_000;
const MOST_DOMAINS: usize = 200;
/// Longest name of a series.
const LONGEST_NAME: usize = 200;
/// Name of everything without its own series.
const OTHER: &str = "other";
/// Key of descriptors without a matching rule in their domain.
const UNMATCHED: &str = "none";

/// Results of the descriptors that matched rules with the same keys.
#[derive(Debug, Default)]
pub struct KeySeries {
    pub ok: AtomicU64,
    pub over_limit: AtomicU64,
    since: Option<Timestamp>,
}

/// Response times of a domain by result.
#[derive(Debug, Default)]
pub struct DomainSeries {
    pub ok: Timings,
    pub over_limit: Timings,
    /// Response times of the gateway's requests to a service of this name.
    pub of_gateway: ResponseTimes,
    /// Descriptors without a matching rule.
    pub unmatched: Arc<KeySeries>,
    since: Option<Timestamp>,
}

/// Usage of a limit at its last decision.
#[derive(Debug)]
pub struct LimitUsage(AtomicU64);

/// Empty before the first decision.
const UNSET: u64 = u64::MAX;

impl LimitUsage {
    pub fn set(&self, taken: u64) {
        self.0.store(taken.min(UNSET - 1), Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct NamedSeries {
    domains: BTreeMap<String, Arc<DomainSeries>>,
    keys: BTreeMap<(String, String), Arc<KeySeries>>,
    levels: BTreeMap<(String, String, String), Arc<LimitUsage>>,
}

/// All series.
#[derive(Debug, Default)]
pub struct RequestSeries {
    named: RwLock<NamedSeries>,
    other: Arc<DomainSeries>,
    /// Requests without a decision.
    pub errors: Timings,
    pub errors_of_gateway: Timings,
    /// Domains that were removed from the rules; their counts stay in the totals.
    gone: ResponseTimes,
    gone_of_gateway: ResponseTimes,
}

impl RequestSeries {
    /// The series of a domain in the rules.
    pub fn domain(&self, name: &str, now: Timestamp) -> Arc<DomainSeries> {
        // Scrapers reject a page with duplicate series.
        if name == OTHER {
            return Arc::clone(&self.other);
        }
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = named.domains.get(name) {
            return Arc::clone(known);
        }
        if named.domains.len() >= MOST_DOMAINS || name.len() > LONGEST_NAME {
            return Arc::clone(&self.other);
        }
        let unmatched = named.key(name, UNMATCHED, now, &self.other);
        let series = Arc::new(DomainSeries { unmatched, since: Some(now), ..DomainSeries::default() });
        named.domains.insert(name.to_owned(), Arc::clone(&series));
        series
    }

    /// The series of rules with these keys, from the first level on.
    pub fn key<'k>(
        &self,
        domain: &str,
        keys: impl Iterator<Item = &'k str>,
        now: Timestamp,
    ) -> Arc<KeySeries> {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        if !named.domains.contains_key(domain) {
            return Arc::clone(&self.other.unmatched);
        }
        named.key(domain, &joined(keys), now, &self.other)
    }

    /// The usage of these rules' limits over a period; `None` when there are too many series.
    pub fn level<'k>(
        &self,
        domain: &str,
        keys: impl Iterator<Item = &'k str>,
        period: Period,
    ) -> Option<Arc<LimitUsage>> {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let name = (domain.to_owned(), joined(keys));
        if !named.keys.contains_key(&name) {
            return None;
        }
        let (domain, keys) = name;
        let has_room = named.levels.len() < MOST_KEYS;
        let name = (domain, keys, window(period));
        if let Some(known) = named.levels.get(&name) {
            return Some(Arc::clone(known));
        }
        has_room.then(|| {
            let level = Arc::new(LimitUsage(AtomicU64::new(UNSET)));
            named.levels.insert(name, Arc::clone(&level));
            level
        })
    }

    /// The series of requests for domains without rules.
    pub fn other(&self) -> &DomainSeries {
        &self.other
    }

    /// Drops the series of removed rules, which have no other user.
    pub fn drop_unused(&self) {
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let NamedSeries { domains, keys, levels } = &mut *named;
        domains.retain(|_, series| {
            let is_used = Arc::strong_count(series) > 1;
            if !is_used {
                self.retain_totals(series);
            }
            is_used
        });
        keys.retain(|_, series| Arc::strong_count(series) > 1);
        levels.retain(|_, level| Arc::strong_count(level) > 1);
    }

    pub(super) fn families(&self) -> [Family; 4] {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let [requests, over_limit] = self.by_key(&named);
        [requests, over_limit, self.durations(&named), levels(&named)]
    }

    fn by_key(&self, named: &NamedSeries) -> [Family; 2] {
        let mut requests =
            Family::counter("ratelimit.requests.total", "Descriptors asked for, by what they were answered.");
        let mut refused =
            Family::counter("ratelimit.over_limit.total", "Descriptors that were over their limit.");
        let known =
            named.keys.iter().map(|((domain, keys), series)| ((domain.as_str(), keys.as_str()), series));
        for ((domain, keys), series) in known.chain([((OTHER, OTHER), &self.other.unmatched)]) {
            for (code, count) in [("OK", &series.ok), ("OVER_LIMIT", &series.over_limit)] {
                let labels = [("domain", domain), ("response_code", code), ("descriptor_key", keys)];
                requests.add(labels, MetricValue::Count(count.load(Ordering::Relaxed)), series.since);
            }
            let count = MetricValue::Count(series.over_limit.load(Ordering::Relaxed));
            refused.add([("domain", domain), ("descriptor_key", keys)], count, series.since);
        }
        let labels = [("domain", OTHER), ("response_code", "ERROR"), ("descriptor_key", OTHER)];
        let errors = self.errors.count() + self.errors_of_gateway.count();
        requests.add(labels, MetricValue::Count(errors), None);
        [requests, refused]
    }

    fn durations(&self, named: &NamedSeries) -> Family {
        let mut family = Family::histogram(
            "ratelimit.request.duration",
            "How long a request took inside the service, in milliseconds.",
        )
        .unit("ms");
        let known = named.domains.iter().map(|(domain, series)| (domain.as_str(), series));
        for (domain, series) in known.chain([(OTHER, &self.other)]) {
            let whole = series.whole();
            for (code, timings) in [("OK", &whole.ok), ("OVER_LIMIT", &whole.over_limit)] {
                let labels = [("domain", domain), ("response_code", code)];
                family.add(labels, MetricValue::Histogram(timings.in_millis()), series.since);
            }
        }
        let labels = [("domain", OTHER), ("response_code", "ERROR")];
        family.add(labels, MetricValue::Histogram(self.all_errors().in_millis()), None);
        family
    }
}

impl NamedSeries {
    fn key(&mut self, domain: &str, keys: &str, now: Timestamp, other: &DomainSeries) -> Arc<KeySeries> {
        let name = (domain.to_owned(), keys.to_owned());
        if let Some(known) = self.keys.get(&name) {
            return Arc::clone(known);
        }
        if self.keys.len() >= MOST_KEYS || keys.len() > LONGEST_NAME {
            return Arc::clone(&other.unmatched);
        }
        let series = Arc::new(KeySeries { since: Some(now), ..KeySeries::default() });
        self.keys.insert(name, Arc::clone(&series));
        series
    }
}

fn levels(named: &NamedSeries) -> Family {
    let mut family = Family::gauge(
        "ratelimit.counter.value",
        "How much of a limit the counter had taken that was asked for last.",
    );
    for ((domain, keys, window), level) in &named.levels {
        let taken = level.0.load(Ordering::Relaxed);
        if taken != UNSET {
            let labels = [
                ("domain", domain.as_str()),
                ("descriptor_key", keys.as_str()),
                ("time_window", window.as_str()),
            ];
            family.add(labels, MetricValue::Level(as_level(taken)), None);
        }
    }
    family
}

/// The keys of all levels, joined by dots.
fn joined<'k>(keys: impl Iterator<Item = &'k str>) -> String {
    keys.collect::<Vec<_>>().join(".")
}

/// A period in the form of rule files: in the largest unit that divides it, at most a day.
fn window(period: Period) -> String {
    let nanos = period.length().as_nanos();
    let units =
        [("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)];
    let unit =
        units.into_iter().chain([("ms", 1_000_000), ("us", 1_000)]).find(|(_, of)| nanos.is_multiple_of(*of));
    unit.map_or_else(|| format!("{nanos}ns"), |(unit, of)| format!("{}{unit}", nanos / of))
}

#[cfg(test)]
mod tests;
