//! Statistics of rules, as the reference rate limit service counts them. The number of names is bounded; further hits
//! are counted under `other`.

use super::family::{Family, MetricValue};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Most names; more of them come from clients, not from rules.
const MOST_NAMES: usize = 1_000;

/// Longest name; longer ones come from clients and could fill the memory.
const LONGEST_NAME: usize = 200;

/// The name of a counter: a domain, and a part for each level of the rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatName {
    pub domain: String,
    pub parts: Vec<String>,
}

impl StatName {
    /// The name in the form of the reference service: without separators of statistics lines and dots of addresses.
    pub fn new(domain: &str, parts: Vec<String>) -> Self {
        let parts = parts.into_iter().map(|part| without_dots_in_addresses(&part.replace([':', '|'], "_")));
        Self { domain: domain.to_owned(), parts: parts.collect() }
    }

    /// Labels of the reference service: the domain, the first level, and the other levels joined.
    fn labels(&self) -> Labels {
        let (first, rest) =
            self.parts.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
        let second = (!rest.is_empty()).then(|| rest.join("."));
        (self.domain.clone(), first.cloned().unwrap_or_default(), second)
    }

    fn len(&self) -> usize {
        self.domain.len() + self.parts.iter().map(String::len).sum::<usize>()
    }
}

type Labels = (String, String, Option<String>);

fn without_dots_in_addresses(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let (before, from) = rest.split_at(start);
        let (run, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        written.push_str(before);
        written.push_str(&if run.parse::<Ipv4Addr>().is_ok() {
            run.replace('.', "_")
        } else {
            run.to_owned()
        });
        rest = after;
    }
    written + rest
}

/// The parts of a charge that statistics need.
#[derive(Clone, Copy, Debug)]
pub struct ChargeOutcome {
    pub hits: u64,
    pub limit: u64,
    /// Remaining hits before the charge.
    pub available: u64,
    pub refused: bool,
    pub shadow: bool,
}

/// The counters of one name.
#[derive(Debug, Default)]
pub struct RuleCounters {
    pub total_hits: AtomicU64,
    pub over_limit: AtomicU64,
    pub near_limit: AtomicU64,
    pub within_limit: AtomicU64,
    pub shadow_mode: AtomicU64,
    pub total_negative_hits: AtomicU64,
}

impl RuleCounters {
    /// Counts refunded hits.
    pub fn refund(&self, hits: u64) {
        add(&self.total_negative_hits, hits);
    }

    /// Counts a charge like the reference service: hits past the limit are over, hits
    /// between `near_limit_ratio` of the limit and the limit are near.
    pub fn count(&self, charged: ChargeOutcome, near_limit_ratio: f32) {
        let ChargeOutcome { hits, limit, available, refused, shadow } = charged;
        let near = near_limit(limit, near_limit_ratio);
        let before = limit.saturating_sub(available);
        let after = before.saturating_add(hits);
        add(&self.total_hits, hits);
        if !refused {
            add(&self.within_limit, hits);
            add(&self.near_limit, hits.min(after.saturating_sub(near)));
            return;
        }
        let over = if available == 0 { hits } else { after.saturating_sub(limit) };
        add(&self.over_limit, over);
        if available > 0 {
            add(&self.near_limit, limit.saturating_sub(near.max(before)));
        }
        if shadow {
            add(&self.shadow_mode, over);
        }
    }
}

/// In the precision of the reference service, so that the metrics agree.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the reference computes it in single precision and cuts the fraction off"
)]
fn near_limit(limit: u64, ratio: f32) -> u64 {
    (limit as f32 * ratio).floor() as u64
}

fn add(counter: &AtomicU64, amount: u64) {
    if amount > 0 {
        // Clamped, so that no sum of costs overflows.
        counter.fetch_add(amount.min(1 << 40), Ordering::Relaxed);
    }
}

/// The counters of all names, and of domains without rules.
#[derive(Debug, Default)]
pub struct RuleStats {
    by_rule: RwLock<HashMap<StatName, Arc<RuleCounters>>>,
    by_request: RwLock<HashMap<StatName, Arc<RuleCounters>>>,
    other: Arc<RuleCounters>,
    domains_not_found: RwLock<HashMap<String, AtomicU64>>,
}

type Field = fn(&RuleCounters) -> &AtomicU64;

const BY_RULE: [(&str, &str, Field); 6] = [
    ("total_hits", "Hits that were asked for.", |counters| &counters.total_hits),
    ("over_limit", "Hits past the limit.", |counters| &counters.over_limit),
    ("near_limit", "Hits within the limit, but near it.", |counters| &counters.near_limit),
    ("within_limit", "Hits within the limit.", |counters| &counters.within_limit),
    ("shadow_mode", "Hits past the limit of a rule that only watches.", |counters| &counters.shadow_mode),
    ("total_negative_hits", "Hits that were given back.", |counters| &counters.total_negative_hits),
];

impl RuleStats {
    /// The counters of a name that depends only on a rule; their number is bounded by the rules.
    pub fn of_rule(&self, name: &StatName) -> Arc<RuleCounters> {
        let mut by_rule = self.by_rule.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(by_rule.entry(name.clone()).or_default())
    }

    /// Drops the names of removed rules, whose counters have no other user.
    pub fn drop_unused(&self) {
        let mut by_rule = self.by_rule.write().unwrap_or_else(PoisonError::into_inner);
        by_rule.retain(|_, counters| Arc::strong_count(counters) > 1);
    }

    /// The counters of a name that depends on the request; `other` when there are too many.
    pub fn of_request(&self, name: &StatName) -> Arc<RuleCounters> {
        let by_request = self.by_request.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = by_request.get(name) {
            return Arc::clone(counters);
        }
        if by_request.len() >= MOST_NAMES || name.len() > LONGEST_NAME {
            return Arc::clone(&self.other);
        }
        drop(by_request);
        let mut by_request = self.by_request.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have added the name between the two locks.
        if by_request.len() >= MOST_NAMES && !by_request.contains_key(name) {
            return Arc::clone(&self.other);
        }
        Arc::clone(by_request.entry(name.clone()).or_default())
    }

    pub fn domain_not_found(&self, domain: &str) {
        // The name comes from a client: few of them are logged, and truncated.
        let shown = |known: &HashMap<String, AtomicU64>| {
            let is_shown = known.contains_key(domain) || known.len() < 100 && domain.len() <= 200;
            if is_shown { domain } else { "other" }
        };
        let known = self.domains_not_found.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known.get(shown(&known)) {
            add(count, 1);
            return;
        }
        drop(known);
        let mut unknown = self.domains_not_found.write().unwrap_or_else(PoisonError::into_inner);
        let shown = shown(&unknown);
        add(unknown.entry(shown.to_owned()).or_default(), 1);
    }

    /// All names with their counters, in order. A name of both a rule and requests is listed once, as the rule's: scrapers
    /// reject a page with duplicate names.
    fn by_name(&self) -> Vec<(StatName, Arc<RuleCounters>)> {
        let mut all: BTreeMap<StatName, Arc<RuleCounters>> = BTreeMap::new();
        for names in [&self.by_request, &self.by_rule] {
            let names = names.read().unwrap_or_else(PoisonError::into_inner);
            all.extend(names.iter().map(|(name, counters)| (name.clone(), Arc::clone(counters))));
        }
        all.into_iter().collect()
    }

    /// The same by written form: names with the same form are one series, including a rule named `other`.
    fn by_labels(&self) -> BTreeMap<Labels, Vec<Arc<RuleCounters>>> {
        let other = ("other".to_owned(), "other".to_owned(), None);
        let mut all = BTreeMap::from([(other, vec![Arc::clone(&self.other)])]);
        for (name, counters) in self.by_name() {
            all.entry(name.labels()).or_default().push(counters);
        }
        all
    }

    fn domains_not_found(&self) -> Vec<(String, u64)> {
        let unknown = self.domains_not_found.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> =
            unknown.iter().map(|(name, count)| (name.clone(), count.load(Ordering::Relaxed))).collect();
        all.sort();
        all
    }

    /// Uses the names of the reference service, for its dashboards: `..._total_hits`.
    pub(super) fn families(&self) -> Vec<Family> {
        let by_labels = self.by_labels();
        let by_rule = BY_RULE.map(|(field, help, counter)| {
            let mut family =
                Family::counter(format!("ratelimit_service_rate_limit_{field}"), help).of_requests();
            for ((domain, first, second), all) in &by_labels {
                let sum = |sum: u64, counters: &Arc<RuleCounters>| {
                    sum.saturating_add(counter(counters).load(Ordering::Relaxed))
                };
                let count = MetricValue::Count(all.iter().fold(0, sum));
                let (domain, first) = (("domain", domain.as_str()), ("key1", first.as_str()));
                match second {
                    None => family.add([domain, first], count, None),
                    Some(second) => family.add([domain, first, ("key2", second)], count, None),
                }
            }
            family
        });
        let not_found = self.domains_not_found().iter().fold(
            Family::counter(
                "ratelimit_service_rate_limit_domain_not_found",
                "Requests for a domain that has no rules.",
            ),
            |family, (domain, count)| family.with([("domain", domain)], *count),
        );
        by_rule.into_iter().chain([not_found.of_requests()]).collect()
    }
}

#[cfg(test)]
mod tests;
