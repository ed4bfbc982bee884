//! Who there is and where: what this node was told of others, and what it tells them, so that a
//! node that knows one peer soon knows all. Bounded; a name that nobody could reach for long
//! is forgotten.

use super::hello::LONGEST_NAME;
use hivemind_core::Timestamp;
use hivemind_mesh::NodeId;
use hivemind_mesh::wire::{Reader, Unreadable, Writer};
use hivemind_mesh::{Generation, Member};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a name is kept that nobody has spoken to.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// After which a connection that is not seen any more has ended: connections are looked at every second.
const IN_SIGHT: Duration = Duration::from_secs(3);

/// One node, and where it can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contact {
    pub(super) generation: Generation,
    pub(super) address: SocketAddr,
    /// When somebody was last connected to it, by this node's clock.
    pub(super) seen: Timestamp,
    /// When this node itself was, if ever.
    sighted: Option<Timestamp>,
}

impl Contact {
    fn is_in_sight(&self, now: Timestamp) -> bool {
        self.sighted.is_some_and(|sighted| now.since(sighted) < IN_SIGHT)
    }
}

/// Everybody this node knows of, but for itself.
#[derive(Debug)]
pub(super) struct Roster {
    me: NodeId,
    most: usize,
    contacts: BTreeMap<NodeId, Contact>,
    /// Later runs of those in sight, as others say, which are called and not believed before they answer.
    rumours: BTreeMap<NodeId, Contact>,
    /// Of whom there is news since it was last told.
    news: BTreeSet<NodeId>,
    /// Runs that have said goodbye: nobody need call them, whoever still names them.
    departed: BTreeMap<NodeId, Generation>,
}

/// What came of a roster that a peer told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Whether there was anything new.
    pub(super) is_news: bool,
    /// The latest run of this node's own name, if there was one.
    pub(super) own_run: Option<Generation>,
    /// How many bytes came after it: what is said beside it.
    pub(super) beside: usize,
}

impl Roster {
    pub(super) fn new(me: NodeId, most: usize) -> Self {
        let (contacts, rumours) = (BTreeMap::new(), BTreeMap::new());
        Self { me, most, contacts, rumours, news: BTreeSet::new(), departed: BTreeMap::new() }
    }

    /// Learns of a node that this one is connected to: what it says of itself counts, whatever others say. Tells
    /// whether that is news.
    pub(super) fn learn(&mut self, member: &Member, address: SocketAddr, now: Timestamp) -> bool {
        let contact = Contact { generation: member.generation, address, seen: now, sighted: Some(now) };
        if !self.may_know(member, address) {
            return false;
        }
        self.rumours.remove(&member.id);
        let is_news = match self.contacts.get_mut(&member.id) {
            Some(known) => {
                let is_news = known.address != contact.address || known.generation != contact.generation;
                *known = contact;
                is_news
            }
            None => self.add(member, contact),
        };
        if is_news {
            self.news.insert(member.id.clone());
        }
        is_news
    }

    /// Hears of a node from another: that adds unknown names and later runs, and changes nothing of what this node
    /// sees itself. Two peers may see a third at two addresses, and a peer may be wrong.
    fn hear(&mut self, member: &Member, address: SocketAddr, seen: Timestamp, now: Timestamp) -> bool {
        let contact = Contact { generation: member.generation, address, seen, sighted: None };
        if !self.may_know(member, address) {
            return false;
        }
        let is_news = match self.contacts.get_mut(&member.id) {
            Some(known) if known.generation >= contact.generation => {
                known.seen = known.seen.max(seen);
                false
            }
            Some(known) if known.is_in_sight(now) => {
                self.rumours.insert(member.id.clone(), contact);
                false
            }
            Some(known) => {
                *known = contact;
                true
            }
            None => self.add(member, contact),
        };
        if is_news {
            self.news.insert(member.id.clone());
        }
        is_news
    }

    fn may_know(&mut self, member: &Member, address: SocketAddr) -> bool {
        let is_nobody = member.id == self.me || address.port() == 0 || address.ip().is_unspecified();
        let has_left = self.departed.get(&member.id).is_some_and(|gone| member.generation <= *gone);
        if is_nobody || has_left {
            return false;
        }
        self.departed.remove(&member.id);
        true
    }

    fn add(&mut self, member: &Member, contact: Contact) -> bool {
        let has_room = self.contacts.len() < self.most;
        if has_room {
            self.contacts.insert(member.id.clone(), contact);
        }
        has_room
    }

    /// What is new since the last time, for others to hear.
    pub(super) fn write_news(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let news = std::mem::take(&mut self.news);
        (!news.is_empty()).then(|| self.write_those(now, |name| news.contains(name)))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Contact)> {
        self.contacts.iter()
    }

    /// Every address at which somebody may be.
    pub(super) fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.contacts.values().chain(self.rumours.values()).map(|contact| contact.address)
    }

    pub(super) fn knows(&self, name: &NodeId) -> bool {
        self.contacts.contains_key(name)
    }

    /// Whether somebody is known to be at an address.
    pub(super) fn has_at(&self, address: IpAddr) -> bool {
        self.contacts.values().any(|contact| contact.address.ip() == address)
    }

    /// A run has left, and does not come back.
    pub(super) fn depart(&mut self, member: &Member) {
        if self.contacts.get(&member.id).is_some_and(|known| known.generation <= member.generation) {
            self.contacts.remove(&member.id);
        }
        if self.departed.len() >= self.most.saturating_mul(2) {
            self.departed.clear(); // At worst some of them are called in vain for a while.
        }
        self.departed.insert(member.id.clone(), member.generation);
    }

    /// Forgets who was not seen for long, but for the members of the view: those are called for ever.
    pub(super) fn forget_old(&mut self, now: Timestamp, is_member: impl Fn(&NodeId) -> bool) {
        self.contacts.retain(|name, contact| is_member(name) || now.since(contact.seen) < FORGOTTEN_AFTER);
        let Self { contacts, rumours, .. } = self;
        rumours
            .retain(|name, rumour| contacts.contains_key(name) && now.since(rumour.seen) < FORGOTTEN_AFTER);
    }

    /// All of it, for somebody who may know nothing of it.
    pub(super) fn write(&self, now: Timestamp) -> Vec<u8> {
        self.write_those(now, |_| true)
    }

    /// A roster of nobody, for those who have something else to say.
    pub(super) fn of_nobody() -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(0);
        writer.0
    }

    /// What others are told: how long ago each was seen, since clocks differ.
    fn write_those(&self, now: Timestamp, is_told: impl Fn(&NodeId) -> bool) -> Vec<u8> {
        let told: Vec<_> = self.contacts.iter().filter(|(name, _)| is_told(name)).collect();
        let mut writer = Writer::default();
        writer.number(told.len() as u64);
        for (name, contact) in told {
            writer.text(name.as_str());
            writer.number(contact.generation.0);
            writer.text(&contact.address.to_string());
            writer.number(now.since(contact.seen).as_secs());
        }
        writer.0
    }

    /// Hears of all that a peer knows.
    pub(super) fn read(&mut self, bytes: &[u8], now: Timestamp) -> Result<Told, Unreadable> {
        let mut reader = Reader(bytes);
        let mut told = Told::default();
        for _ in 0..reader.count(self.most.saturating_mul(2))? {
            let id = NodeId::new(reader.text(LONGEST_NAME)?);
            let generation = Generation(reader.number()?);
            let address: SocketAddr = reader.text(64)?.parse().map_err(|_| Unreadable)?;
            let age = Duration::from_secs(reader.number()?);
            if age < FORGOTTEN_AFTER && !id.as_str().is_empty() {
                let age = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
                let seen = Timestamp::from_nanos(now.as_nanos().saturating_sub(age));
                if id == self.me {
                    told.own_run = told.own_run.max(Some(generation));
                }
                told.is_news |= self.hear(&Member { id, generation }, address, seen, now);
            }
        }
        Ok(Told { beside: reader.0.len(), ..told })
    }
}

#[cfg(test)]
mod tests;
