//! Traces: which checks are followed, what is told of them, and the way out. Of a request that is not followed, one
//! header is read, and nothing else happens; nothing here ever waits. See docs/decisions/018.

mod check;
mod context;
mod exporter;
mod figures;
mod otlp;
mod queue;
mod random;
mod record;
mod sampler;
mod span;
#[cfg(test)]
mod tests;
mod tracer;

pub use check::{Check, Decided, Door, Stage};
pub use exporter::Exporter;
pub use figures::TraceFigures;
pub use queue::Outlet;
pub use span::Value;
pub use tracer::{Keeper, Tracer};
