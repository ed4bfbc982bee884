//! What is counted of the mesh, as the page of metrics shows it.

use hivemind_mesh::NotesLost;

/// What is counted of the mesh. Without one, everything is zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeshFigures {
    pub(crate) peers: Vec<PeerFigures>,
    /// Members of the newest view, this node included.
    pub(crate) members: u64,
    pub(crate) keys: u64,
    pub(crate) unshared: u64,
    pub(crate) beyond_rights: u64,
    /// Asks that were sent to owners, and decisions that waited.
    pub(crate) asks: u64,
    pub(crate) waited: u64,
    pub(crate) overadmission: u64,
    pub(crate) overlaps: u64,
    pub(crate) unreadable: u64,
    pub(crate) callers_refused: u64,
    /// Notes of peers, which are blocks, that this node does not have.
    pub(crate) notes_lost: NotesLost,
    /// When this node's certificate ends, in seconds since the epoch.
    pub(crate) certificate_expiry: Option<u64>,
    /// When the CA does that it is of.
    pub(crate) ca_expiry: Option<u64>,
}

/// Up to how many microseconds a round trip is in each bucket: those of the design, in milliseconds there.
pub(crate) const BUCKETS_US: [u64; 9] = [100, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000];

/// How long round trips took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latencies {
    /// By bucket, each without those before it.
    pub(crate) buckets: [u64; BUCKETS_US.len()],
    pub(crate) count: u64,
    pub(crate) sum_us: u64,
}

impl Latencies {
    pub(super) fn observe(&mut self, micros: u64) {
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(micros);
        let place = BUCKETS_US.iter().position(|edge| micros <= *edge);
        if let Some(bucket) = place.and_then(|place| self.buckets.get_mut(place)) {
            *bucket += 1;
        }
    }
}

/// What is counted of one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerFigures {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) transport: &'static str,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) messages_sent: u64,
    pub(crate) messages_received: u64,
    pub(crate) frames_lost: u64,
    pub(crate) round_trip_us: Option<u64>,
    pub(crate) latencies: Latencies,
    pub(crate) clock_offset_us: Option<i64>,
}
