//! Connection limit of a listener: when all permits are taken, new clients wait in the kernel's accept queue, where
//! they cost this process nothing.

use axum::serve::Listener;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_telemetry::log_throttle::LogThrottle;
use std::io;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener with a maximum number of open connections.
pub(super) struct Bounded<L> {
    listener: L,
    most: usize,
    places: Arc<Semaphore>,
    full: LogThrottle,
}

impl<L: Listener> Bounded<L> {
    pub(super) fn new(listener: L, most: usize) -> Self {
        Self { listener, most, places: Arc::new(Semaphore::new(most)), full: LogThrottle::new() }
    }

    fn tell_full(&self) {
        if let Some(times) = self.full.record(MonotonicClock.now()) {
            tracing::warn!(
                times,
                "all {} connections of one listener are in use and new clients wait; raise `max_connections` if \
                 this happens often",
                self.most
            );
        }
    }

    /// Returns the next connection, its permit and its address.
    pub(super) async fn next(&mut self) -> Option<(L::Io, OwnedSemaphorePermit, L::Addr)> {
        let place = if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            place
        } else {
            self.tell_full();
            // Only a closed semaphore fails, and it is never closed.
            Arc::clone(&self.places).acquire_owned().await.ok()?
        };
        let (io, address) = self.listener.accept().await;
        Some((io, place, address))
    }

    /// Returns a gauge of the open connections.
    pub(super) fn open(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let (most, places) = (self.most, Arc::clone(&self.places));
        move || most.saturating_sub(places.available_permits())
    }

    pub(super) const fn listener(&self) -> &L {
        &self.listener
    }

    pub(super) fn local_addr(&self) -> io::Result<L::Addr> {
        self.listener.local_addr()
    }
}
