//! Peer table: names, generations and addresses of known nodes, gossiped so that a node that knows one peer soon knows
//! all. The table is bounded, and entries that no node has been connected to for a while expire.

use super::handshake::MAX_NAME_LEN;
use hivemind_core::Timestamp;
use hivemind_mesh::NodeId;
use hivemind_mesh::frame::wire::{Unreadable, WireReader, WireWriter};
use hivemind_mesh::{Generation, Member};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long an entry is kept without a connection.
const EXPIRY: Duration = Duration::from_secs(10 * 60);

/// How long a connection counts after it was last recorded; open connections are recorded every second.
const CONNECTION_EXPIRY: Duration = Duration::from_secs(3);

/// A node and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contact {
    pub(super) generation: Generation,
    pub(super) address: SocketAddr,
    /// When any node was last connected to it, by this node's clock.
    pub(super) last_seen: Timestamp,
    /// When this node was last connected to it.
    last_connected: Option<Timestamp>,
}

impl Contact {
    fn is_connected(&self, now: Timestamp) -> bool {
        self.last_connected.is_some_and(|last| now.since(last) < CONNECTION_EXPIRY)
    }
}

/// All known nodes except this one.
#[derive(Debug)]
pub(super) struct PeerTable {
    name: NodeId,
    max_peers: usize,
    contacts: BTreeMap<NodeId, Contact>,
    /// Later generations of connected nodes, as reported by peers. They are dialed, and stored only after they answer.
    rumors: BTreeMap<NodeId, Contact>,
    /// Names of entries that changed since the last gossip.
    dirty: BTreeSet<NodeId>,
    /// Generations that left. They are not dialed, even if peers still report them.
    departed: BTreeMap<NodeId, Generation>,
}

/// Result of reading a peer's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableUpdate {
    /// Whether any entry changed.
    pub(super) has_changes: bool,
    /// The latest generation reported for this node's own name.
    pub(super) own_generation: Option<Generation>,
    /// Number of bytes after the table.
    pub(super) trailing: usize,
}

impl PeerTable {
    pub(super) fn new(name: NodeId, max_peers: usize) -> Self {
        let (contacts, rumors) = (BTreeMap::new(), BTreeMap::new());
        Self { name, max_peers, contacts, rumors, dirty: BTreeSet::new(), departed: BTreeMap::new() }
    }

    /// Records that this node is connected to a peer, which overrides reports of other nodes. Returns whether the
    /// entry changed.
    pub(super) fn record_connection(&mut self, member: &Member, address: SocketAddr, now: Timestamp) -> bool {
        let contact =
            Contact { generation: member.generation, address, last_seen: now, last_connected: Some(now) };
        if !self.accept(member, address) {
            return false;
        }
        self.rumors.remove(&member.id);
        let has_changed = match self.contacts.get_mut(&member.id) {
            Some(known) => {
                let has_changed = known.address != contact.address || known.generation != contact.generation;
                *known = contact;
                has_changed
            }
            None => self.insert_if_room(member, contact),
        };
        if has_changed {
            self.dirty.insert(member.id.clone());
        }
        has_changed
    }

    /// Records a report of another node: it adds unknown names and later generations, and does not change an entry that
    /// this node is connected to. Two peers may see a third at two addresses, and a peer may be wrong.
    fn record_report(
        &mut self,
        member: &Member,
        address: SocketAddr,
        last_seen: Timestamp,
        now: Timestamp,
    ) -> bool {
        let contact = Contact { generation: member.generation, address, last_seen, last_connected: None };
        if !self.accept(member, address) {
            return false;
        }
        let has_changed = match self.contacts.get_mut(&member.id) {
            Some(known) if known.generation >= contact.generation => {
                known.last_seen = known.last_seen.max(last_seen);
                false
            }
            Some(known) if known.is_connected(now) => {
                self.rumors.insert(member.id.clone(), contact);
                false
            }
            Some(known) => {
                *known = contact;
                true
            }
            None => self.insert_if_room(member, contact),
        };
        if has_changed {
            self.dirty.insert(member.id.clone());
        }
        has_changed
    }

    /// Returns whether a node may be in the table. A later generation ends the record of a departure.
    fn accept(&mut self, member: &Member, address: SocketAddr) -> bool {
        let is_invalid = member.id == self.name || address.port() == 0 || address.ip().is_unspecified();
        let has_left = self.departed.get(&member.id).is_some_and(|gone| member.generation <= *gone);
        if is_invalid || has_left {
            return false;
        }
        self.departed.remove(&member.id);
        true
    }

    fn insert_if_room(&mut self, member: &Member, contact: Contact) -> bool {
        let has_room = self.contacts.len() < self.max_peers;
        if has_room {
            self.contacts.insert(member.id.clone(), contact);
        }
        has_room
    }

    /// Encodes the entries that changed since the last call.
    pub(super) fn write_changes(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let dirty = std::mem::take(&mut self.dirty);
        (!dirty.is_empty()).then(|| self.write_entries(now, |name| dirty.contains(name)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Contact)> {
        self.contacts.iter()
    }

    /// All addresses to dial.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.contacts.values().chain(self.rumors.values()).map(|contact| contact.address)
    }

    pub(super) fn contains(&self, name: &NodeId) -> bool {
        self.contacts.contains_key(name)
    }

    /// Whether a node is known at this address.
    pub(super) fn has_address(&self, address: IpAddr) -> bool {
        self.contacts.values().any(|contact| contact.address.ip() == address)
    }

    /// Removes a generation that has left for good.
    pub(super) fn record_departure(&mut self, member: &Member) {
        if self.contacts.get(&member.id).is_some_and(|known| known.generation <= member.generation) {
            self.contacts.remove(&member.id);
        }
        if self.departed.len() >= self.max_peers.saturating_mul(2) {
            self.departed.clear(); // At worst, some of them are dialed without success for a while.
        }
        self.departed.insert(member.id.clone(), member.generation);
    }

    /// Removes expired entries, except members of the view, which are dialed forever.
    pub(super) fn remove_expired(&mut self, now: Timestamp, is_member: impl Fn(&NodeId) -> bool) {
        self.contacts.retain(|name, contact| is_member(name) || now.since(contact.last_seen) < EXPIRY);
        let Self { contacts, rumors, .. } = self;
        rumors.retain(|name, rumor| contacts.contains_key(name) && now.since(rumor.last_seen) < EXPIRY);
    }

    /// Encodes the whole table.
    pub(super) fn write(&self, now: Timestamp) -> Vec<u8> {
        self.write_entries(now, |_| true)
    }

    /// An encoded table without entries, for messages whose content follows the table.
    pub(super) fn empty_message() -> Vec<u8> {
        let mut writer = WireWriter::default();
        writer.number(0);
        writer.0
    }

    /// Encodes entries with the age of their last connection, because clocks differ.
    fn write_entries(&self, now: Timestamp, is_included: impl Fn(&NodeId) -> bool) -> Vec<u8> {
        let entries: Vec<_> = self.contacts.iter().filter(|(name, _)| is_included(name)).collect();
        let mut writer = WireWriter::default();
        writer.number(entries.len() as u64);
        for (name, contact) in entries {
            writer.text(name.as_str());
            writer.number(contact.generation.0);
            writer.text(&contact.address.to_string());
            writer.number(now.since(contact.last_seen).as_secs());
        }
        writer.0
    }

    /// Decodes a peer's table and records its entries.
    pub(super) fn read(&mut self, bytes: &[u8], now: Timestamp) -> Result<TableUpdate, Unreadable> {
        let mut reader = WireReader(bytes);
        let mut update = TableUpdate::default();
        for _ in 0..reader.count(self.max_peers.saturating_mul(2))? {
            let id = NodeId::new(reader.text(MAX_NAME_LEN)?);
            let generation = Generation(reader.number()?);
            let address: SocketAddr = reader.text(64)?.parse().map_err(|_| Unreadable)?;
            let age = Duration::from_secs(reader.number()?);
            if age < EXPIRY && !id.as_str().is_empty() {
                let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
                let last_seen = Timestamp::from_nanos(now.as_nanos().saturating_sub(age));
                if id == self.name {
                    update.own_generation = update.own_generation.max(Some(generation));
                }
                update.has_changes |= self.record_report(&Member { id, generation }, address, last_seen, now);
            }
        }
        Ok(TableUpdate { trailing: reader.0.len(), ..update })
    }
}

#[cfg(test)]
mod tests;
