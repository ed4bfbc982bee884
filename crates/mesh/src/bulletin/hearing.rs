//! How a board listens to peers: how often they are asked and answered, how much of them is heard, and what of it is
//! believed. What is lost by that is counted, and told once a minute.

use super::Note;
use super::board::LONGEST;
use super::words::Word;
use crate::owner::NodeId;
use hivemind_core::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far ahead a word may be dated: what is said now outranks what anybody made up a minute ago.
const AHEAD: Duration = Duration::from_secs(60);
/// How far clocks may differ as to when a note ends.
const CLOCKS_DIFFER: Duration = Duration::from_secs(86_400);
/// How often somebody is asked what it knows, and how often one peer is answered, at most.
const EVERY: Duration = Duration::from_millis(500);
/// The most messages to one question: they share their queue with what nodes say of counters.
pub(super) const MOST_MESSAGES: usize = 16;
/// The most notes of one peer that are heard in a second.
pub(super) const MOST_HEARD: usize = 4_000;
/// The most peers of which that is remembered.
const MOST_PEERS: usize = 1_000;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Notes that were told to a node and that it does not have.
///
/// ```
/// use hivemind_mesh::{Board, NotesLost};
///
/// assert_eq!(Board::new(None).lost(), NotesLost::default()); // Nobody has told it anything.
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotesLost {
    /// They held, and were dropped because there were too many later ones.
    pub dropped: u64,
    /// Nobody can have said them, or their node's clock is off.
    pub unbelieved: u64,
    /// Their node told too many in a second. It tells them again.
    pub unheard: u64,
}

#[derive(Default)]
pub(super) struct Hearing {
    /// Who was last asked what it knows, and when.
    asked: Option<(NodeId, Timestamp)>,
    peers: BTreeMap<NodeId, Heard>,
    lost: NotesLost,
    /// When it was last told that something is lost.
    warned: Option<Timestamp>,
}

/// What is remembered of a peer.
#[derive(Default)]
struct Heard {
    answered: Option<Timestamp>,
    /// Since when notes of it are counted, and how many came.
    since: Timestamp,
    notes: usize,
}

/// Whether so long has passed. Apart either way: a clock that was set back must not silence anybody.
fn is_past(span: Duration, since: Timestamp, now: Timestamp) -> bool {
    Duration::from_nanos(now.as_nanos().abs_diff(since.as_nanos())) >= span
}

impl Hearing {
    /// Whether a peer that knows something else is asked for it. One at a time is: all of them have the same, as a
    /// rule. Not the same one twice in a row, unless nobody else has anything.
    pub(super) fn asks(&mut self, peer: &NodeId, now: Timestamp) -> bool {
        let is_due = self.asked.as_ref().is_none_or(|(last, when)| {
            let wait = if last == peer { EVERY * 2 } else { EVERY };
            // Rosters are told once a second, and not to the millisecond.
            is_past(wait.saturating_sub(EVERY / 10), *when, now)
        });
        if is_due {
            self.asked = Some((peer.clone(), now));
        }
        is_due
    }

    /// Whether a peer is answered what it lacks: whoever asks without end is answered now and then.
    pub(super) fn answers(&mut self, peer: &NodeId, now: Timestamp) -> bool {
        let heard = self.of(peer);
        let is_due = heard.answered.is_none_or(|last| is_past(EVERY, last, now));
        if is_due {
            heard.answered = Some(now);
        }
        is_due
    }

    /// The first messages of what a peer lacks. It asks again for the rest.
    pub(super) fn answer(lacking: &[(&[u8], &Note)]) -> Vec<Vec<u8>> {
        let mut messages = Word::notes(lacking.iter().copied());
        messages.truncate(MOST_MESSAGES);
        messages
    }

    /// What can be believed of what a peer says.
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
        // What has ended on its way is nobody's fault.
        notes.retain(|(_, note)| now < note.kept_until);
        self.lost.unheard += unheard as u64;
        self.lost.unbelieved += unbelieved as u64;
        if unbelieved > 0 && self.warns(now) {
            tracing::warn!(
                %peer,
                notes = unbelieved,
                remedy = "compare the clocks of this node and of its peers",
                "notes of a peer are not believed: they are dated ahead, or for too long"
            );
        }
        notes
    }

    /// So many that held had to make room.
    pub(super) fn dropped(&mut self, notes: usize, now: Timestamp) {
        self.lost.dropped += notes as u64;
        if notes > 0 && self.warns(now) {
            tracing::warn!(
                notes,
                remedy = "see `hivemind ctl blocks`, and take down what is not meant",
                "blocks ended before their time: peers have said so much since that there was no room for them"
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
    /// How many more notes of it are heard in this second.
    fn room(&mut self, now: Timestamp) -> usize {
        if is_past(SECOND, self.since, now) {
            (self.since, self.notes) = (now, 0);
        }
        MOST_HEARD.saturating_sub(self.notes)
    }
}

/// Whether a node can have said so.
fn is_believable(note: &Note, now: Timestamp) -> bool {
    let latest_ms = now.saturating_add(AHEAD).as_nanos() / 1_000_000;
    let last = now.saturating_add(LONGEST).saturating_add(CLOCKS_DIFFER);
    note.by.is_some()
        && note.written_ms <= latest_ms
        && note.until.max(note.kept_until) <= last
        && (note.is_down || note.until <= note.kept_until)
}
