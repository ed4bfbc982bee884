//! How much went to a peer and came from it, over all connections to it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Totals of one peer.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    frames_lost: AtomicU64,
}

impl Traffic {
    pub(super) fn came(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn went(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn lost(&self) {
        self.frames_lost.fetch_add(1, Relaxed);
    }

    /// Bytes in, bytes out, frames lost.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        (self.bytes_in.load(Relaxed), self.bytes_out.load(Relaxed), self.frames_lost.load(Relaxed))
    }
}
