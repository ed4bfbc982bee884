//! Traces: context, sampling, spans and export of decisions. A request that is not sampled only costs the read of one
//! header. Requests never wait for tracing. See docs/decisions/018.

mod context;
mod decision_span;
mod exporter;
mod metrics;
mod otlp;
mod queue;
mod random;
mod sampler;
mod span;
mod span_record;
#[cfg(test)]
mod tests;
mod tracer;

pub use decision_span::{DecisionSpan, DecisionSummary, SpanStage};
pub use exporter::Exporter;
pub use metrics::TraceMetrics;
pub use queue::TraceReceiver;
pub use span::AttributeValue;
pub use tracer::{CounterStore, Tracer};
