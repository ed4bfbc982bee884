//! Statistics: all counters of the service, and their metric families.

use super::access_metrics::AccessMetrics;
use super::family::{Family, MetricValue};
use super::otlp::ExportMetrics;
use super::ring::DecisionRing;
use super::rule_stats::RuleStats;
use super::series::RequestSeries;
use super::top_keys::TopKeys;
use super::trace::TraceMetrics;
use hivemind_core::Timestamp;
use hivemind_core::store::Occupancy;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All counters of the service.
#[derive(Debug, Default)]
pub struct Stats {
    /// Start of the counts.
    pub started: Timestamp,
    pub rules: RuleStats,
    pub series: RequestSeries,
    pub top: TopKeys,
    pub ring: DecisionRing,
    pub service_errors: AtomicU64,
    pub config_load_success: AtomicU64,
    pub config_load_error: AtomicU64,
    pub global_shadow_mode: AtomicU64,
    /// Files of certificates and CAs that could not be loaded.
    pub certificate_errors: AtomicU64,
    /// Earliest expiry of an active certificate in seconds of Unix time; 0 without one.
    pub certificate_expiry: AtomicU64,
    pub access: AccessMetrics,
    pub exports: ExportMetrics,
    pub traces: Arc<TraceMetrics>,
}

impl Stats {
    pub fn new(started: Timestamp) -> Self {
        Self { started, ..Self::default() }
    }

    /// The same, with a ring for `most` decisions.
    #[must_use]
    pub fn with_decision_ring(self, decisions: usize) -> Self {
        Self { ring: DecisionRing::new(decisions), ..self }
    }

    /// Drops the counters of removed rules.
    pub fn drop_unused(&self) {
        self.rules.drop_unused();
        self.series.drop_unused();
    }

    pub fn families(&self, occupancy: Occupancy) -> Vec<Family> {
        let plain = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counter = |name: &str, help, value| Family::counter(name, help).plain(value);
        let mut families = self.rules.families();
        families.extend(self.series.families());
        families.extend([
            counter(
                "ratelimit_service_config_load_success",
                "Loads of the rules that succeeded.",
                plain(&self.config_load_success),
            ),
            counter(
                "ratelimit_service_config_load_error",
                "Loads of the rules that failed.",
                plain(&self.config_load_error),
            ),
            counter(
                "ratelimit_service_global_shadow_mode",
                "Requests that only the global shadow mode let pass.",
                plain(&self.global_shadow_mode),
            ),
            Family::gauge(
                "hivemind_certificate_errors",
                "Files of certificates and CAs that cannot be used as they are now.",
            )
            .plain(plain(&self.certificate_errors)),
            self.certificate_expiry(),
            Family::gauge("hivemind_keys", "Counters held in memory.").plain(occupancy.keys as u64),
            counter(
                "hivemind_keys_evicted_total",
                "Counters removed because they said nothing any more.",
                occupancy.evicted,
            ),
            counter(
                "hivemind_keys_overflowed_total",
                "Decisions that shared a bucket for want of room.",
                occupancy.overflowed,
            ),
        ]);
        families.extend(self.access.families());
        families.extend(self.calls());
        families.extend(self.exports.families());
        families.push(self.traces.family());
        families
    }

    fn certificate_expiry(&self) -> Family {
        let family = Family::gauge(
            "hivemind_certificate_expiry_seconds",
            "Earliest expiry of an active certificate, in Unix time.",
        )
        .unit("s");
        // Without certificates the metric has no value: 0 would mean an expiry in 1970.
        match self.certificate_expiry.load(Ordering::Relaxed) {
            0 => family,
            moment => family.plain(moment),
        }
    }

    /// Calls of the service, in the form of the reference service.
    fn calls(&self) -> [Family; 3] {
        let method = [("grpc_method", "ShouldRateLimit")];
        let total = self.series.total();
        let errors = Family::counter(
            "ratelimit_service_should_rate_limit_error",
            "Calls that were answered with an error.",
        );
        let requests = Family::counter("ratelimit_service_total_requests", "Calls by method.");
        let mut times =
            Family::histogram("ratelimit_service_response_time_seconds", "How long an answer took.")
                .unit("s");
        times.add(method, MetricValue::Histogram(total.in_seconds()), None);
        [
            errors.with([("err_type", "service_error")], self.service_errors.load(Ordering::Relaxed)),
            requests.with(method, total.count()),
            times,
        ]
    }
}
