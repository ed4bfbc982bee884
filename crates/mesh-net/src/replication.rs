//! Replication of the replicated map: its messages follow a peer table in a gossip message, because nodes of earlier
//! versions stop reading after the table. Updates go to all peers immediately. A digest, sent once per second and with
//! every new connection, lets a peer that missed an update request it.

use super::context::NodeContext;
use super::link::Link;
use super::lock;
use super::peer_table::PeerTable;
use hivemind_core::Timestamp;

impl NodeContext {
    /// Sends local changes of the map to all peers.
    pub(super) fn send_map_updates(&self) {
        for update in self.board.take_updates() {
            let message = [PeerTable::empty_message(), update].concat();
            for link in self.links.list() {
                link.send_gossip(&message);
            }
        }
    }

    /// Appends the digest of the map to a gossip message, if there is either of them.
    pub(super) fn append_map_digest(&self, table: Option<Vec<u8>>, now: Timestamp) -> Option<Vec<u8>> {
        let Some(digest) = self.board.digest(now) else { return table };
        Some([table.unwrap_or_else(PeerTable::empty_message), digest].concat())
    }

    /// The first gossip message of a connection: the whole peer table and the digest.
    pub(super) fn initial_gossip(&self, now: Timestamp) -> Vec<u8> {
        let table = lock(&self.peer_table).write(now);
        self.append_map_digest(Some(table), now).unwrap_or_default()
    }

    /// Applies a peer's map message and sends the answers.
    pub(super) fn apply_map_message(&self, link: &Link, message: &[u8], now: Timestamp) {
        let peer = &link.peer.member.id;
        let Ok(answers) = self.board.receive(peer, message, now) else {
            return tracing::debug!(%peer, "message of the replicated map cannot be decoded");
        };
        for answer in answers {
            link.send_gossip(&[PeerTable::empty_message(), answer].concat());
        }
    }
}
