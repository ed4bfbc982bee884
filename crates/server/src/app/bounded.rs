//! A bound on open connections: whoever comes when all places are taken waits
//! in the kernel's queue until one is free, and costs nothing until then.

use axum::serve::Listener;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_telemetry::seldom::Seldom;
use std::io;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener that has only so many connections open at once.
pub(super) struct Bounded<L> {
    listener: L,
    most: usize,
    places: Arc<Semaphore>,
    full: Seldom,
}

impl<L: Listener> Bounded<L> {
    pub(super) fn new(listener: L, most: usize) -> Self {
        Self { listener, most, places: Arc::new(Semaphore::new(most)), full: Seldom::new() }
    }

    fn tell_full(&self) {
        if let Some(times) = self.full.happens(MonotonicClock.now()) {
            tracing::warn!(
                times,
                "all {} places for connections at one listener are taken, and others wait; raise `max_connections` if \
                 that is not enough",
                self.most
            );
        }
    }

    /// The next connection, its place and who it comes from.
    pub(super) async fn next(&mut self) -> Option<(L::Io, OwnedSemaphorePermit, L::Addr)> {
        let place = if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            place
        } else {
            self.tell_full();
            // Only a closed semaphore fails, and nobody closes it.
            Arc::clone(&self.places).acquire_owned().await.ok()?
        };
        let (io, address) = self.listener.accept().await;
        Some((io, place, address))
    }

    /// How many connections are open, now and whenever it is asked.
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
