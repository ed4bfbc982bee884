//! This node's votes on proposals, and their results.

use super::Council;
use crate::member::Member;
use crate::motion::{Fate, Motion, Votes};
use crate::peers::Peers;
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;
use std::sync::Arc;

/// The most remembered proposals for one view; an older one makes room for another.
pub(super) const MOST_MOTIONS: usize = 8;

impl Council {
    /// A voter sent a motion and its own votes on it; its statements about other voters are ignored. Returns
    /// whether this node voted.
    ///
    /// Only voters receive motions, and only they carry them out. A node that a motion declares dead, or an
    /// observer, receives the view from the nodes that follow it. So a node cannot get a view agreed by
    /// declaring all other voters dead.
    pub(crate) fn hear_motion(
        &mut self,
        now: Timestamp,
        peers: &Peers,
        from: &Member,
        view: View,
        votes: Votes,
    ) -> bool {
        let Some(head) = self.head().filter(|head| view.base == Some(head.id())) else { return false };
        let id = view.id();
        let bits = |motion: &Motion| (motion.bit(from), motion.bit(&self.me));
        let (bit, own) = match self.motions.iter().find(|motion| motion.view.id() == id) {
            Some(known) => bits(known),
            None => bits(&Motion::new(view.clone(), head, now)),
        };
        if bit == 0 || own == 0 {
            return false;
        }
        let (consents, seen, released) = votes;
        let spoke = self.on_motion(now, peers, view, (consents & bit, seen & bit, released & bit));
        if let Some(motion) = self.motions.iter_mut().find(|motion| motion.view.id() == id) {
            motion.known |= bit;
        }
        spoke
    }

    /// A voter sent its votes on a motion that is known here.
    pub(crate) fn hear_vote(
        &mut self,
        now: Timestamp,
        peers: &Peers,
        from: &Member,
        view: ViewId,
        votes: Votes,
    ) -> bool {
        let known = self.motions.iter().find(|motion| motion.view.id() == view);
        let Some(view) = known.map(|motion| motion.view.clone()) else { return false };
        self.hear_motion(now, peers, from, view, votes)
    }

    /// A motion and votes on it that are certain. Returns whether this node voted.
    pub(crate) fn on_motion(&mut self, now: Timestamp, peers: &Peers, view: View, votes: Votes) -> bool {
        let Some(head) = self.head().map(Arc::clone) else { return false };
        let follows = view.base == Some(head.id()) && view.height == head.height.saturating_add(1);
        if !follows || view.fence <= head.fence {
            return false;
        }
        let known = self.motions.iter().position(|motion| motion.view.id() == view.id());
        let index = known.unwrap_or_else(|| {
            let mut motion = Motion::new(view, &head, now);
            if self.floor.as_ref().is_some_and(|floor| motion.view.round <= *floor) {
                // Either unknown until now, or given up and dropped. This node's earlier votes are forgotten,
                // so it must not state now that it has seen anything.
                motion.released |= motion.bit(&self.me);
            }
            self.make_room();
            self.motions.push(motion);
            self.motions.len() - 1
        });
        let (consents, seen, released) = votes;
        if let Some(motion) = self.motions.get_mut(index) {
            motion.merge(consents, seen, released);
        }
        let spoke = self.vote(index, now, peers);
        self.settle(now) || spoke
    }

    /// Drops the oldest motion that this node is not bound to, if there are too many.
    pub(super) fn make_room(&mut self) {
        if self.motions.len() < MOST_MOTIONS {
            return;
        }
        let free = self.motions.iter().position(|motion| !self.bound.contains(&motion.view.id()));
        if let Some(index) = free {
            self.motions.remove(index);
        }
    }

    /// Whether this node may consent to a motion while it is bound to others: those hang on voters that it
    /// considers dead, and no reachable peer has carried one of them out.
    fn may_abandon(&self, motion: &Motion, now: Timestamp, peers: &Peers) -> bool {
        self.bound.iter().all(|id| {
            let Some(other) = self.motions.iter().find(|other| other.view.id() == *id) else { return false };
            let carried = peers.heard(now).any(|(_, peer)| peer.head == Some(*id));
            let hangs = other.hangs(|voter| *voter == self.me || motion.view.gone.contains(voter));
            hangs && !carried
        })
    }

    /// Votes on one motion once it can. Returns whether it did.
    pub(super) fn vote(&mut self, index: usize, now: Timestamp, peers: &Peers) -> bool {
        let too_far = self.too_far(now, peers);
        let Some(motion) = self.motions.get(index) else { return false };
        let bit = motion.bit(&self.me);
        if bit == 0 || motion.seen & bit != 0 || motion.released & bit != 0 {
            return false;
        }
        if motion.consents & bit == 0 {
            let fence = motion.view.fence;
            let in_time =
                fence > peers.common_time(now) && fence <= too_far && Some(fence) > self.latest_begun;
            let is_later = self.floor.as_ref().is_none_or(|floor| motion.view.round > *floor);
            // A node that receives frames of a member knows that it is not dead.
            let all_dead = motion.view.gone.iter().all(|member| !peers.is_heard(member, now));
            let is_free = self.may_abandon(motion, now, peers);
            let consents = in_time && is_later && all_dead && is_free && motion.released == 0;
            self.floor = self.floor.take().max(Some(motion.view.round.clone()));
            if consents {
                self.bind(index);
            } else if let Some(motion) = self.motions.get_mut(index) {
                motion.released |= bit;
            }
            if !consents || !self.motions.get(index).is_some_and(Motion::all_consent) {
                return true;
            }
        }
        let Some(motion) = self.motions.get_mut(index) else { return false };
        let out_of_patience = now.since(motion.since) > self.options.patience;
        if motion.all_consent() && motion.released == 0 {
            motion.seen |= bit;
        } else if out_of_patience || motion.released != 0 {
            motion.released |= bit;
        } else {
            return false;
        }
        true
    }

    fn bind(&mut self, index: usize) {
        for other in &mut self.motions {
            let bit = other.bit(&self.me);
            if self.bound.contains(&other.view.id()) && other.seen & bit == 0 {
                other.released |= bit; // It stops waiting for the others.
            }
        }
        if let Some(motion) = self.motions.get_mut(index) {
            motion.consents |= motion.bit(&self.me);
            self.bound.push(motion.view.id());
            self.version += 1;
        }
    }

    /// Carries out what is decided. Returns whether anything was.
    pub(super) fn settle(&mut self, now: Timestamp) -> bool {
        let abandoned = self.bound.split_last().map_or(&[][..], |(_, before)| before);
        let mut agreed = self.motions.iter().filter(|motion| motion.fate() == Fate::Agreed);
        let agreed = agreed.find(|motion| !abandoned.contains(&motion.view.id()));
        if let Some(view) = agreed.map(|motion| motion.view.clone()) {
            self.adopt(view);
            return true;
        }
        let before = self.bound.len();
        let motions = &self.motions;
        self.bound.retain(|id| {
            let motion = motions.iter().find(|motion| motion.view.id() == *id);
            motion.is_some_and(|motion| motion.fate() != Fate::GivenUp)
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
