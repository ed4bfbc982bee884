//! Cancellation of long computations: set by the caller, checked by the loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps between two checks.
const CHECKED_EVERY: usize = 256;

/// A flag shared by a computation and its caller. All clones are one flag.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Like [`Cancellation::is_set`], but checked only at some steps.
    pub fn is_set_after(&self, steps: usize) -> bool {
        steps.is_multiple_of(CHECKED_EVERY) && self.is_set()
    }

    /// Sets the flag when the returned value is dropped.
    pub fn set_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// Sets the flag when it is dropped, for example together with the future of a caller that disconnects.
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}
