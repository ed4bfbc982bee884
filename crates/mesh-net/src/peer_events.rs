//! Log of peer state changes: each change is logged once.

use super::context::{NodeContext, every};
use super::link::Transport;
use super::peer::{Peer, PeerState};
use hivemind_mesh::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Interval of checks.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The last logged state of a peer.
#[derive(Clone, Copy, Debug)]
struct PeerSnapshot {
    state: PeerState,
    generation: u64,
    transport: Option<Transport>,
}

/// A change of a peer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerChange {
    Joined,
    Recovered,
    Restarted,
    Suspect,
    Dead,
    Quarantined,
    TransportChanged(Transport),
    Removed,
}

/// The last logged state of all peers that were ever connected.
#[derive(Debug, Default)]
pub(super) struct PeerEvents(BTreeMap<NodeId, PeerSnapshot>);

impl PeerEvents {
    /// The changes since the last call.
    fn update(&mut self, peers: &[Peer]) -> Vec<(NodeId, PeerChange)> {
        let mut changes = Vec::new();
        for peer in peers {
            let now =
                PeerSnapshot { state: peer.state, generation: peer.generation, transport: peer.transport };
            let Some(before) = self.0.get_mut(&peer.name) else {
                // A name that was never connected is not a peer yet.
                if peer.state != PeerState::Dead && peer.transport.is_some() {
                    changes.push((peer.name.clone(), PeerChange::Joined));
                    // The first connection over TCP is logged like a change to TCP.
                    let is_over_tcp = peer.transport == Some(Transport::Tcp);
                    let change = (peer.name.clone(), PeerChange::TransportChanged(Transport::Tcp));
                    changes.extend(is_over_tcp.then_some(change));
                    self.0.insert(peer.name.clone(), now);
                }
                continue;
            };
            let change = if now.generation > before.generation {
                Some(PeerChange::Restarted)
            } else if now.state == before.state {
                None
            } else {
                Some(match now.state {
                    PeerState::Alive => PeerChange::Recovered,
                    PeerState::Suspect => PeerChange::Suspect,
                    PeerState::Dead => PeerChange::Dead,
                    PeerState::Quarantined => PeerChange::Quarantined,
                })
            };
            changes.extend(change.map(|change| (peer.name.clone(), change)));
            let transport = now.transport.filter(|now| before.transport.is_some_and(|before| before != *now));
            changes.extend(transport.map(|to| (peer.name.clone(), PeerChange::TransportChanged(to))));
            *before = PeerSnapshot { transport: now.transport.or(before.transport), ..now };
        }
        let removed: Vec<NodeId> =
            self.0.keys().filter(|name| !peers.iter().any(|peer| peer.name == **name)).cloned().collect();
        for name in removed {
            self.0.remove(&name);
            changes.push((name, PeerChange::Removed));
        }
        changes
    }
}

fn log(change: PeerChange, name: &NodeId, peer: Option<&Peer>) {
    let Some(peer) = peer else {
        return tracing::info!(peer = %name, "peer removed");
    };
    let (address, generation) = (peer.address, peer.generation);
    let transport = peer.transport.map_or("none", Transport::as_str);
    match change {
        PeerChange::Joined => tracing::info!(peer = %name, %address, generation, transport, "peer joined"),
        PeerChange::Recovered => tracing::info!(peer = %name, %address, transport, "peer recovered"),
        PeerChange::Restarted => {
            tracing::info!(peer = %name, %address, generation, transport, "peer restarted");
        }
        PeerChange::Suspect => tracing::warn!(peer = %name, %address, transport, "peer is silent"),
        PeerChange::Dead => tracing::warn!(peer = %name, %address, "peer is dead; reconnecting"),
        PeerChange::Quarantined => tracing::warn!(
            peer = %name, %address, clock_offset_us = peer.clock_offset_us.unwrap_or(0),
            "peer's clock is too far off to share short windows; synchronize its clock"
        ),
        PeerChange::TransportChanged(Transport::Tcp) => tracing::warn!(
            peer = %name, %address,
            "peer is connected over TCP because QUIC fails; open its mesh port for UDP"
        ),
        PeerChange::TransportChanged(Transport::Quic) => {
            tracing::info!(peer = %name, %address, "peer is connected over QUIC again");
        }
        PeerChange::Removed => {}
    }
}

impl NodeContext {
    /// Logs changes of peers until shutdown.
    pub(super) async fn log_peer_events(self: Arc<Self>) {
        let (mut ticks, mut events) = (every(POLL_INTERVAL), PeerEvents::default());
        loop {
            ticks.tick().await;
            let peers = self.peers();
            for (name, change) in events.update(&peers) {
                log(change, &name, peers.iter().find(|peer| peer.name == name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, generation: u64, state: PeerState, transport: Option<Transport>) -> Peer {
        Peer {
            name: NodeId::new(name),
            address: ([192, 0, 2, 1], 1).into(),
            generation,
            state,
            is_member: true,
            transport,
            round_trip: None,
            clock_offset_us: None,
            silence: None,
            rights_held: 0,
            bytes_in: 0,
            bytes_out: 0,
            frames_in: 0,
            frames_out: 0,
            frames_lost: 0,
            connections: 1,
        }
    }

    // Fails when every poll reports a change, when a name that was never connected is reported, or when the transport is
    // forgotten with a lost connection.
    #[test]
    fn each_change_of_a_peer_is_reported_once() {
        use PeerState::{Alive, Dead, Quarantined, Suspect};
        let (quic, tcp) = (Some(Transport::Quic), Some(Transport::Tcp));
        let mut events = PeerEvents::default();
        for (state, expected) in [
            (peer("b", 1, Dead, None), vec![]),
            (peer("b", 1, Alive, quic), vec![PeerChange::Joined]),
            (peer("b", 1, Alive, quic), vec![]),
            (peer("b", 1, Suspect, None), vec![PeerChange::Suspect]),
            (peer("b", 1, Dead, None), vec![PeerChange::Dead]),
            (peer("b", 1, Dead, None), vec![]),
            (peer("b", 1, Alive, quic), vec![PeerChange::Recovered]),
            (peer("b", 1, Alive, tcp), vec![PeerChange::TransportChanged(Transport::Tcp)]),
            (peer("b", 1, Suspect, None), vec![PeerChange::Suspect]),
            (
                peer("b", 1, Alive, quic),
                vec![PeerChange::Recovered, PeerChange::TransportChanged(Transport::Quic)],
            ),
            (peer("b", 1, Alive, tcp), vec![PeerChange::TransportChanged(Transport::Tcp)]),
            (peer("b", 1, Quarantined, tcp), vec![PeerChange::Quarantined]),
            (
                peer("b", 2, Alive, quic),
                vec![PeerChange::Restarted, PeerChange::TransportChanged(Transport::Quic)],
            ),
        ] {
            let changes: Vec<_> = events.update(&[state]).into_iter().map(|(_, change)| change).collect();
            assert_eq!(changes, expected);
        }
        assert_eq!(events.update(&[]), [(NodeId::new("b"), PeerChange::Removed)]);
        assert_eq!(events.update(&[]), []);
        // Fails when the transport is reported only after a change.
        let never_over_quic = events.update(&[peer("b", 3, Alive, tcp)]);
        let b = NodeId::new("b");
        let expected = [(b.clone(), PeerChange::Joined), (b, PeerChange::TransportChanged(Transport::Tcp))];
        assert_eq!(never_over_quic, expected);
    }
}
