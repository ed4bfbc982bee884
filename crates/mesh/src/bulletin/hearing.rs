//! Rate limits and validation of messages from peers: how often they are asked and answered, and how many of
//! their entries are accepted. Losses are counted and logged once a minute.

use super::Note;
use super::board::LONGEST;
use super::words::Word;
use crate::owner::NodeId;
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
pub(super) const MOST_HEARD: usize = 4_000;
/// The most peers with such state.
const MOST_PEERS: usize = 1_000;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Entries that were sent to a node and that it does not have.
///
/// ```
/// use hivemind_mesh::{Board, NotesLost};
///
/// assert_eq!(Board::new(None).lost(), NotesLost::default()); // It received nothing.
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotesLost {
    /// Active entries that were dropped because there were too many later ones.
    pub dropped: u64,
    /// Entries that are impossible, or whose node's clock is wrong.
    pub unbelieved: u64,
    /// Entries over a peer's limit per second. The peer sends them again.
    pub unheard: u64,
}

#[derive(Default)]
pub(super) struct Hearing {
    /// The peer whose content was last requested, and when.
    asked: Option<(NodeId, Timestamp)>,
    peers: BTreeMap<NodeId, Heard>,
    lost: NotesLost,
    /// When losses were last logged.
    warned: Option<Timestamp>,
}

/// State of one peer.
#[derive(Default)]
struct Heard {
    answered: Option<Timestamp>,
    /// Start of the current second, and how many entries arrived in it.
    since: Timestamp,
    notes: usize,
}

/// Whether this much time has passed in either direction: a clock that was set back must not block replies.
fn is_past(span: Duration, since: Timestamp, now: Timestamp) -> bool {
    Duration::from_nanos(now.as_nanos().abs_diff(since.as_nanos())) >= span
}

impl Hearing {
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
        let heard = self.of(peer);
        let is_due = heard.answered.is_none_or(|last| is_past(EVERY, last, now));
        if is_due {
            heard.answered = Some(now);
        }
        is_due
    }

    /// The first messages of what a peer lacks. It requests the rest again.
    pub(super) fn answer(lacking: &[(&[u8], &Note)]) -> Vec<Vec<u8>> {
        let mut messages = Word::notes(lacking.iter().copied());
        messages.truncate(MOST_MESSAGES);
        messages
    }

    /// The acceptable entries of a peer's message.
    pub(super) fn believed(
        &mut self,
        peer: &NodeId,
        mut notes: Vec<(Box<[u8]>, Note)>,
        now: Timestamp,
    ) -> Vec<(Box<[u8]>, Note)> {
        let room = self.of(peer).room(now);
        let unheard = notes.len().saturating_sub(room);
        notes.truncate(room);
        self.of(peer).notes += notes.len();
        let told = notes.len();
        notes.retain(|(_, note)| is_believable(note, now));
        let unbelieved = told - notes.len();
        // Entries that expired in transit are not an error.
        notes.retain(|(_, note)| now < note.kept_until);
        self.lost.unheard += unheard as u64;
        self.lost.unbelieved += unbelieved as u64;
        if unbelieved > 0 && self.warns(now) {
            tracing::warn!(
                %peer,
                notes = unbelieved,
                remedy = "compare the clocks of this node and of its peers",
                "rejected block entries of a peer: they are dated in the future, or last too long"
            );
        }
        notes
    }

    /// Counts active entries that were dropped.
    pub(super) fn dropped(&mut self, notes: usize, now: Timestamp) {
        self.lost.dropped += notes as u64;
        if notes > 0 && self.warns(now) {
            tracing::warn!(
                notes,
                remedy = "list the blocks with `hivemind ctl blocks`, and remove unwanted ones",
                "dropped active blocks: peers wrote too many later entries"
            );
        }
    }

    pub(super) fn lost(&self) -> NotesLost {
        self.lost
    }

    fn warns(&mut self, now: Timestamp) -> bool {
        let is_due = self.warned.is_none_or(|last| is_past(MINUTE, last, now));
        if is_due {
            self.warned = Some(now);
        }
        is_due
    }

    fn of(&mut self, peer: &NodeId) -> &mut Heard {
        if self.peers.len() >= MOST_PEERS && !self.peers.contains_key(peer) {
            self.peers.clear();
        }
        self.peers.entry(peer.clone()).or_default()
    }
}

impl Heard {
    /// How many more entries of it are accepted in this second.
    fn room(&mut self, now: Timestamp) -> usize {
        if is_past(SECOND, self.since, now) {
            (self.since, self.notes) = (now, 0);
        }
        MOST_HEARD.saturating_sub(self.notes)
    }
}

/// Whether a node can have written this.
fn is_believable(note: &Note, now: Timestamp) -> bool {
    let latest_ms = now.saturating_add(AHEAD).as_nanos() / 1_000_000;
    let last = now.saturating_add(LONGEST).saturating_add(CLOCKS_DIFFER);
    note.by.is_some()
        && note.written_ms <= latest_ms
        && note.until.max(note.kept_until) <= last
        && (note.is_down || note.until <= note.kept_until)
}
