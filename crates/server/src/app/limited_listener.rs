//! Connection limit of a listener: when all permits are taken, new clients wait in the kernel's accept queue, where
//! they cost this process nothing.

use axum::serve::Listener;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_telemetry::log_throttle::LogThrottle;
use std::io;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener with a maximum number of open connections.
pub(super) struct LimitedListener<L> {
    listener: L,
    max: usize,
    permits: Arc<Semaphore>,
    full: LogThrottle,
}

impl<L: Listener> LimitedListener<L> {
    pub(super) fn new(listener: L, max: usize) -> Self {
        Self { listener, max, permits: Arc::new(Semaphore::new(max)), full: LogThrottle::new() }
    }

    fn log_full(&self) {
        if let Some(times) = self.full.record(MonotonicClock.now()) {
            tracing::warn!(
                times,
                "all {} connections of one listener are in use and new clients wait; raise `max_connections` if \
                 this happens often",
                self.max
            );
        }
    }

    /// Returns the next connection, its permit and its address.
    pub(super) async fn next(&mut self) -> Option<(L::Io, OwnedSemaphorePermit, L::Addr)> {
        let permit = if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            permit
        } else {
            self.log_full();
            // Only a closed semaphore fails, and it is never closed.
            Arc::clone(&self.permits).acquire_owned().await.ok()?
        };
        let (io, address) = self.listener.accept().await;
        Some((io, permit, address))
    }

    /// Returns a gauge of the open connections.
    pub(super) fn open_gauge(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let (max, permits) = (self.max, Arc::clone(&self.permits));
        move || max.saturating_sub(permits.available_permits())
    }

    pub(super) const fn listener(&self) -> &L {
        &self.listener
    }

    pub(super) fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }
}
