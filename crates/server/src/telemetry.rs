//! What the service tells about itself: the reference service's counters.

mod access_figures;
mod exposition;
mod mesh_figures;
pub(crate) mod otlp;
mod rule_stats;
mod store_figures;
pub(crate) mod trace;

pub(crate) use exposition::exposition;
pub(crate) use rule_stats::{Charged, RuleCounters, StatName, Stats};
pub(crate) use store_figures::StoreFigures;
