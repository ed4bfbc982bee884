//! State and statistics of one peer, as shown to operators.

use super::link::Transport;
use hivemind_mesh::NodeId;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// State of a peer, as seen by this node.
///
/// ```
/// use hivemind_mesh_net::PeerState;
///
/// assert_eq!(PeerState::Quarantined.as_str(), "quarantined");
/// assert_eq!(PeerState::Alive.to_string(), "alive");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerState {
    /// It sent a frame recently.
    Alive,
    /// It is silent for long enough that no requests are sent to it.
    Suspect,
    /// It is silent for long enough to be declared dead, or it never sent a frame.
    Dead,
    /// It is alive, but its clock is too far off to share short windows.
    Quarantined,
}

impl PeerState {
    /// Its name in the API and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Quarantined => "quarantined",
        }
    }

    /// The state of a peer by its silence, its clock, and whether it is connected.
    pub(super) fn of(
        silence: Option<Duration>,
        is_quarantined: bool,
        is_connected: bool,
        (suspect_after, dead_after): (Duration, Duration),
    ) -> Self {
        match silence {
            Some(silence) if silence > dead_after => Self::Dead,
            Some(silence) if silence > suspect_after => Self::Suspect,
            Some(_) if is_quarantined => Self::Quarantined,
            None if !is_connected => Self::Dead,
            _ => Self::Alive,
        }
    }
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A peer, as shown to operators.
///
/// ```
/// use hivemind_mesh_net::{Mesh, Peer, PeerState};
///
/// fn silent(mesh: &Mesh) -> Vec<Peer> {
///     mesh.peers().into_iter().filter(|peer| peer.state != PeerState::Alive).collect()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its name.
    pub name: NodeId,
    /// The address to dial it at.
    pub address: SocketAddr,
    /// Its generation.
    pub generation: u64,
    /// Its state.
    pub state: PeerState,
    /// Whether this generation is in the latest view.
    pub is_member: bool,
    /// The transport of its connection; none while disconnected.
    pub transport: Option<Transport>,
    /// Round trip time, if known.
    pub round_trip: Option<Duration>,
    /// Offset of its clock from this node's, in microseconds; positive if it is ahead.
    pub clock_offset_us: Option<i64>,
    /// Time since its last frame.
    pub silence: Option<Duration>,
    /// Unspent allowance that it holds of counters owned by this node.
    pub rights_held: u64,
    /// Bytes received since this node started.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Frames received.
    pub frames_in: u64,
    /// Frames sent.
    pub frames_out: u64,
    /// Frames dropped because its queue was full; the state machine sends their totals again.
    pub frames_lost: u64,
    /// Number of connections since this node started.
    pub connections: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when a silent peer with a wrong clock is quarantined, or when one that never sent a frame is suspect.
    #[test]
    fn silence_outranks_clock_and_disconnected_name_is_dead() {
        let after = (Duration::from_millis(500), Duration::from_secs(3));
        for (silence_ms, quarantined, connected, state) in [
            (Some(0), false, true, PeerState::Alive),
            (Some(500), false, false, PeerState::Alive),
            (Some(501), false, true, PeerState::Suspect),
            (Some(3_000), true, true, PeerState::Suspect),
            (Some(3_001), true, true, PeerState::Dead),
            (Some(400), true, true, PeerState::Quarantined),
            (None, false, true, PeerState::Alive),
            (None, false, false, PeerState::Dead),
        ] {
            let silence = silence_ms.map(Duration::from_millis);
            let found = PeerState::of(silence, quarantined, connected, after);
            assert_eq!(found, state, "{silence_ms:?} {quarantined} {connected}");
        }
    }
}
