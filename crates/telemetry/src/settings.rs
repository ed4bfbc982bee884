//! `observability`: the settings of logs, metrics and traces.

pub mod log;
pub mod observability;
pub mod otel;
