//! Open event streams per connection: a connection with one is not idle, although it sends no requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The streams of one connection; requests carry it as an extension.
#[derive(Clone, Debug, Default)]
pub struct Stays(Arc<AtomicU64>);

/// One open stream, until it is dropped.
#[derive(Debug)]
pub(super) struct Stay(Stays);

impl Stays {
    pub fn are_none(&self) -> bool {
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
