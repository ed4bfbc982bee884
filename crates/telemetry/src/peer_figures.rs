//! What is counted of the mesh, as the page of metrics shows it.

/// What is counted of the mesh. Without one, everything is zero.
#[derive(Clone, Debug, Default)]
pub struct MeshFigures {
    pub peers: Vec<PeerFigures>,
    /// Members of the newest view, this node included.
    pub members: u64,
    pub keys: u64,
    pub unshared: u64,
    pub beyond_rights: u64,
    /// Asks that were sent to owners, and decisions that waited.
    pub asks: u64,
    pub waited: u64,
    pub overadmission: u64,
    pub overlaps: u64,
    pub unreadable: u64,
    pub callers_refused: u64,
    /// Notes of peers, which are blocks, that this node does not have.
    pub notes_dropped: u64,
    pub notes_unbelieved: u64,
    pub notes_unheard: u64,
    /// When this node's certificate ends, in seconds since the epoch.
    pub certificate_expiry: Option<u64>,
    /// When the CA does that it is of.
    pub ca_expiry: Option<u64>,
}

/// Up to how many microseconds a round trip is in each bucket: those of the design, in milliseconds there.
pub const BUCKETS_US: [u64; 9] = [100, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000];

/// How long round trips took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latencies {
    /// By bucket, each without those before it.
    pub buckets: [u64; BUCKETS_US.len()],
    pub count: u64,
    pub sum_us: u64,
}

impl Latencies {
    pub fn observe(&mut self, micros: u64) {
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
pub struct PeerFigures {
    pub name: String,
    pub state: &'static str,
    pub transport: &'static str,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub frames_lost: u64,
    pub round_trip_us: Option<u64>,
    pub latencies: Latencies,
    pub clock_offset_us: Option<i64>,
}
