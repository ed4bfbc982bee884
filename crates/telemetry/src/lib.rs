//! Telemetry: metrics for Prometheus and OTLP from one set of counters, traces, logs and redaction. Terms:
//! `docs/GLOSSARY.md`.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

mod access_metrics;
mod credential;
mod exposition;
mod family;
mod frontend;
mod instruments;
pub mod log_throttle;
pub mod logging;
pub mod mesh_metrics;
pub mod metrics_exporter;
pub mod otlp;
mod redact;
pub mod ring;
mod rule_stats;
pub mod secret_name;
mod series;
pub mod settings;
mod shared_store_metrics;
mod stats;
mod timings;
mod top_keys;
pub mod trace;

pub use exposition::exposition;
pub use frontend::Frontend;
pub use instruments::{BackendMetrics, Instruments};
pub use redact::{
    hash_value, is_guessable, is_hash, redact, redact_once, redacted_entries, salt_hash, salt_if_guessable,
};
pub use rule_stats::{ChargeOutcome, RuleCounters, StatName};
pub use series::{DomainSeries, KeySeries, LimitUsage};
pub use shared_store_metrics::{Fallbacks, SharedStoreMetrics};
pub use stats::Stats;
pub use timings::Timings;
pub use top_keys::{RankBy, RuleId};
