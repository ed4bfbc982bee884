//! How much went to a peer and came from it, over all connections to it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Totals of one peer.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    frames_in: AtomicU64,
    frames_out: AtomicU64,
    frames_lost: AtomicU64,
    connections: AtomicU64,
}

/// What it came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Totals {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) frames_in: u64,
    pub(super) frames_out: u64,
    pub(super) frames_lost: u64,
    pub(super) connections: u64,
}

impl Traffic {
    pub(super) fn came(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
        self.frames_in.fetch_add(1, Relaxed);
    }

    pub(super) fn went(&self, bytes: usize, frames: u64) {
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
        self.frames_out.fetch_add(frames, Relaxed);
    }

    pub(super) fn lost(&self) {
        self.frames_lost.fetch_add(1, Relaxed);
    }

    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn totals(&self) -> Totals {
        let Self { bytes_in, bytes_out, frames_in, frames_out, frames_lost, connections } = self;
        Totals {
            bytes_in: bytes_in.load(Relaxed),
            bytes_out: bytes_out.load(Relaxed),
            frames_in: frames_in.load(Relaxed),
            frames_out: frames_out.load(Relaxed),
            frames_lost: frames_lost.load(Relaxed),
            connections: connections.load(Relaxed),
        }
    }
}
