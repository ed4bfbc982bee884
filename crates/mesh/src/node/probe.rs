//! Access for simulators: puts a node into a view without a vote, reads what it could spend, and fingerprints
//! its state.

use super::{LocalCounters, Node};
use crate::counter::counter_window::{CounterWindow, Side};
use crate::counter::fast_path_entry::FastPathEntry;
use crate::frame::codec::read_header;
use crate::view::Member;
use crate::view::View;
use crate::view::view_log::ViewLog;
use hivemind_core::store::{Key, MemoryStore, StoreOptions};
use hivemind_core::{Limit, Timestamp};
use siphasher::sip128::{Hasher128, SipHasher13};
use std::fmt::Write;
use std::hash::Hasher;
use std::sync::Arc;

/// A copy starts with empty local counters: they are not part of the model.
impl Clone for LocalCounters {
    fn clone(&self) -> Self {
        Self(Arc::new(MemoryStore::new(StoreOptions::default())))
    }
}

/// A text sink that only keeps a hash.
struct Digest(SipHasher13);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Node {
    /// Puts the node into a view without a vote: for simulations that are not about votes.
    #[doc(hidden)]
    pub fn join_view(&mut self, view_log: ViewLog, members: &[Member], now: Timestamp) {
        let head = view_log.head().id();
        self.membership.adopt_view_log(view_log);
        let others: Vec<&Member> = members.iter().filter(|member| **member != self.membership.me).collect();
        for member in others {
            self.meet(member.id.clone());
            self.peers.hear(member, now, Some(head), false);
            if let Some(link) = self.links.get_mut(&member.id) {
                link.generation = member.generation;
            }
        }
    }

    /// The node receives a proposed view, and votes.
    #[doc(hidden)]
    pub fn vote_on(&mut self, view: &View, now: Timestamp) {
        self.membership.on_proposal(now, &self.peers, view.clone(), (0, 0, 0));
    }

    /// Whether it waits for the end of a vote.
    #[doc(hidden)]
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.membership
            .proposals()
            .iter()
            .any(|proposal| proposal.consents & proposal.bit(&self.membership.me) != 0)
    }

    /// The node receives the result of a vote.
    #[doc(hidden)]
    pub fn learn(&mut self, view_log: ViewLog, now: Timestamp) {
        self.membership.adopt_view_log(view_log);
        self.views_may_have_changed(now);
    }

    /// What this node alone could spend at once of one window.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Timestamp, store::Key};
    /// # use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
    /// # let (now, limit) = (Timestamp::from_millis(1_700_000_000_000), Limit::fixed_window(2, Period::MINUTE));
    /// let nodes = mesh_nodes(3, &MeshOptions::default(), now);
    /// let window = now.as_nanos() / limit.period().nanos();
    /// let all: u64 = nodes.iter().map(|node| node.spendable((Key::from_bits(7, 11), &limit, window), now)).sum();
    /// assert!(all <= 2); // Never more than the limit in total.
    /// ```
    #[must_use]
    pub fn spendable(&self, (key, limit, tag): (Key, &Limit, u64), now: Timestamp) -> u64 {
        // On copies: reading a window begins it.
        let (mut copied, mut membership) = (self.table.clone(), self.membership.clone());
        let counter = copied.open(&mut membership, &self.options, (key, limit, tag), now).ok();
        let Some(mut counter) = counter else { return 0 };
        match counter.window(tag).map(|window| &window.side) {
            Some(Side::Ledger(ledger)) => ledger.left(limit, CounterWindow::moment(tag, limit, now)),
            Some(Side::Lease(lease)) => u64::try_from(lease.unspent()).unwrap_or(0),
            None => 0,
        }
    }

    /// What it holds of one window and has not spent; none if the window cannot be opened here.
    #[doc(hidden)]
    #[must_use]
    pub fn unspent(&mut self, (key, limit, tag): (Key, &Limit, u64), now: Timestamp) -> Option<i64> {
        let mut counter =
            self.table.open(&mut self.membership, &self.options, (key, limit, tag), now).ok()?;
        counter.window(tag).map(|window| window.unspent(limit, now))
    }

    /// A hash of all state that affects its behavior: two nodes with equal hashes behave alike from here on,
    /// provided that no peer is ever silent and demand is too low to request ahead. Times of last contact and
    /// use, and statistics, are left out.
    #[doc(hidden)]
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        let mut digest = Digest(SipHasher13::new());
        // Writing to a hash does not fail.
        let _ = self.write_state(&mut digest);
        digest.0.finish128().as_u128()
    }

    fn write_state(&self, to: &mut Digest) -> std::fmt::Result {
        let Self { membership, peers, table, links, asks, waiting, parked, .. } = self;
        write!(to, "{membership:?}{links:?}{asks:?}{waiting:?}{parked:?}")?;
        write!(to, "{:?}{:?}{:?}", self.next_number, self.synced, self.version)?;
        for (id, peer) in peers.iter() {
            write!(to, "{id}{:?}{:?}{}", peer.generation, peer.head, peer.leaving)?;
        }
        // On a copy: flushes fast-path entries first.
        let mut counters = table.counters.clone();
        counters.retain(|_| true);
        for shard in counters.shards().each() {
            write!(to, "{:?}", shard.queued)?;
            for FastPathEntry { key, counter, queued, .. } in &shard.entries {
                write!(to, "{key:?}{:?}{:?}{:?}{queued}", counter.limit(), counter.source, counter.asked)?;
                for window in &counter.windows {
                    write!(to, "{}{:?}{:?}", window.tag, window.view.id(), window.side)?;
                }
            }
        }
        Ok(())
    }
}

/// Whether a frame contains messages about counters, and not only about views or nothing.
#[must_use]
pub fn is_about_counters(frame: &[u8]) -> bool {
    let kind = read_header(frame).ok().and_then(|(_, rest)| rest.0.first().map(|kind| kind & 0x0f));
    kind.is_some_and(|kind| kind > 2)
}
