//! What the service tells about itself: one set of counters, read as families, which Prometheus fetches and OTLP sends.

mod access_figures;
mod credential;
mod exposition;
mod family;
mod instruments;
mod mesh_figures;
pub(crate) mod otlp;
pub(crate) mod ring;
mod rule_stats;
mod series;
mod shown;
mod stats;
mod store_figures;
mod timings;
mod top;
pub(crate) mod trace;

pub(crate) use exposition::exposition;
pub(crate) use instruments::{Figures, Instruments};
pub(crate) use rule_stats::{Charged, RuleCounters, StatName};
pub(crate) use series::{DomainSeries, KeySeries, Level};
pub(crate) use shown::{as_shown, hashed, is_hash, is_short, kept, kept_again, salted, shown_entries};
pub(crate) use stats::Stats;
pub(crate) use store_figures::{Fallbacks, StoreFigures};
pub(crate) use timings::Timings;
pub(crate) use top::{By, RuleOf};
