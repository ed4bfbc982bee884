//! The members of the next view, and when to propose it.

use super::Membership;
use super::vote::MOST_RESTS;
use crate::membership::peers::Peers;
use crate::view::Member;
use crate::view::proposal::{Proposal, VoteResult};
use crate::view::{Round, View};
use hivemind_core::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// The least time between two views: meanwhile the owners of buckets that move send levels to the next owners.
const APART: Duration = Duration::from_millis(250);

impl Membership {
    /// Whether a generation is over, as far as this node knows.
    pub(super) fn is_dead(&self, member: &Member, now: Timestamp, peers: &Peers) -> bool {
        let is_my_past = member.id == self.me.id && member.generation < self.me.generation;
        let is_me = *member == self.me;
        is_my_past || !is_me && peers.is_dead(member, now, self.options.dead_after)
    }

    /// The members that the next view should have, and the dead members of this one.
    fn wanted(&self, head: &View, now: Timestamp, peers: &Peers) -> (Vec<Member>, Vec<Member>) {
        let (mut members, mut gone) = (Vec::new(), Vec::new());
        for member in &head.members {
            if *member == self.me {
                if !self.leaving {
                    members.push(member.clone());
                }
            } else if self.is_dead(member, now, peers) {
                gone.push(member.clone());
            } else if !peers.is_leaving(member) {
                members.push(member.clone());
            }
        }
        for (id, peer) in peers.joining(now) {
            // An observer first: a node that follows another mesh, or cannot read this one, is not a member of it.
            let is_observer =
                peer.head.is_some_and(|head| self.view_log().is_some_and(|it| it.find(head).is_some()));
            let newcomer = Member { id: id.clone(), generation: peer.generation };
            let in_it = members.iter().any(|member| member.id == newcomer.id);
            let room = members.len() < self.options.most_members.min(View::MOST_MEMBERS);
            if is_observer && !in_it && room {
                members.push(newcomer);
            }
        }
        members.sort_unstable();
        (members, gone)
    }

    /// Whether the view would be empty if this node leaves, so that it need not wait for a next one.
    pub(crate) fn would_be_empty(&self, now: Timestamp, peers: &Peers) -> bool {
        self.head().is_some_and(|head| self.wanted(head, now, peers).0.is_empty())
    }

    pub(super) fn propose(&mut self, now: Timestamp, peers: &Peers) -> bool {
        let Some(head) = self.head().map(Arc::clone) else { return false };
        if !head.has(&self.me) || self.rests(now) {
            return false;
        }
        let (members, gone) = self.wanted(&head, now, peers);
        if *members == *head.members || members.is_empty() {
            self.differs_since = None;
            return false;
        }
        let since = *self.differs_since.get_or_insert(now);
        let voters = || head.members.iter().filter(|member| !gone.contains(member) && **member != self.me);
        // A vote that one of them cannot receive would only stop windows from beginning.
        if !voters().all(|member| peers.is_reachable(member, now)) || !self.may_try_again(&gone, now, peers) {
            return false;
        }
        let before_me = voters().filter(|member| member.id < self.me.id).count();
        let wait = self.options.stagger.saturating_mul(u32::try_from(before_me).unwrap_or(u32::MAX));
        if now.since(since) < wait {
            return false;
        }
        let number = self.floor.as_ref().map_or(1, |floor| floor.number.saturating_add(1));
        let round = Round { number, proposer: self.me.id.clone() };
        let ahead = peers.common_time(now).saturating_add(self.options.view_lead);
        let begun = self.latest_begun.unwrap_or(head.effective_at).saturating_add(Duration::from_nanos(1));
        let effective_at = ahead.max(begun).max(head.effective_at.saturating_add(APART));
        let view = View::new(Some(head.as_base()), effective_at, round, members, gone);
        self.proposals.retain(|proposal| proposal.result() == VoteResult::Open);
        self.make_room();
        self.proposals.push(Proposal::new(view, &head, now));
        self.vote(self.proposals.len() - 1, now, peers);
        self.settle(now);
        true
    }

    fn rests(&self, now: Timestamp) -> bool {
        // A clock that was set back does not extend the rest.
        let longest = self.options.stagger.saturating_mul(MOST_RESTS);
        self.rests_until.is_some_and(|until| until > now && until.since(now) <= longest)
    }

    /// Whether the votes that this node is bound to can only be abandoned: they depend on dead members, and no
    /// new node follows a view that it may have received from one of these.
    fn may_try_again(&self, gone: &[Member], now: Timestamp, peers: &Peers) -> bool {
        let bound = self.proposals.iter().filter(|proposal| self.bound.contains(&proposal.view.id()));
        bound.into_iter().all(|proposal| {
            let id = proposal.view.id();
            let newcomers = proposal.view.members.iter().filter(|member| !proposal.voters.contains(member));
            let asked = newcomers.filter(|member| !self.is_dead(member, now, peers));
            proposal.hangs(|voter| gone.contains(voter))
                && asked.into_iter().all(|member| peers.is_heard(member, now))
                && !peers.heard(now).any(|(_, peer)| peer.head == Some(id))
        })
    }
}
