//! Views received from peers. The majority of the peers that this node receives frames from decides: one peer
//! alone neither puts this node into a view nor takes its mesh from it.

use super::{Membership, Overlap};
use crate::membership::handoff_log::HandoffLog;
use crate::membership::peers::Peers;
use crate::view::view_log::ViewLog;
use crate::view::{Generation, Member};
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;

/// How a received view log relates to this node's.
enum LogRelation {
    /// It contains nothing new.
    Known,
    /// It continues this node's newest view.
    Next(Vec<View>),
    /// It is of the same mesh, so far ahead that the views in between are forgotten.
    Ahead,
    /// The same mesh forked, each side having declared the other dead.
    Forked,
    /// Another mesh, founded separately.
    Foreign,
}

fn relation(mine: &ViewLog, received: &ViewLog) -> LogRelation {
    let (head, first) = (mine.head(), received.oldest());
    if mine.root() != received.root() {
        return LogRelation::Foreign;
    }
    if mine.find(received.head().id()).is_some() || received.head().height < mine.oldest().height {
        return LogRelation::Known;
    }
    if first.base == Some(head.id()) || received.find(head.id()).is_some() {
        let later = received.iter().filter(|view| view.height > head.height);
        return LogRelation::Next(later.map(|view| View::clone(view)).collect());
    }
    if first.height > head.height.saturating_add(1) { LogRelation::Ahead } else { LogRelation::Forked }
}

impl Membership {
    /// A peer sent its views. Returns whether this node adopts them.
    pub(crate) fn receive_view_log(&mut self, now: Timestamp, peers: &Peers, received: ViewLog) -> bool {
        if self.is_over(&received, now, peers) {
            return false;
        }
        let Some(mine) = &self.view_log else { return self.adopt_view_log(received) };
        let joins = received.head().has(&self.me);
        let theirs = self.followers(received.head(), now, peers, |id| id == received.head().id());
        match relation(mine, &received) {
            LogRelation::Known => false,
            LogRelation::Next(later) => {
                let heard = self.followers(mine.head(), now, peers, |_| true);
                let ahead = |id: ViewId| later.iter().any(|view| view.id() == id);
                let moved = self.followers(mine.head(), now, peers, ahead);
                // A node enters a view with more than half of the reachable members of the last one, and leaves
                // one with half.
                let enough = match (joins, heard) {
                    (true, 0) => theirs * 2 > self.followers(received.head(), now, peers, |_| true),
                    (true, _) => moved * 2 > heard,
                    (false, _) => moved * 2 >= heard,
                };
                enough && self.adopt_view_log(received)
            }
            LogRelation::Ahead => {
                let ours = self.followers(mine.head(), now, peers, |id| id == mine.head().id());
                let yields = theirs > ours || theirs == ours && theirs > 0 && !joins;
                let overlap = self.is_member().then(|| Overlap::Generation(self.me.clone()));
                yields && self.yield_to(received, overlap)
            }
            LogRelation::Forked => {
                let weight = |view_log: &ViewLog| {
                    (view_log.head().height, view_log.head().effective_at, view_log.head().id())
                };
                let (is_more, is_as_many) = self.compare(mine, theirs, now, peers);
                let yields = is_more || is_as_many && !joins && weight(&received) > weight(mine);
                let overlap = Overlap::Fork(received.oldest().id());
                self.meet(received, overlap, yields)
            }
            LogRelation::Foreign => {
                let older = received.root() < mine.root();
                let (is_more, is_as_many) = self.compare(mine, theirs, now, peers);
                let overlap = Overlap::Mesh(received.root().id);
                self.meet(received, overlap, is_more || is_as_many && !joins && older)
            }
        }
    }

    /// Whether more members follow them than follow this node's view, itself included, or as many.
    fn compare(&self, mine: &ViewLog, theirs: usize, now: Timestamp, peers: &Peers) -> (bool, bool) {
        let head = mine.head();
        let ours = self.followers(head, now, peers, |id| id == head.id()) + usize::from(head.has(&self.me));
        (theirs > ours, theirs == ours)
    }

    /// How many members of a view, without this node, are reachable and have such a view as their newest.
    fn followers(&self, view: &View, now: Timestamp, peers: &Peers, is_it: impl Fn(ViewId) -> bool) -> usize {
        let others = view.members.iter().filter(|member| **member != self.me);
        others.filter(|member| peers.follows(member, now, &is_it)).count()
    }

    fn meet(&mut self, received: ViewLog, overlap: Overlap, yields: bool) -> bool {
        if yields {
            return self.yield_to(received, Some(overlap));
        }
        self.count_overlap(overlap);
        false
    }

    /// Replaces this node's views by others.
    fn yield_to(&mut self, received: ViewLog, overlap: Option<Overlap>) -> bool {
        if let Some(overlap) = overlap {
            self.count_overlap(overlap);
        }
        self.forget_all();
        self.view_log = Some(received);
        true
    }

    /// Adopts views that are certain, without checking their followers.
    pub(crate) fn adopt_view_log(&mut self, received: ViewLog) -> bool {
        let Some(mine) = &self.view_log else {
            self.view_log = Some(received);
            self.version += 1;
            return true;
        };
        let LogRelation::Next(later) = relation(mine, &received) else { return false };
        let version = self.version;
        for view in later {
            self.adopt(view);
        }
        self.version > version
    }

    /// A generation of a peer sent a frame at that time. If a view active by then declares it dead, two views
    /// were active. Frames sent earlier may arrive later.
    pub(crate) fn record_generation(&mut self, member: &Member, at: Timestamp) {
        let views = self.view_log.iter().flat_map(ViewLog::iter);
        if views.into_iter().any(|view| view.effective_at <= at && view.gone.contains(member)) {
            self.count_overlap(Overlap::Generation(member.clone()));
        }
    }

    fn forget_all(&mut self) {
        self.view_log = None;
        self.proposals.clear();
        self.bound.clear();
        (self.carried, self.void, self.floor) = (None, None, None);
        (self.latest_begun, self.differs_since) = (None, None);
        (self.passed, self.handed) = (Timestamp::EPOCH, HandoffLog::default());
        (self.failed, self.rests_until) = (0, None);
        self.version += 1;
        self.upheavals += 1;
    }

    /// Whether the newest view has no living members: a next one could never be agreed.
    fn is_over(&self, view_log: &ViewLog, now: Timestamp, peers: &Peers) -> bool {
        view_log.head().members.iter().all(|member| self.is_dead(member, now, peers))
    }

    /// Observers of a mesh whose members are all dead look for another one, or found it.
    pub(super) fn leave_the_dead(&mut self, now: Timestamp, peers: &Peers) {
        if self.view_log.as_ref().is_some_and(|view_log| self.is_over(view_log, now, peers)) {
            self.forget_all();
            self.started = now;
        }
    }

    /// Takes a larger generation, since peers know a larger one of its name and ignore this one. A member is
    /// identified by its generation, so only observers and nodes without a mesh do this.
    pub(crate) fn renew(&mut self, generation: Generation, now: Timestamp) {
        self.me.generation = generation;
        self.forget_all();
        self.started = now;
    }

    /// When this node began to look for a mesh.
    pub(crate) fn seek_from(&mut self, moment: Timestamp) {
        self.started = moment;
    }

    pub(super) fn found_if_alone(&mut self, now: Timestamp, peers: &Peers) {
        let Some(wait) = self.options.found_after else { return };
        if self.view_log.is_some() || now.since(self.started) < wait || self.leaving {
            return;
        }
        // Of the nodes that look for a mesh together, the first by name founds it.
        let first = peers.heard(now).all(|(id, _)| self.me.id < *id);
        if first {
            self.found(now);
        }
    }

    /// Founds a mesh of this node alone, if it has none.
    pub(crate) fn found(&mut self, now: Timestamp) {
        if self.view_log.is_none() {
            let view = View::founded(self.me.clone(), now);
            self.view_log = Some(ViewLog::founded(view, now));
            self.version += 1;
        }
    }
}
