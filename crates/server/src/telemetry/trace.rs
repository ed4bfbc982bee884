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

pub(crate) use check::{Check, Decided, Door, Stage};
pub(crate) use exporter::Exporter;
pub(crate) use figures::TraceFigures;
pub(crate) use queue::Outlet;
pub(crate) use span::Value;
pub(crate) use tracer::{Keeper, Tracer};

pub(crate) use crate::config::otel::OnLimit;
