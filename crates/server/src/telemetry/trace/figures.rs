//! What is counted of traces that were not told.

use std::sync::atomic::AtomicU64;

/// What is counted of traces that were not told: a check with all its spans, or a round of the mesh, is one.
#[derive(Debug, Default)]
pub(crate) struct TraceFigures {
    /// Those that found no room on their way out.
    pub(crate) queue_full: AtomicU64,
    /// Those that no receiver has taken.
    pub(crate) not_sent: AtomicU64,
}
