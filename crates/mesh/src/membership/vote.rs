//! This node's votes on proposals, and their results.

use super::Membership;
use crate::membership::peers::Peers;
use crate::view::Member;
use crate::view::proposal::{Proposal, VoteResult, Votes};
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;
use std::sync::Arc;

/// The most remembered proposals for one view; an older one makes room for another.
pub(super) const MOST_PROPOSALS: usize = 8;

impl Membership {
    /// A voter sent a proposal and its own votes on it; its statements about other voters are ignored. Returns
    /// whether this node voted.
    ///
    /// Only voters receive proposals, and only they carry them out. A node that a proposal declares dead, or an
    /// observer, receives the view from the nodes that follow it. So a node cannot get a view agreed by
    /// declaring all other voters dead.
    pub(crate) fn receive_proposal(
        &mut self,
        now: Timestamp,
        peers: &Peers,
        from: &Member,
        view: View,
        votes: Votes,
    ) -> bool {
        let Some(head) = self.head().filter(|head| view.base == Some(head.id())) else { return false };
        let id = view.id();
        let bits = |proposal: &Proposal| (proposal.bit(from), proposal.bit(&self.me));
        let (bit, own) = match self.proposals.iter().find(|proposal| proposal.view.id() == id) {
            Some(known) => bits(known),
            None => bits(&Proposal::new(view.clone(), head, now)),
        };
        if bit == 0 || own == 0 {
            return false;
        }
        let (consents, seen, released) = votes;
        let has_voted = self.on_proposal(now, peers, view, (consents & bit, seen & bit, released & bit));
        if let Some(proposal) = self.proposals.iter_mut().find(|proposal| proposal.view.id() == id) {
            proposal.known |= bit;
        }
        has_voted
    }

    /// A voter sent its votes on a proposal that is known here.
    pub(crate) fn receive_vote(
        &mut self,
        now: Timestamp,
        peers: &Peers,
        from: &Member,
        view: ViewId,
        votes: Votes,
    ) -> bool {
        let known = self.proposals.iter().find(|proposal| proposal.view.id() == view);
        let Some(view) = known.map(|proposal| proposal.view.clone()) else { return false };
        self.receive_proposal(now, peers, from, view, votes)
    }

    /// A proposal and votes on it that are certain. Returns whether this node voted.
    pub(crate) fn on_proposal(&mut self, now: Timestamp, peers: &Peers, view: View, votes: Votes) -> bool {
        let Some(head) = self.head().map(Arc::clone) else { return false };
        let follows = view.base == Some(head.id()) && view.height == head.height.saturating_add(1);
        if !follows || view.effective_at <= head.effective_at {
            return false;
        }
        let known = self.proposals.iter().position(|proposal| proposal.view.id() == view.id());
        let index = known.unwrap_or_else(|| {
            let mut proposal = Proposal::new(view, &head, now);
            if self.floor.as_ref().is_some_and(|floor| proposal.view.round <= *floor) {
                // Either unknown until now, or given up and dropped. This node's earlier votes are forgotten,
                // so it must not vote that it has seen this proposal.
                proposal.released |= proposal.bit(&self.me);
            }
            self.make_room();
            self.proposals.push(proposal);
            self.proposals.len() - 1
        });
        let (consents, seen, released) = votes;
        if let Some(proposal) = self.proposals.get_mut(index) {
            proposal.merge(consents, seen, released);
        }
        let has_voted = self.vote(index, now, peers);
        self.settle(now) || has_voted
    }

    /// Drops the oldest proposal that this node is not bound to, if there are too many.
    pub(super) fn make_room(&mut self) {
        if self.proposals.len() < MOST_PROPOSALS {
            return;
        }
        let free = self.proposals.iter().position(|proposal| !self.bound.contains(&proposal.view.id()));
        if let Some(index) = free {
            self.proposals.remove(index);
        }
    }

    /// Whether this node may consent to a proposal while it is bound to others: those hang on voters that it
    /// considers dead, and no reachable peer has carried one of them out.
    fn may_abandon(&self, proposal: &Proposal, now: Timestamp, peers: &Peers) -> bool {
        self.bound.iter().all(|id| {
            let Some(other) = self.proposals.iter().find(|other| other.view.id() == *id) else {
                return false;
            };
            let carried = peers.heard(now).any(|(_, peer)| peer.head == Some(*id));
            let hangs = other.hangs(|voter| *voter == self.me || proposal.view.gone.contains(voter));
            hangs && !carried
        })
    }

    /// Votes on one proposal once it can. Returns whether it did.
    pub(super) fn vote(&mut self, index: usize, now: Timestamp, peers: &Peers) -> bool {
        let too_far = self.too_far(now, peers);
        let Some(proposal) = self.proposals.get(index) else { return false };
        let bit = proposal.bit(&self.me);
        if bit == 0 || proposal.seen & bit != 0 || proposal.released & bit != 0 {
            return false;
        }
        if proposal.consents & bit == 0 {
            let effective_at = proposal.view.effective_at;
            let in_time = effective_at > peers.common_time(now)
                && effective_at <= too_far
                && Some(effective_at) > self.latest_begun;
            let is_later = self.floor.as_ref().is_none_or(|floor| proposal.view.round > *floor);
            // A node that receives frames of a member knows that it is not dead.
            let all_dead = proposal.view.gone.iter().all(|member| !peers.is_heard(member, now));
            let is_free = self.may_abandon(proposal, now, peers);
            let consents = in_time && is_later && all_dead && is_free && proposal.released == 0;
            self.floor = self.floor.take().max(Some(proposal.view.round.clone()));
            if consents {
                self.bind(index);
            } else if let Some(proposal) = self.proposals.get_mut(index) {
                proposal.released |= bit;
            }
            if !consents || !self.proposals.get(index).is_some_and(Proposal::all_consent) {
                return true;
            }
        }
        let Some(proposal) = self.proposals.get_mut(index) else { return false };
        let out_of_patience = now.since(proposal.since) > self.options.patience;
        if proposal.all_consent() && proposal.released == 0 {
            proposal.seen |= bit;
        } else if out_of_patience || proposal.released != 0 {
            proposal.released |= bit;
        } else {
            return false;
        }
        true
    }

    fn bind(&mut self, index: usize) {
        for other in &mut self.proposals {
            let bit = other.bit(&self.me);
            if self.bound.contains(&other.view.id()) && other.seen & bit == 0 {
                other.released |= bit; // It stops waiting for the others.
            }
        }
        if let Some(proposal) = self.proposals.get_mut(index) {
            proposal.consents |= proposal.bit(&self.me);
            self.bound.push(proposal.view.id());
            self.version += 1;
        }
    }

    /// Carries out what is decided. Returns whether anything was.
    pub(super) fn settle(&mut self, now: Timestamp) -> bool {
        let abandoned = self.bound.split_last().map_or(&[][..], |(_, before)| before);
        let mut agreed = self.proposals.iter().filter(|proposal| proposal.result() == VoteResult::Agreed);
        let agreed = agreed.find(|proposal| !abandoned.contains(&proposal.view.id()));
        if let Some(view) = agreed.map(|proposal| proposal.view.clone()) {
            self.adopt(view);
            return true;
        }
        let before = self.bound.len();
        let proposals = &self.proposals;
        self.bound.retain(|id| {
            let proposal = proposals.iter().find(|proposal| proposal.view.id() == *id);
            proposal.is_some_and(|proposal| proposal.result() != VoteResult::GivenUp)
        });
        if self.bound.len() < before {
            // The next attempt is delayed: nodes that failed together would fail together again, and a node
            // whose proposals always fail lets others propose.
            self.differs_since = None;
            self.failed = self.failed.saturating_add(1);
            let rest = self.options.stagger.saturating_mul(self.failed.min(MOST_RESTS));
            self.rests_until = Some(now.saturating_add(rest));
            self.version += 1;
        }
        false
    }
}

/// The most times of its turn that a node waits after failed votes.
pub(super) const MOST_RESTS: u32 = 8;
