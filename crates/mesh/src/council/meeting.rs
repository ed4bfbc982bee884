//! Views received from peers. The majority of the peers that this node receives frames from decides: one peer
//! alone neither puts this node into a view nor takes its mesh from it.

use super::{Council, Overlap};
use crate::chain::Chain;
use crate::handed::Handed;
use crate::member::{Generation, Member};
use crate::peers::Peers;
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;

/// How a received chain relates to this node's.
enum Kin {
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

fn kin(mine: &Chain, told: &Chain) -> Kin {
    let (head, first) = (mine.head(), told.oldest());
    if mine.root() != told.root() {
        return Kin::Foreign;
    }
    if mine.find(told.head().id()).is_some() || told.head().height < mine.oldest().height {
        return Kin::Known;
    }
    if first.base == Some(head.id()) || told.find(head.id()).is_some() {
        let later = told.iter().filter(|view| view.height > head.height);
        return Kin::Next(later.map(|view| View::clone(view)).collect());
    }
    if first.height > head.height.saturating_add(1) { Kin::Ahead } else { Kin::Forked }
}

impl Council {
    /// A peer sent its views. Returns whether this node adopts them.
    pub(crate) fn hear_chain(&mut self, now: Timestamp, peers: &Peers, told: Chain) -> bool {
        if self.is_over(&told, now, peers) {
            return false;
        }
        let Some(mine) = &self.chain else { return self.on_chain(told) };
        let joins = told.head().has(&self.me);
        let theirs = self.followers(told.head(), now, peers, |id| id == told.head().id());
        match kin(mine, &told) {
            Kin::Known => false,
            Kin::Next(later) => {
                let heard = self.followers(mine.head(), now, peers, |_| true);
                let ahead = |id: ViewId| later.iter().any(|view| view.id() == id);
                let moved = self.followers(mine.head(), now, peers, ahead);
                // A node enters a view with more than half of the reachable members of the last one, and leaves
                // one with half.
                let enough = match (joins, heard) {
                    (true, 0) => theirs * 2 > self.followers(told.head(), now, peers, |_| true),
                    (true, _) => moved * 2 > heard,
                    (false, _) => moved * 2 >= heard,
                };
                enough && self.on_chain(told)
            }
            Kin::Ahead => {
                let ours = self.followers(mine.head(), now, peers, |id| id == mine.head().id());
                let yields = theirs > ours || theirs == ours && theirs > 0 && !joins;
                let overlap = self.is_member().then(|| Overlap::Run(self.me.clone()));
                yields && self.yield_to(told, overlap)
            }
            Kin::Forked => {
                let weight = |chain: &Chain| (chain.head().height, chain.head().fence, chain.head().id());
                let (is_more, is_as_many) = self.compare(mine, theirs, now, peers);
                let yields = is_more || is_as_many && !joins && weight(&told) > weight(mine);
                let overlap = Overlap::Way(told.oldest().id());
                self.meet(told, overlap, yields)
            }
            Kin::Foreign => {
                let older = told.root() < mine.root();
                let (is_more, is_as_many) = self.compare(mine, theirs, now, peers);
                let overlap = Overlap::Mesh(told.root().id);
                self.meet(told, overlap, is_more || is_as_many && !joins && older)
            }
        }
    }

    /// Whether more members follow them than follow this node's view, itself included, or as many.
    fn compare(&self, mine: &Chain, theirs: usize, now: Timestamp, peers: &Peers) -> (bool, bool) {
        let head = mine.head();
        let ours = self.followers(head, now, peers, |id| id == head.id()) + usize::from(head.has(&self.me));
        (theirs > ours, theirs == ours)
    }

    /// How many members of a view, without this node, are reachable and have such a view as their newest.
    fn followers(&self, view: &View, now: Timestamp, peers: &Peers, is_it: impl Fn(ViewId) -> bool) -> usize {
        let others = view.members.iter().filter(|member| **member != self.me);
        others.filter(|member| peers.follows(member, now, &is_it)).count()
    }

    fn meet(&mut self, told: Chain, overlap: Overlap, yields: bool) -> bool {
        if yields {
            return self.yield_to(told, Some(overlap));
        }
        self.count_overlap(overlap);
        false
    }

    /// Replaces this node's views by others.
    fn yield_to(&mut self, told: Chain, overlap: Option<Overlap>) -> bool {
        if let Some(overlap) = overlap {
            self.count_overlap(overlap);
        }
        self.forget_all();
        self.chain = Some(told);
        true
    }

    /// Adopts views that are certain, without checking their followers.
    pub(crate) fn on_chain(&mut self, told: Chain) -> bool {
        let Some(mine) = &self.chain else {
            self.chain = Some(told);
            self.version += 1;
            return true;
        };
        let Kin::Next(later) = kin(mine, &told) else { return false };
        let version = self.version;
        for view in later {
            self.adopt(view);
        }
        self.version > version
    }

    /// A generation of a peer sent a frame at that time. If a view active by then declares it dead, two views
    /// were active. Frames sent earlier may arrive later.
    pub(crate) fn hear_run(&mut self, member: &Member, at: Timestamp) {
        let views = self.chain.iter().flat_map(Chain::iter);
        if views.into_iter().any(|view| view.fence <= at && view.gone.contains(member)) {
            self.count_overlap(Overlap::Run(member.clone()));
        }
    }

    fn forget_all(&mut self) {
        self.chain = None;
        self.motions.clear();
        self.bound.clear();
        (self.carried, self.void, self.floor) = (None, None, None);
        (self.latest_begun, self.differs_since) = (None, None);
        (self.passed, self.handed) = (Timestamp::EPOCH, Handed::default());
        (self.failed, self.rests_until) = (0, None);
        self.version += 1;
        self.upheavals += 1;
    }

    /// Whether the newest view has no living members: a next one could never be agreed.
    fn is_over(&self, chain: &Chain, now: Timestamp, peers: &Peers) -> bool {
        chain.head().members.iter().all(|member| self.is_dead(member, now, peers))
    }

    /// Guests of a mesh whose members are all dead look for another one, or found it.
    pub(super) fn leave_the_dead(&mut self, now: Timestamp, peers: &Peers) {
        if self.chain.as_ref().is_some_and(|chain| self.is_over(chain, now, peers)) {
            self.forget_all();
            self.started = now;
        }
    }

    /// Takes a larger generation, since peers know a larger one of its name and ignore this one. A member is
    /// identified by its generation, so only guests and nodes without a mesh do this.
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
        if self.chain.is_some() || now.since(self.started) < wait || self.leaving {
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
        if self.chain.is_none() {
            let view = View::founded(self.me.clone(), now);
            self.chain = Some(Chain::founded(view, now));
            self.version += 1;
        }
    }
}
