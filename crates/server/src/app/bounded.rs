//! A bound on open connections: whoever comes when all places are taken waits
//! in the kernel's queue until one is free, and costs nothing until then.

use crate::seldom::Seldom;
use axum::serve::Listener;
use hivemind_core::{Clock, MonotonicClock};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener that has only so many connections open at once.
pub(super) struct Bounded<L> {
    listener: L,
    most: usize,
    places: Arc<Semaphore>,
    full: Seldom,
}

/// A connection with the place that it takes.
pub(super) struct Placed<T> {
    io: T,
    _place: OwnedSemaphorePermit,
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
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Placed<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Some((io, place, address)) = self.next().await {
                return (Placed { io, _place: place }, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Placed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Placed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
