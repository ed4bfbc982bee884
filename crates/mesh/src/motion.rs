//! One proposed view and what its voters said to it. The voters are the members of the
//! view before it, the dead aside, because they are the ones who would begin windows
//! in that one. Each says up to two things, and never takes one back:
//!
//! - *consent*: "I begin no window from the fence on before this is decided";
//! - then either *seen*: "I have seen that all consent", or *released*: "I have not, and no longer look".
//!
//! It is agreed once more than half have seen it, and given up once the others can no
//! longer become that many. Everything is a set that only grows, so what nodes tell each
//! other may be lost, repeated and reordered. Each voter speaks for itself alone: nobody
//! can make up what another said.

use crate::member::Member;
use crate::view::View;
use hivemind_core::Timestamp;

/// Voters, as the bits of their places in [`Motion::voters`].
pub(crate) type Voters = u128;
/// Who consents, who has seen that all do, and who released.
pub type Votes = (Voters, Voters, Voters);

/// A proposed view and its votes, as far as this node has heard of them.
#[derive(Clone, Debug)]
pub(crate) struct Motion {
    pub(crate) view: View,
    pub(crate) voters: Box<[Member]>,
    pub(crate) consents: Voters,
    pub(crate) seen: Voters,
    pub(crate) released: Voters,
    /// When this node first heard of it.
    pub(crate) since: Timestamp,
    /// Voters that spoke of it, so that they have it.
    pub(crate) known: Voters,
}

/// What became of a motion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Agreed,
    GivenUp,
}

impl Motion {
    pub(crate) fn new(view: View, base: &View, since: Timestamp) -> Self {
        let voters = base.members.iter().filter(|member| !view.gone.contains(member)).cloned().collect();
        Self { view, voters, consents: 0, seen: 0, released: 0, since, known: 0 }
    }

    /// The bit of a voter; nothing for who is none.
    pub(crate) fn bit(&self, member: &Member) -> Voters {
        self.voters.iter().position(|voter| voter == member).map_or(0, |place| 1 << place)
    }

    fn all(&self) -> Voters {
        match self.voters.len() {
            View::MOST_MEMBERS.. => Voters::MAX,
            count => (1 << count) - 1,
        }
    }

    /// Takes over what a peer has heard. Says whether that was news.
    pub(crate) fn merge(&mut self, consents: Voters, seen: Voters, released: Voters) -> bool {
        let before = (self.consents, self.seen, self.released);
        let all = self.all();
        self.consents |= consents & all;
        self.seen |= seen & all;
        self.released |= released & all;
        before != (self.consents, self.seen, self.released)
    }

    pub(crate) fn all_consent(&self) -> bool {
        self.consents == self.all()
    }

    /// What one voter says, as far as it is known here.
    pub(crate) fn said_by(&self, member: &Member) -> Votes {
        let bit = self.bit(member);
        (self.consents & bit, self.seen & bit, self.released & bit)
    }

    /// Whether it can only end by the word of voters of which `is_dead` says that they will not give it.
    pub(crate) fn hangs(&self, is_dead: impl Fn(&Member) -> bool) -> bool {
        let said = self.seen | self.released;
        let mut silent = self.voters.iter().enumerate().filter(|(place, _)| said & (1 << place) == 0);
        self.fate() == Fate::Open && silent.all(|(_, voter)| is_dead(voter))
    }

    pub(crate) fn fate(&self) -> Fate {
        // Seen and released exclude each other on each voter, so both of these cannot be reached,
        // and once every voter has said one of them, one of these is.
        let voters = u32::try_from(self.voters.len()).unwrap_or(u32::MAX);
        let majority = voters / 2 + 1;
        if self.seen.count_ones() >= majority {
            Fate::Agreed
        } else if self.released.count_ones() > voters.saturating_sub(majority) {
            Fate::GivenUp
        } else {
            Fate::Open
        }
    }
}
