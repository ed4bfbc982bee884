//! Background sweep of a memory store: removes idle keys at an interval. It is the only
//! thread of this crate, and waits on a condition variable, so that it stops immediately.

use super::MemoryStore;
use crate::start_error::StartError;
use crate::time::Clock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
struct StopSignal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

/// A periodic sweep of a store that is used without a limiter of this crate. Stops when dropped.
///
/// ```
/// use hivemind_core::SystemClock;
/// use hivemind_core::store::{MemoryStore, StoreOptions, Sweeper};
/// use std::{sync::Arc, time::Duration};
///
/// let store = Arc::new(MemoryStore::new(StoreOptions::default()));
/// let sweeper = Sweeper::start(&store, SystemClock, Duration::from_secs(60))?;
/// drop(sweeper); // Its thread has ended and released the store.
/// assert_eq!(Arc::strong_count(&store), 1);
/// # Ok::<(), hivemind_core::StartError>(())
/// ```
pub struct Sweeper {
    signal: Arc<StopSignal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Sweeper {
    /// Sweeps `store` every `interval` until stopped.
    ///
    /// ```
    /// # use hivemind_core::{SystemClock, store::{MemoryStore, StoreOptions, Sweeper}};
    /// # use std::{sync::Arc, time::Duration};
    /// let store = Arc::new(MemoryStore::new(StoreOptions::default()));
    /// assert!(Sweeper::start(&store, SystemClock, Duration::ZERO).is_err());
    /// ```
    ///
    /// # Errors
    /// If `interval` is zero, or the thread cannot be started.
    pub fn start(
        store: &Arc<MemoryStore>,
        clock: impl Clock + 'static,
        interval: Duration,
    ) -> Result<Self, StartError> {
        if interval.is_zero() {
            return Err(StartError::ZeroSweepInterval);
        }
        let signal = Arc::new(StopSignal::default());
        let (stop, store) = (Arc::clone(&signal), Arc::clone(store));
        let sweep = move || {
            while stop.wait_unless_stopped(interval) {
                store.sweep(clock.now());
            }
        };
        let thread = std::thread::Builder::new().name("hivemind-sweeper".into()).spawn(sweep)?;
        Ok(Self { signal, thread: Mutex::new(Some(thread)) })
    }

    /// Stops the sweep and returns when its thread has ended. A second call does nothing.
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
            // It only fails after a panic in a sweep, which was reported on its own thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop();
    }
}

impl StopSignal {
    /// Waits for `interval`; returns `false` as soon as the sweep is stopped.
    fn wait_unless_stopped(&self, interval: Duration) -> bool {
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
    fn sweeper_rejects_zero_interval_and_stops_on_drop() {
        let store = Arc::new(MemoryStore::new(StoreOptions::default()));
        let none = Sweeper::start(&store, SystemClock, Duration::ZERO);
        assert!(matches!(none, Err(StartError::ZeroSweepInterval)));
        let sweeper = Sweeper::start(&store, SystemClock, Duration::from_secs(3_600)).unwrap();
        drop(sweeper);
        assert_eq!(Arc::strong_count(&store), 1, "its thread released the store");
    }
}
