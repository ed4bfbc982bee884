//! OTLP: how metrics and traces leave for a receiver. A message is sent by one call of gRPC or by one POST, over a
//! connection that is kept; whoever sends decides what of it is worth sending again.
//!
//! Nothing here is on the way of a request: one task for each signal sends, holds one message at a time, and waits
//! longer each time that a receiver fails.

mod back_off;
mod connection;
mod export_metrics;
mod resource;
mod response;
mod sender;

pub use export_metrics::ExportMetrics;
pub use resource::{attribute, resource};
pub use sender::{Sender, Signal};
