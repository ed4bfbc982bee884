//! Rate limits and validation of messages from peers: how often they are asked and answered, and how many of
//! their entries are accepted. Losses are counted and logged once a minute.

use super::MapEntry;
use super::handle::LONGEST;
use super::message::MapMessage;
use crate::view::NodeId;
use hivemind_core::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far in the future a write may be dated: a present write outranks any invented a minute ago.
const AHEAD: Duration = Duration::from_secs(60);
/// How far clocks may differ about the end of an entry.
const CLOCKS_DIFFER: Duration = Duration::from_secs(86_400);
/// How often content is requested, and how often one peer gets a reply, at most.
const EVERY: Duration = Duration::from_millis(500);
/// The most messages per reply: they share a queue with counter updates.
pub(super) const MOST_MESSAGES: usize = 16;
/// The most entries of one peer that are accepted per second.
pub(super) const MOST_ACCEPTED: usize = 4_000;
/// The most peers with such state.
const MOST_PEERS: usize = 1_000;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Entries that were sent to a node and that it does not have.
///
/// ```
/// use hivemind_mesh::{MapHandle, LostEntries};
///
/// assert_eq!(MapHandle::new(None).lost(), LostEntries::default()); // It received nothing.
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostEntries {
    /// Active entries that were dropped because there were too many later ones.
    pub dropped: u64,
    /// Entries that are impossible, or whose node's clock is wrong.
    pub rejected: u64,
    /// Entries over a peer's limit per second. The peer sends them again.
    pub rate_limited: u64,
}

#[derive(Default)]
pub(super) struct MessageLimits {
    /// The peer whose content was last requested, and when.
    asked: Option<(NodeId, Timestamp)>,
    peers: BTreeMap<NodeId, PeerLimits>,
    lost: LostEntries,
    /// When losses were last logged.
    warned: Option<Timestamp>,
}

/// State of one peer.
#[derive(Default)]
struct PeerLimits {
    answered: Option<Timestamp>,
    /// Start of the current second, and how many entries arrived in it.
    since: Timestamp,
    entries: usize,
}

/// Whether this much time has passed in either direction: a clock that was set back must not block replies.
fn is_past(span: Duration, since: Timestamp, now: Timestamp) -> bool {
    Duration::from_nanos(now.as_nanos().abs_diff(since.as_nanos())) >= span
}

impl MessageLimits {
    /// Whether to request the content of a peer that differs. One at a time: as a rule all of them have the
    /// same. Not the same peer twice in a row, unless it is the only one.
    pub(super) fn asks(&mut self, peer: &NodeId, now: Timestamp) -> bool {
        let is_due = self.asked.as_ref().is_none_or(|(last, when)| {
            let wait = if last == peer { EVERY * 2 } else { EVERY };
            // Digests are sent once a second, but not to the millisecond.
            is_past(wait.saturating_sub(EVERY / 10), *when, now)
        });
        if is_due {
            self.asked = Some((peer.clone(), now));
        }
        is_due
    }

    /// Whether a peer gets a reply with what it lacks: endless requests are answered now and then.
    pub(super) fn answers(&mut self, peer: &NodeId, now: Timestamp) -> bool {
        let limits_of_peer = self.of(peer);
        let is_due = limits_of_peer.answered.is_none_or(|last| is_past(EVERY, last, now));
        if is_due {
            limits_of_peer.answered = Some(now);
        }
        is_due
    }

    /// The first messages of what a peer lacks. It requests the rest again.
    pub(super) fn answer(lacking: &[(&[u8], &MapEntry)]) -> Vec<Vec<u8>> {
        let mut messages = MapMessage::entries(lacking.iter().copied());
        messages.truncate(MOST_MESSAGES);
        messages
    }

    /// The acceptable entries of a peer's message.
    pub(super) fn accepted(
        &mut self,
        peer: &NodeId,
        mut entries: Vec<(Box<[u8]>, MapEntry)>,
        now: Timestamp,
    ) -> Vec<(Box<[u8]>, MapEntry)> {
        let room = self.of(peer).room(now);
        let rate_limited = entries.len().saturating_sub(room);
        entries.truncate(room);
        self.of(peer).entries += entries.len();
        let received = entries.len();
        entries.retain(|(_, entry)| is_acceptable(entry, now));
        let rejected = received - entries.len();
        // Entries that expired in transit are not an error.
        entries.retain(|(_, entry)| now < entry.kept_until);
        self.lost.rate_limited += rate_limited as u64;
        self.lost.rejected += rejected as u64;
        if rejected > 0 && self.warns(now) {
            tracing::warn!(
                %peer,
                entries = rejected,
                remedy = "compare the clocks of this node and of its peers",
                "rejected block entries of a peer: they are dated in the future, or last too long"
            );
        }
        entries
    }

    /// Counts active entries that were dropped.
    pub(super) fn dropped(&mut self, entries: usize, now: Timestamp) {
        self.lost.dropped += entries as u64;
        if entries > 0 && self.warns(now) {
            tracing::warn!(
                entries,
                remedy = "list the blocks with `hivemind ctl blocks`, and remove unwanted ones",
                "dropped active blocks: peers wrote too many later entries"
            );
        }
    }

    pub(super) fn lost(&self) -> LostEntries {
        self.lost
    }

    fn warns(&mut self, now: Timestamp) -> bool {
        let is_due = self.warned.is_none_or(|last| is_past(MINUTE, last, now));
        if is_due {
            self.warned = Some(now);
        }
        is_due
    }

    fn of(&mut self, peer: &NodeId) -> &mut PeerLimits {
        if self.peers.len() >= MOST_PEERS && !self.peers.contains_key(peer) {
            self.peers.clear();
        }
        self.peers.entry(peer.clone()).or_default()
    }
}

impl PeerLimits {
    /// How many more entries of it are accepted in this second.
    fn room(&mut self, now: Timestamp) -> usize {
        if is_past(SECOND, self.since, now) {
            (self.since, self.entries) = (now, 0);
        }
        MOST_ACCEPTED.saturating_sub(self.entries)
    }
}

/// Whether a node can have written this.
fn is_acceptable(entry: &MapEntry, now: Timestamp) -> bool {
    let latest_ms = now.saturating_add(AHEAD).as_nanos() / 1_000_000;
    let last = now.saturating_add(LONGEST).saturating_add(CLOCKS_DIFFER);
    entry.by.is_some()
        && entry.written_ms <= latest_ms
        && entry.until.max(entry.kept_until) <= last
        && (entry.is_removed || entry.until <= entry.kept_until)
}
