//! What is counted of the mesh, as the page of metrics shows it.

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
    /// When this node's certificate ends, in seconds since the epoch.
    pub(crate) certificate_expiry: Option<u64>,
}

/// What is counted of one peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerFigures {
    pub(crate) name: String,
    pub(crate) is_active: bool,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) frames_lost: u64,
    pub(crate) round_trip_us: Option<u64>,
    pub(crate) clock_offset_us: Option<i64>,
}
