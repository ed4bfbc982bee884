//! The one thread of this crate: it removes keys that say nothing any more, at an
//! interval, and waits on a condition variable between times, so that it stops at once.

use crate::limiter::StartError;
use crate::store::MemoryStore;
use crate::time::Clock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
struct Signal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A running sweep of a store that is used without a limiter of this crate. Stops when it is dropped.
///
/// ```
/// use hivemind_core::SystemClock;
/// use hivemind_core::store::{MemoryStore, StoreOptions, Sweeper};
/// use std::{sync::Arc, time::Duration};
///
/// let store = Arc::new(MemoryStore::new(StoreOptions::default()));
/// let sweeper = Sweeper::start(&store, SystemClock, Duration::from_secs(60))?;
/// drop(sweeper); // Its thread has ended, and let go of the store.
/// assert_eq!(Arc::strong_count(&store), 1);
/// # Ok::<(), hivemind_core::StartError>(())
/// ```
pub struct Sweeper {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Sweeper {
    /// Sweeps `store` at each `interval` until stopped.
    ///
    /// ```
    /// # use hivemind_core::{SystemClock, store::{MemoryStore, StoreOptions, Sweeper}};
    /// # use std::{sync::Arc, time::Duration};
    /// let store = Arc::new(MemoryStore::new(StoreOptions::default()));
    /// assert!(Sweeper::start(&store, SystemClock, Duration::ZERO).is_err());
    /// ```
    ///
    /// # Errors
    /// If `interval` is zero, or no thread can be started.
    pub fn start(
        store: &Arc<MemoryStore>,
        clock: impl Clock + 'static,
        interval: Duration,
    ) -> Result<Self, StartError> {
        if interval.is_zero() {
            return Err(StartError::ZeroSweepInterval);
        }
        let signal = Arc::new(Signal::default());
        let (theirs, store) = (Arc::clone(&signal), Arc::clone(store));
        let sweep_on = move || {
            while theirs.runs_on_after(interval) {
                store.sweep(clock.now());
            }
        };
        let thread = std::thread::Builder::new().name("hivemind-sweeper".into()).spawn(sweep_on)?;
        Ok(Self { signal, thread: Mutex::new(Some(thread)) })
    }

    /// Stops it and returns when its thread has ended. A second call does nothing.
    ///
    /// ```
    /// # use hivemind_core::{SystemClock, store::{MemoryStore, StoreOptions, Sweeper}};
    /// # use std::{sync::Arc, time::Duration};
    /// # let store = Arc::new(MemoryStore::new(StoreOptions::default()));
    /// let sweeper = Sweeper::start(&store, SystemClock, Duration::from_secs(60))?;
    /// sweeper.stop();
    /// sweeper.stop();
    /// # Ok::<(), hivemind_core::StartError>(())
    /// ```
    pub fn stop(&self) {
        *self.signal.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.signal.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // Its only way to fail is a panic in a sweep, and that has been reported on its own thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Signal {
    fn runs_on_after(&self, interval: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, interval, |stopped| !*stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreOptions;
    use crate::time::SystemClock;

    #[test]
    fn a_sweep_needs_a_pause_and_stops_when_it_is_dropped() {
        let store = Arc::new(MemoryStore::new(StoreOptions::default()));
        let none = Sweeper::start(&store, SystemClock, Duration::ZERO);
        assert!(matches!(none, Err(StartError::ZeroSweepInterval)));
        let sweeper = Sweeper::start(&store, SystemClock, Duration::from_secs(3_600)).unwrap();
        drop(sweeper);
        assert_eq!(Arc::strong_count(&store), 1, "its thread has let go of the store");
    }
}
