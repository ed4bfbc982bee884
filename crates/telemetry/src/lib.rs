//! What the service tells about itself: one set of counters, read as families, which Prometheus fetches and OTLP sends.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

mod access_figures;
mod credential;
mod exposition;
mod family;
mod instruments;
pub mod logging;
mod mesh_figures;
pub mod metrics_exporter;
pub mod otlp;
pub mod peer_figures;
pub mod ring;
mod rule_stats;
pub mod secret_name;
pub mod seldom;
mod series;
pub mod settings;
mod shown;
mod stats;
mod store_figures;
mod timings;
mod top;
pub mod trace;

pub use exposition::exposition;
pub use instruments::{Figures, Instruments};
pub use rule_stats::{Charged, RuleCounters, StatName};
pub use series::{DomainSeries, KeySeries, Level};
pub use shown::{as_shown, hashed, is_hash, is_short, kept, kept_again, salted, shown_entries};
pub use stats::Stats;
pub use store_figures::{Fallbacks, StoreFigures};
pub use timings::Timings;
pub use top::{By, RuleOf};
