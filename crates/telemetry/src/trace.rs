//! Traces: which checks are followed, what is told of them, and the way out. Of a request that is not followed, one
//! header is read, and nothing else happens; nothing here ever waits. See docs/decisions/018.

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
