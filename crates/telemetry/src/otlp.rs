//! OTLP: export of metrics and traces to a receiver. A message is one gRPC call or one POST over a persistent
//! connection; each exporter decides what it sends again.
//!
//! Requests never wait for an export: one task per signal sends one message at a time, and backs off while the
//! receiver fails.

mod back_off;
mod connection;
mod export_metrics;
mod resource;
mod response;
mod sender;

pub use export_metrics::ExportMetrics;
pub use resource::{attribute, resource};
pub use sender::{Sender, Signal};
