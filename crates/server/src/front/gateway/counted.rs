//! What is counted of the gateway's decisions: in the same series as calls of the rate limit service, under the service's
//! id and the endpoint's pattern, which are the configuration's; in the ranking of keys; and in the ring of the last ones.

use arc_swap::ArcSwap;
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_telemetry::ring::{Door, Head, Part};
use hivemind_telemetry::{By, DomainSeries, KeySeries, Stats};
use hivemind_tower::{Admission, Decision, LimitKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Counts decisions.
pub(crate) struct Counting {
    stats: Arc<Stats>,
    /// Whether anybody reads what is counted.
    is_read: bool,
    /// Found without a lock; what is not there yet is added to a copy.
    known: ArcSwap<HashMap<Arc<str>, OfService>>,
}

/// The series of one service.
#[derive(Clone)]
struct OfService {
    domain: Arc<DomainSeries>,
    keys: HashMap<Arc<str>, Arc<KeySeries>>,
}

impl Counting {
    pub(crate) fn new(stats: Arc<Stats>, is_read: bool) -> Self {
        Self { stats, is_read, known: ArcSwap::default() }
    }

    /// Only the series of services that there are stay.
    pub(super) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.known.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.retain(|service, _| is_there(service));
            known
        });
        self.stats.drop_unused();
    }

    /// When a decision begins; none where nothing is counted or kept of it.
    #[inline]
    pub(super) fn begin(&self) -> Option<Timestamp> {
        (self.is_read || self.stats.ring.is_on()).then(|| SystemClock.now())
    }

    /// Counts a decision that began then.
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
            // As hivemind-tower may come to say more.
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
                let by = if is_over { By::Denied } else { By::Spent };
                // Its limits are those of services: no rule's.
                self.stats.top.record(by, (charge, None), 1, from);
            }
            let (domain, entries) = (charge.parts.domain, charge.parts.entries);
            let remaining = Some(decision.remaining());
            let part = Part { entries, hits: 1, is_over, rule: None, remaining, has_own_limit: false };
            let head = Head { at: from, door: Door::Gateway, domain, is_denied: is_over };
            self.stats.ring.record(&head, std::iter::once(part));
        });
        if self.is_read {
            // Who is held back has been decided on before.
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
            // The first of a kind is counted once its series is there.
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
            let of_service = || OfService { domain: Arc::clone(&domain), keys: HashMap::new() };
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
