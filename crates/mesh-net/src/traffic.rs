//! Traffic counters of a peer: the sum over all its connections.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one peer.
#[derive(Debug, Default)]
pub(super) struct PeerTraffic {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    frames_in: AtomicU64,
    frames_out: AtomicU64,
    frames_lost: AtomicU64,
    connections: AtomicU64,
}

/// Values of the counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrafficTotals {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) frames_in: u64,
    pub(super) frames_out: u64,
    pub(super) frames_lost: u64,
    pub(super) connections: u64,
}

impl PeerTraffic {
    pub(super) fn record_received(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
        self.frames_in.fetch_add(1, Relaxed);
    }

    pub(super) fn record_sent(&self, bytes: usize, frames: u64) {
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
        self.frames_out.fetch_add(frames, Relaxed);
    }

    pub(super) fn record_lost(&self) {
        self.frames_lost.fetch_add(1, Relaxed);
    }

    pub(super) fn record_connection(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(super) fn totals(&self) -> TrafficTotals {
        let Self { bytes_in, bytes_out, frames_in, frames_out, frames_lost, connections } = self;
        TrafficTotals {
            bytes_in: bytes_in.load(Relaxed),
            bytes_out: bytes_out.load(Relaxed),
            frames_in: frames_in.load(Relaxed),
            frames_out: frames_out.load(Relaxed),
            frames_lost: frames_lost.load(Relaxed),
            connections: connections.load(Relaxed),
        }
    }
}
