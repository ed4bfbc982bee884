//! Open event streams per connection: a connection with one is not idle, although it sends no requests.

use hivemind_tls::connections::ConnectionPermit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The streams of one connection; requests carry it as an extension.
#[derive(Clone, Debug, Default)]
pub struct Stays {
    count: Arc<AtomicU64>,
    /// A stream counts as a call in flight.
    permit: Weak<ConnectionPermit>,
}

/// One open stream, until it is dropped.
#[derive(Debug)]
pub(super) struct Stay(Stays);

impl Stays {
    pub fn new(permit: &Arc<ConnectionPermit>) -> Self {
        Self { permit: Arc::downgrade(permit), ..Self::default() }
    }

    pub fn are_none(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    pub(super) fn stay(&self) -> Stay {
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Some(permit) = self.permit.upgrade() {
            permit.record_call_start();
        }
        Stay(self.clone())
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(permit) = self.0.permit.upgrade() {
            permit.record_call_end();
        }
    }
}
