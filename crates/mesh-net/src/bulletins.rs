//! Bulletins on the wire: they go beside rosters, after whose end a node of an earlier version does not read on. What is
//! said here is told to everybody at once; whoever misses it hears by a number, once a second and with every new
//! connection, that there is something to ask for.

use super::host::Host;
use super::link::Link;
use super::lock;
use super::roster::Roster;
use hivemind_core::Timestamp;

impl Host {
    /// Tells everybody what was said here since the last time.
    pub(super) fn tell_notes(&self) {
        for words in self.board.take_news() {
            let told = [Roster::of_nobody(), words].concat();
            for link in self.links.list() {
                link.send_roster(&told);
            }
        }
    }

    /// A roster, if there is one to tell, and beside it whether there are notes.
    pub(super) fn with_digest(&self, roster: Option<Vec<u8>>, now: Timestamp) -> Option<Vec<u8>> {
        let Some(words) = self.board.digest(now) else { return roster };
        Some([roster.unwrap_or_else(Roster::of_nobody), words].concat())
    }

    /// What a peer hears first of all.
    pub(super) fn first_words(&self, now: Timestamp) -> Vec<u8> {
        let roster = lock(&self.roster).write(now);
        self.with_digest(Some(roster), now).unwrap_or_default()
    }

    /// Hears what a peer says beside its roster, and answers.
    pub(super) fn hear_notes(&self, link: &Link, words: &[u8], now: Timestamp) {
        let peer = &link.party.member.id;
        let Ok(answers) = self.board.hear(peer, words, now) else {
            return tracing::debug!(%peer, "what is said beside a roster cannot be read");
        };
        for answer in answers {
            link.send_roster(&[Roster::of_nobody(), answer].concat());
        }
    }
}
