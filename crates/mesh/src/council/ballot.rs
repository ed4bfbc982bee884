//! What this node says to proposals, and what comes of them.

use super::Council;
use crate::member::Member;
use crate::motion::{Fate, Motion, Votes};
use crate::peers::Peers;
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;
use std::sync::Arc;

/// Proposals for one view that are remembered at once; an older one makes room for another.
pub(super) const MOST_MOTIONS: usize = 8;

impl Council {
    /// A voter told a motion and what it says to it itself: of others it has nothing to say. Says whether
    /// this node said something new.
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
        let bit = match self.motions.iter().find(|motion| motion.view.id() == id) {
            Some(known) => known.bit(from),
            None => Motion::new(view.clone(), head, now).bit(from),
        };
        if bit == 0 {
            return false;
        }
        let (consents, seen, released) = votes;
        let spoke = self.on_motion(now, peers, view, (consents & bit, seen & bit, released & bit));
        if let Some(motion) = self.motions.iter_mut().find(|motion| motion.view.id() == id) {
            motion.known |= bit;
        }
        spoke
    }

    /// A voter told what it says to a motion that is known here.
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

    /// A motion and votes on it that are sure. Says whether this node said something new.
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
                // Either never heard of, or given up and dropped. What this node said then is
                // forgotten, so it must not say now that it has seen anything.
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

    /// Whether a motion may be consented to by one that is bound to others: those hang on voters that this one
    /// takes for dead, and nobody that is heard has carried one of them out.
    fn may_abandon(&self, motion: &Motion, now: Timestamp, peers: &Peers) -> bool {
        self.bound.iter().all(|id| {
            let Some(other) = self.motions.iter().find(|other| other.view.id() == *id) else { return false };
            let carried = peers.heard(now).any(|(_, peer)| peer.head == Some(*id));
            let hangs = other.hangs(|voter| *voter == self.me || motion.view.gone.contains(voter));
            hangs && !carried
        })
    }

    /// Says to one motion what this node has to say, once it can. Says whether it did.
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
            // Who hears one that is said to be dead knows better.
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
                other.released |= bit; // It no longer looks.
            }
        }
        if let Some(motion) = self.motions.get_mut(index) {
            motion.consents |= motion.bit(&self.me);
            self.bound.push(motion.view.id());
            self.version += 1;
        }
    }

    /// Carries out what is decided. Says whether anything was.
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
            // The next attempt is not made at once: who failed together would fail together again,
            // and one whose proposals always fail lets others propose.
            self.differs_since = None;
            self.failed = self.failed.saturating_add(1);
            let rest = self.options.stagger.saturating_mul(self.failed.min(MOST_RESTS));
            self.rests_until = Some(now.saturating_add(rest));
            self.version += 1;
        }
        false
    }
}

/// The most times of its turn that a node waits after votes that came to nothing.
pub(super) const MOST_RESTS: u32 = 8;
