//! Peer list: all known peers, combined from the peer table, the connections and the state machine.

use super::context::NodeContext;
use super::lock;
use super::peer::{Peer, PeerState};
use hivemind_mesh::Generation;
use hivemind_mesh::NodeId;
use quinn::Connection;
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl NodeContext {
    /// All known peers, without the allowance that they hold.
    pub(super) fn peers(&self) -> Vec<Peer> {
        let now = self.clock.now();
        let contacts: Vec<_> = lock(&self.peer_table)
            .iter()
            .map(|(name, contact)| (name.clone(), contact.address, contact.generation))
            .collect();
        let (standing, contacts) = self.store.with(|node| {
            // The generation of a connected peer may change once; its frames carry the new one.
            let newest = |(name, address, known): (NodeId, SocketAddr, Generation)| {
                let generation = node.generation_of(&name).map_or(known, |newest| newest.max(known));
                (name, address, generation)
            };
            (node.standing(now), contacts.into_iter().map(newest).collect::<Vec<_>>())
        });
        let silences: BTreeMap<_, _> = standing.ages.into_iter().collect();
        let clocks: BTreeMap<_, _> = standing.clocks.iter().map(|clock| (&clock.id, clock)).collect();
        let membership = &self.options.membership;
        let describe = |(name, address, generation): (NodeId, SocketAddr, Generation)| {
            let link = self.links.get(&name);
            let (clock, silence) = (clocks.get(&name).copied(), silences.get(&name).copied());
            let quic_rtt = link.as_ref().and_then(|link| link.peer.quic.as_ref()).map(Connection::rtt);
            let traffic = self.links.traffic(&name).totals();
            let after = (membership.staleness, membership.dead_after);
            Peer {
                address,
                generation: generation.0,
                state: PeerState::of(
                    silence,
                    clock.is_some_and(|clock| clock.is_quarantined),
                    link.is_some(),
                    after,
                ),
                is_member: standing
                    .members
                    .iter()
                    .any(|member| member.id == name && member.generation == generation),
                transport: link.as_ref().map(|link| link.peer.transport()),
                // Over TCP, the round trip is measured by clock synchronization.
                round_trip: quic_rtt.or(link.and(clock).map(|clock| clock.within * 2)),
                clock_offset_us: clock.map(|clock| clock.offset_us),
                silence,
                rights_held: 0,
                bytes_in: traffic.bytes_in,
                bytes_out: traffic.bytes_out,
                frames_in: traffic.frames_in,
                frames_out: traffic.frames_out,
                frames_lost: traffic.frames_lost,
                connections: traffic.connections,
                name,
            }
        };
        contacts.into_iter().map(describe).collect()
    }
}
