//! A proposed view and its votes. The voters are the living members of the previous view, because they would
//! begin windows in that one. Each casts up to two votes, and never takes one back:
//!
//! - *consent*: "I begin no window from `effective_at` on before this is decided";
//! - then either *seen*: "I have seen that all consent", or *released*: "I have not, and no longer look".
//!
//! A proposal is agreed once more than half have seen it, and given up once the others can no longer become that
//! many. Everything is a set that only grows, so messages may be lost, repeated and reordered. Each voter sends
//! only its own votes: no node can forge the votes of another.

use crate::view::Member;
use crate::view::View;
use hivemind_core::Timestamp;

/// Voters, as the bits of their places in [`Proposal::voters`].
pub(crate) type Voters = u128;
/// The voters that consent, that have seen that all do, and that released.
pub type Votes = (Voters, Voters, Voters);

/// A proposed view and its votes, as far as this node has received them.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub(crate) view: View,
    pub(crate) voters: Box<[Member]>,
    pub(crate) consents: Voters,
    pub(crate) seen: Voters,
    pub(crate) released: Voters,
    /// When this node first received it.
    pub(crate) since: Timestamp,
    /// Voters that sent a message about it, so that they have it.
    pub(crate) known: Voters,
}

/// The result of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteResult {
    Open,
    Agreed,
    GivenUp,
}

impl Proposal {
    pub(crate) fn new(view: View, base: &View, since: Timestamp) -> Self {
        let voters = base.members.iter().filter(|member| !view.gone.contains(member)).cloned().collect();
        Self { view, voters, consents: 0, seen: 0, released: 0, since, known: 0 }
    }

    /// The bit of a voter; 0 for other members.
    pub(crate) fn bit(&self, member: &Member) -> Voters {
        self.voters.iter().position(|voter| voter == member).map_or(0, |place| 1 << place)
    }

    fn all(&self) -> Voters {
        match self.voters.len() {
            View::MOST_MEMBERS.. => Voters::MAX,
            count => (1 << count) - 1,
        }
    }

    /// Merges votes. Returns whether any was new.
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

    /// The votes of one voter, as far as they are known here.
    pub(crate) fn votes_of(&self, member: &Member) -> Votes {
        let bit = self.bit(member);
        (self.consents & bit, self.seen & bit, self.released & bit)
    }

    /// Whether only votes of dead voters, by `is_dead`, can end it.
    pub(crate) fn hangs(&self, is_dead: impl Fn(&Member) -> bool) -> bool {
        let cast = self.seen | self.released;
        let mut silent = self.voters.iter().enumerate().filter(|(place, _)| cast & (1 << place) == 0);
        self.result() == VoteResult::Open && silent.all(|(_, voter)| is_dead(voter))
    }

    pub(crate) fn result(&self) -> VoteResult {
        // Seen and released exclude each other on each voter, so both results cannot be reached, and once every
        // voter has cast one of the two votes, one of them is.
        let voters = u32::try_from(self.voters.len()).unwrap_or(u32::MAX);
        let majority = voters / 2 + 1;
        if self.seen.count_ones() >= majority {
            VoteResult::Agreed
        } else if self.released.count_ones() > voters.saturating_sub(majority) {
            VoteResult::GivenUp
        } else {
            VoteResult::Open
        }
    }
}
