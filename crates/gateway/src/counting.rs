//! Metrics of the gateway's decisions: the same series as for rate limit service calls, labeled with the configured
//! service id and endpoint pattern; the top list of keys; and the decision ring.

use arc_swap::ArcSwap;
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::ring::{DecisionHead, DescriptorOutcome};
use hivemind_telemetry::{DomainSeries, KeySeries, RankBy, Stats};
use hivemind_tower::{Admission, Decision, LimitKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Counts decisions.
pub struct Counting {
    stats: Arc<Stats>,
    /// Whether the metrics are read at all.
    is_read: bool,
    /// Read without a lock; additions replace the map.
    known: ArcSwap<HashMap<Arc<str>, ServiceSeries>>,
}

/// The series of one service.
#[derive(Clone)]
struct ServiceSeries {
    domain: Arc<DomainSeries>,
    keys: HashMap<Arc<str>, Arc<KeySeries>>,
}

impl Counting {
    pub fn new(stats: Arc<Stats>, is_read: bool) -> Self {
        Self { stats, is_read, known: ArcSwap::default() }
    }

    /// Drops the series of removed services.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.retain(|service, _| is_there(service));
            known
        });
        self.stats.drop_unused();
    }

    /// The start time of a decision; `None` if nothing is counted or recorded.
    #[inline]
    pub(super) fn begin(&self) -> Option<Timestamp> {
        (self.is_read || self.stats.ring.is_on()).then(|| SystemClock.now())
    }

    /// Counts a decision that started at this time.
    #[inline]
    pub(super) fn count(&self, passage: &Admission, from: Option<Timestamp>) {
        let Some(from) = from else { return };
        let decision = match passage {
            Admission::Admitted(pass) => pass.decision(),
            Admission::Refused(None, _) => {
                if self.is_read {
                    self.stats.series.errors_of_gateway.observe(SystemClock.now().since(from));
                }
                None
            }
            Admission::Refused(decision, _) => decision.as_ref(),
            // For future variants of hivemind-tower.
            _ => None,
        };
        if let Some(decision) = decision {
            self.count_decision(decision, from);
        }
    }

    fn count_decision(&self, decision: &Decision, from: Timestamp) {
        let is_over = !decision.is_allowed();
        decision.with_charge(|charge| {
            if self.is_read {
                let by = if is_over { RankBy::Denied } else { RankBy::Spent };
                // Gateway limits belong to services and not to rules.
                self.stats.top.record(by, (charge, None), 1, from);
            }
            let (domain, entries) = (charge.parts.domain, charge.parts.entries);
            let remaining = Some(decision.remaining());
            let part =
                DescriptorOutcome { entries, hits: 1, is_over, rule: None, remaining, has_own_limit: false };
            let head = DecisionHead { at: from, frontend: Frontend::Gateway, domain, is_denied: is_over };
            self.stats.ring.record(&head, std::iter::once(part));
        });
        if self.is_read {
            // A delayed request was decided before its delay.
            let took = SystemClock.now().since(from).saturating_sub(decision.delay());
            let key = match decision.kind() {
                LimitKind::Http => decision.endpoint(),
                kind => kind.name(),
            };
            self.count_in_series(decision.service(), key, is_over, took);
        }
    }

    fn count_in_series(&self, service: &str, key: &str, is_over: bool, took: Duration) {
        let known = self.known.load();
        let found = known.get(service).and_then(|of| Some((&of.domain, of.keys.get(key)?)));
        let Some((domain, series)) = found else {
            drop(known);
            self.learn(service, key);
            // Counted after its series has been added.
            let known = self.known.load();
            if let Some(of) = known.get(service)
                && let Some(series) = of.keys.get(key)
            {
                observe(&of.domain, series, is_over, took);
            }
            return;
        };
        observe(domain, series, is_over, took);
    }

    #[cold]
    fn learn(&self, service: &str, key: &str) {
        let (series, now) = (&self.stats.series, SystemClock.now());
        let domain = series.domain(service, now);
        let of_key = series.key(service, std::iter::once(key), now);
        self.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            let of_service = || ServiceSeries { domain: Arc::clone(&domain), keys: HashMap::new() };
            let of = known.entry(service.into()).or_insert_with(of_service);
            of.keys.insert(key.into(), Arc::clone(&of_key));
            known
        });
    }
}

fn observe(domain: &DomainSeries, series: &KeySeries, is_over: bool, took: Duration) {
    let of = &domain.of_gateway;
    let (timings, count) = if is_over { (&of.over_limit, &series.over_limit) } else { (&of.ok, &series.ok) };
    timings.observe(took);
    count.fetch_add(1, Ordering::Relaxed);
}
