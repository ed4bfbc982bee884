//! Mesh metrics: totals of this node, and one row for each peer.

mod families;
#[cfg(test)]
mod tests;

/// Metrics of the mesh; all zero if this node is not in one.
#[derive(Clone, Debug, Default)]
pub struct MeshMetrics {
    pub peers: Vec<PeerMetrics>,
    /// Members of the newest view, this node included.
    pub members: u64,
    pub keys: u64,
    pub unshared: u64,
    pub beyond_rights: u64,
    /// Requests for allowance that were sent to owners, and decisions that waited.
    pub asks: u64,
    pub waited: u64,
    pub overadmission: u64,
    pub overlaps: u64,
    pub unreadable: u64,
    pub callers_refused: u64,
    /// Blocks announced by peers that this node did not keep.
    pub notes_dropped: u64,
    pub notes_unbelieved: u64,
    pub notes_unheard: u64,
    /// When this node's certificate expires, in seconds since the epoch.
    pub certificate_expiry: Option<u64>,
    /// When the CA of that certificate expires.
    pub ca_expiry: Option<u64>,
}

/// Upper bounds of the round-trip buckets, in microseconds (the metric has them in milliseconds).
pub const BUCKETS_US: [u64; 9] = [100, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000];

/// Histogram of round-trip times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latencies {
    /// Not cumulative: each bucket without those before it.
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

/// Metrics of one peer.
#[derive(Clone, Debug, Default)]
pub struct PeerMetrics {
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
