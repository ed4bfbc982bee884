//! How many answers of one connection go on and on: it is not idle while there are any, though it asks for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Those of one connection; a request brings it along.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stays(Arc<AtomicU64>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct Stay(Stays);

impl Stays {
    pub(crate) fn are_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    pub(super) fn stay(&self) -> Stay {
        self.0.fetch_add(1, Ordering::Relaxed);
        Stay(self.clone())
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
