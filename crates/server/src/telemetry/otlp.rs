//! OTLP: how metrics and traces leave for a receiver. A message is sent by one call of gRPC or by one POST, over a
//! connection that is kept; whoever sends decides what of it is worth sending again.
//!
//! Nothing here is on the way of a request: one task for each signal sends, holds one message at a time, and waits
//! longer each time that a receiver fails.

mod back_off;
mod dialler;
mod export_figures;
mod metrics;
mod metrics_exporter;
mod reply;
mod resource;
mod sender;

pub(crate) use export_figures::ExportFigures;
pub(crate) use metrics_exporter::MetricsExporter;
pub(crate) use resource::resource;
pub(crate) use sender::{Sender, Signal};
