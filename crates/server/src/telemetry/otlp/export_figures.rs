//! What is counted of sending.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What is counted of sending, by signal.
#[derive(Debug, Default)]
pub(crate) struct ExportFigures {
    pub(crate) metrics: Arc<SignalFigures>,
    pub(crate) traces: Arc<SignalFigures>,
}

/// What is counted of sending one signal.
#[derive(Debug, Default)]
pub(crate) struct SignalFigures {
    /// Messages that a receiver has taken.
    pub(crate) sent: AtomicU64,
    /// Those that it has not, for whatever reason.
    pub(crate) failed: AtomicU64,
}
