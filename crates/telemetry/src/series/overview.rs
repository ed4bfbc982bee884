//! Overview of all series for operators: admitted and refused requests by domain and rule, and response times.

use super::super::timings::Timings;
use super::{DomainSeries, OTHER, RequestSeries, ResponseTimes};
use serde_json::{Value, json};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Precision of times: smaller fractions of a millisecond are noise.
const OF_MILLI: f64 = 10_000.0;

impl RequestSeries {
    /// Counts since the start; the difference of two responses gives rates.
    pub fn overview(&self) -> [(&'static str, Value); 4] {
        let ResponseTimes { ok, over_limit } = self.of_all();
        let totals =
            json!({"ok": ok.count(), "over_limit": over_limit.count(), "errors": self.all_errors().count()});
        ok.absorb(&over_limit);
        let latency = json!({
            "p50": quantile(&ok, 0.5),
            "p95": quantile(&ok, 0.95),
            "p99": quantile(&ok, 0.99),
            "edges": Timings::edges_ms(),
            "counts": ok.counts(),
        });
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let domains = named.domains.iter().map(|(name, series)| (name.as_str(), &**series));
        let domains: Vec<Value> = domains.chain([(OTHER, &*self.other)]).map(of_domain).collect();
        let of_key = |domain: &str, key: &str, [ok, over]: [&AtomicU64; 2]| {
            let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
            json!({"domain": domain, "key": key, "ok": count(ok), "over_limit": count(over)})
        };
        let known = named.keys.iter().map(|((domain, key), series)| (domain.as_str(), key.as_str(), series));
        let rules: Vec<Value> = known
            .chain([(OTHER, OTHER, &self.other.unmatched)])
            .map(|(domain, key, series)| of_key(domain, key, [&series.ok, &series.over_limit]))
            .collect();
        [("totals", totals), ("latency_ms", latency), ("domains", domains.into()), ("rules", rules.into())]
    }
}

fn of_domain((name, series): (&str, &DomainSeries)) -> Value {
    let ResponseTimes { ok: all, over_limit } = series.whole();
    let (ok, refused) = (all.count(), over_limit.count());
    all.absorb(&over_limit);
    json!({
        "domain": name,
        "ok": ok,
        "over_limit": refused,
        "p50_ms": quantile(&all, 0.5),
        "p99_ms": quantile(&all, 0.99),
        "counts": all.counts(),
    })
}

fn quantile(timings: &Timings, share: f64) -> Option<f64> {
    timings.quantile_ms(share).map(|millis| (millis * OF_MILLI).round() / OF_MILLI)
}
