//! Admission of inbound connections: limits on concurrent handshakes, and the count of rejected callers.

use super::lock;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Maximum number of concurrent handshakes per transport. Each transport has its own limit, so a flood over one does
/// not affect the other.
const MAX_HANDSHAKES: usize = 128;
/// Additional handshakes for callers at the address of a known peer, which strangers cannot use up.
const MAX_KNOWN_HANDSHAKES: usize = 64;
/// With more concurrent handshakes, each QUIC caller first validates its address. That costs the caller a round trip
/// and this node no state.
const MAX_UNVALIDATED: usize = 16;
/// Maximum number of logged pairs of caller and reason.
const MAX_REPORTS: usize = 256;

/// Limits on callers that have not completed the handshake.
#[derive(Debug)]
pub(super) struct CallerLimits {
    pub(super) quic: Arc<Semaphore>,
    pub(super) tcp: Arc<Semaphore>,
    pub(super) known_peers: Arc<Semaphore>,
    rejected: AtomicU64,
    /// Logged pairs of caller and reason.
    reported: Mutex<BTreeSet<(IpAddr, String)>>,
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self {
            quic: Arc::new(Semaphore::new(MAX_HANDSHAKES)),
            tcp: Arc::new(Semaphore::new(MAX_HANDSHAKES)),
            known_peers: Arc::new(Semaphore::new(MAX_KNOWN_HANDSHAKES)),
            rejected: AtomicU64::new(0),
            reported: Mutex::default(),
        }
    }
}

impl CallerLimits {
    /// Whether QUIC callers have to validate their address.
    pub(super) fn is_busy(&self) -> bool {
        self.quic.available_permits() + MAX_UNVALIDATED < MAX_HANDSHAKES
    }

    /// Number of rejected callers.
    pub(super) fn rejected(&self) -> u64 {
        self.rejected.load(Relaxed)
    }

    pub(super) fn record_rejection(&self) {
        self.rejected.fetch_add(1, Relaxed);
    }

    /// Records that a caller was rejected for this reason. Returns whether to log it: once per caller and reason, up
    /// to a maximum.
    pub(super) fn record_reason(&self, address: IpAddr, reason: String) -> bool {
        let mut reported = lock(&self.reported);
        reported.len() < MAX_REPORTS && reported.insert((address.to_canonical(), reason))
    }
}
