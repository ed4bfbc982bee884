//! How peers agree on their members: no leader, no clock that must be right, and never
//! two views for one window among those that vote.
//!
//! Any member may propose the next view, with a fence some time ahead. Every member of
//! the present view must consent, the dead aside; who consented begins no window from
//! the fence on until it knows how the vote ended (docs/decisions/012). So a node that is
//! cut off in the middle of a vote has nothing to begin a window with, and one that is
//! cut off at another time stops the others from changing the view, and keeps its share.

use crate::chain::Chain;
#[cfg(test)]
use crate::chain::Root;
use crate::member::Member;
use crate::motion::{Fate, Motion, Voters};
use crate::peers::Peers;
use crate::rules::Rules;
use crate::view::{Round, View, ViewId};
use hivemind_core::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Proposals for one view that are remembered at once; more are not listened to.
const MOST_MOTIONS: usize = 8;

/// How views come about.
#[derive(Clone, Debug)]
pub struct CouncilOptions {
    /// How far ahead a fence is proposed.
    pub fence_lead: Duration,
    /// How long a vote may take before a voter releases it.
    pub patience: Duration,
    /// How long the members wait for each other to propose: the second by name waits once, the third twice.
    pub stagger: Duration,
    /// After which silence a peer counts as unreachable.
    pub staleness: Duration,
    /// After which silence a peer that discovery no longer knows counts as dead.
    pub dead_after: Duration,
    /// How long to look for a mesh before founding one; never if there is none.
    pub found_after: Option<Duration>,
    /// The most members of a view.
    pub most_members: usize,
}

impl Default for CouncilOptions {
    fn default() -> Self {
        Self {
            fence_lead: Duration::from_secs(2),
            patience: Duration::from_millis(1_500),
            stagger: Duration::from_millis(500),
            staleness: Duration::from_millis(500),
            dead_after: Duration::from_secs(3),
            found_after: Some(Duration::from_secs(3)),
            most_members: 100,
        }
    }
}

/// What this node knows of views, and what it promised.
#[derive(Clone, Debug)]
pub(crate) struct Council {
    pub(crate) me: Member,
    options: CouncilOptions,
    started: Timestamp,
    chain: Option<Chain>,
    motions: Vec<Motion>,
    /// The motion this node consented to and that is not decided yet.
    bound: Option<ViewId>,
    /// No motion of this round or an earlier one will be consented to any more.
    floor: Option<Round>,
    /// The start of the latest window that was begun here: no fence may come before it.
    latest_begun: Option<Timestamp>,
    /// Since when the members are others than those of the view.
    differs_since: Option<Timestamp>,
    pub(crate) leaving: bool,
    pub(crate) rules: Rules,
    /// How often two views were found for the same windows.
    pub(crate) overlaps: u64,
    /// Counts up whenever the chain changes, so that others need not compare it.
    pub(crate) version: u64,
    /// Counts up whenever a vote binds this node: nothing is settled from its fence on.
    pub(crate) bindings: u64,
    /// Counts up whenever the chain is given up for another: what was held under it is void.
    pub(crate) upheavals: u64,
}

/// The view that a window began in, as far as this node may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// In this view.
    In(Arc<View>),
    /// Not known, or not decided yet.
    Unknown,
}

impl Council {
    pub(crate) fn new(me: Member, options: CouncilOptions, now: Timestamp) -> Self {
        Self {
            me,
            options,
            started: now,
            chain: None,
            motions: Vec::new(),
            bound: None,
            floor: None,
            latest_begun: None,
            differs_since: None,
            leaving: false,
            rules: Rules::default(),
            overlaps: 0,
            version: 0,
            bindings: 0,
            upheavals: 0,
        }
    }

    pub(crate) fn chain(&self) -> Option<&Chain> {
        self.chain.as_ref()
    }

    pub(crate) fn head(&self) -> Option<&Arc<View>> {
        self.chain.as_ref().map(Chain::head)
    }

    pub(crate) fn motions(&self) -> &[Motion] {
        &self.motions
    }

    /// Whether this run of this node is a member of the newest view.
    pub(crate) fn is_member(&self) -> bool {
        self.head().is_some_and(|head| head.has(&self.me))
    }

    /// The view that a window which starts at `start` begins in. Asking begins it: no
    /// fence is consented to any more that would put it into another.
    pub(crate) fn begin(&mut self, start: Timestamp) -> Begun {
        let undecided = self.motion_bound().is_some_and(|motion| motion.view.fence <= start);
        if undecided {
            return Begun::Unknown;
        }
        let Some(view) = self.chain.as_ref().and_then(|chain| chain.at(start)) else { return Begun::Unknown };
        let view = Arc::clone(view);
        self.latest_begun = self.latest_begun.max(Some(start));
        Begun::In(view)
    }

    /// The view that holds now, for what has no windows; none while the vote on one that would hold is open.
    pub(crate) fn settled(&self, now: Timestamp) -> Option<&Arc<View>> {
        let undecided = self.motion_bound().is_some_and(|motion| motion.view.fence <= now);
        self.chain.as_ref().filter(|_| !undecided)?.at(now)
    }

    /// Where it is not known which of two views a window begins in, this node being in both: the members of the
    /// larger one. Its share there is its share in either.
    pub(crate) fn doubt(&self, start: Timestamp) -> Option<usize> {
        let next = &self.motion_bound().filter(|motion| motion.view.fence <= start)?.view;
        let last = self.head()?;
        let is_in_both = next.has(&self.me) && last.has(&self.me);
        is_in_both.then(|| next.members.len().max(last.members.len()))
    }

    /// The newest view whose fence has passed.
    pub(crate) fn current(&self, now: Timestamp) -> Option<&Arc<View>> {
        self.chain.as_ref()?.at(now)
    }

    /// Until when [`Council::current`] and [`Council::settled`] stay what they are at `now`, if nothing is heard.
    pub(crate) fn stays_until(&self, now: Timestamp) -> Timestamp {
        let views = self.chain.iter().flat_map(Chain::iter).map(|view| view.fence);
        // From the fence of a vote that is open on, nothing is settled.
        let bound = self.motion_bound().map(|motion| motion.view.fence);
        views.chain(bound).filter(|fence| *fence > now).min().unwrap_or(Timestamp::MAX)
    }

    /// Whether this run has owned `key` since that moment, as far back as is known.
    pub(crate) fn owned_since(
        &self,
        key: hivemind_core::store::Key,
        since: Timestamp,
        now: Timestamp,
    ) -> bool {
        let Some(chain) = &self.chain else { return false };
        for view in chain.iter().rev().filter(|view| view.fence <= now) {
            if view.owner(key) != Some(&self.me) {
                return false;
            }
            if view.fence <= since {
                return true;
            }
        }
        false
    }

    fn motion_bound(&self) -> Option<&Motion> {
        self.bound.and_then(|id| self.motions.iter().find(|motion| motion.view.id() == id))
    }

    /// What time alone brings about. Says whether there is something new to tell the peers.
    pub(crate) fn on_tick(&mut self, now: Timestamp, peers: &Peers) -> bool {
        self.found_if_alone(now, peers);
        let mut news = false;
        for index in 0..self.motions.len() {
            news |= self.vote(index, now, peers);
        }
        news |= self.settle();
        news | self.propose(now, peers)
    }

    /// A peer told a motion and the votes it heard of. Says whether there is news to tell on.
    pub(crate) fn on_motion(
        &mut self,
        now: Timestamp,
        peers: &Peers,
        view: View,
        votes: (Voters, Voters, Voters),
    ) -> bool {
        let Some(head) = self.head() else { return false };
        if view.base != Some(head.id()) || view.fence <= head.fence {
            return false;
        }
        let known = self.motions.iter().position(|motion| motion.view.id() == view.id());
        let index = match known {
            Some(index) => index,
            None if self.motions.len() < MOST_MOTIONS => {
                let mut motion = Motion::new(view, &Arc::clone(head), now);
                if self.floor.as_ref().is_some_and(|floor| motion.view.round <= *floor) {
                    // Either never heard of, or given up and dropped. What this node said then is
                    // forgotten, so it must not say now that it has seen anything.
                    motion.released |= motion.bit(&self.me);
                }
                self.motions.push(motion);
                self.motions.len() - 1
            }
            None => return false,
        };
        let (consents, seen, released) = votes;
        let Some(motion) = self.motions.get_mut(index) else { return false };
        let news = motion.merge(consents, seen, released);
        let told_more = self.vote(index, now, peers);
        self.settle() || told_more || news
    }

    /// Says to one motion what this node has to say, once it can. Says whether it did.
    fn vote(&mut self, index: usize, now: Timestamp, peers: &Peers) -> bool {
        let may_bind = self.bound.is_none();
        let (floor, begun) = (self.floor.clone(), self.latest_begun);
        let Some(motion) = self.motions.get_mut(index) else { return false };
        let bit = motion.bit(&self.me);
        if bit == 0 || motion.seen & bit != 0 || motion.released & bit != 0 {
            return false;
        }
        if motion.consents & bit == 0 {
            let in_time = motion.view.fence > now && Some(motion.view.fence) > begun;
            let is_later = floor.is_none_or(|floor| motion.view.round > floor);
            // Who hears one that is said to be dead knows better.
            let all_dead = motion.view.gone.iter().all(|member| !peers.is_heard(member, now));
            self.floor = self.floor.take().max(Some(motion.view.round.clone()));
            if may_bind && in_time && is_later && all_dead && motion.released == 0 {
                motion.consents |= bit;
                self.bound = Some(motion.view.id());
                self.bindings += 1; // What is settled ends at its fence from now on.
            } else {
                motion.released |= bit;
            }
            if motion.consents & bit == 0 || !motion.all_consent() {
                return true;
            }
        }
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

    /// Carries out what is decided. Says whether anything was.
    fn settle(&mut self) -> bool {
        let agreed = self.motions.iter().find(|motion| motion.fate() == Fate::Agreed);
        if let Some(view) = agreed.map(|motion| motion.view.clone()) {
            self.adopt(view);
            return true;
        }
        let given_up: Vec<ViewId> = self
            .motions
            .iter()
            .filter(|motion| motion.fate() == Fate::GivenUp)
            .map(|motion| motion.view.id())
            .collect();
        if self.bound.is_some_and(|bound| given_up.contains(&bound)) {
            self.bound = None;
            // The next attempt is not made at once: who failed together would fail together again.
            self.differs_since = None;
        }
        let before = self.motions.len();
        // What is given up is still told for a while, so that all voters get to know it: it is kept
        // until a later round is heard of, or the view changes.
        if before >= MOST_MOTIONS {
            self.motions.retain(|motion| motion.fate() == Fate::Open || Some(motion.view.id()) == self.bound);
        }
        false
    }

    fn adopt(&mut self, view: View) {
        let fence = view.fence;
        let was_taken_for_dead = view.gone.contains(&self.me);
        let Some(chain) = self.chain.as_mut() else { return };
        if !chain.append(view) {
            return;
        }
        if was_taken_for_dead && self.latest_begun.is_some_and(|begun| begun >= fence) {
            // Windows began here in the old view that began elsewhere in this one.
            self.overlaps += 1;
        }
        self.motions.clear();
        (self.bound, self.floor, self.differs_since) = (None, None, None);
        self.version += 1;
    }

    /// A peer told the views it knows.
    pub(crate) fn on_chain(&mut self, told: Chain) -> bool {
        let Some(mine) = &self.chain else {
            self.chain = Some(told);
            self.version += 1;
            return true;
        };
        if mine.root() != told.root() {
            return self.meet(told);
        }
        // What follows my newest view is adopted, view by view.
        let head = mine.head().id();
        if told.find(head).is_none() {
            let older = told.iter().all(|view| mine.find(view.id()).is_some());
            if older || mine.find(told.head().id()).is_some() {
                return false;
            }
            return self.diverge(told);
        }
        let later: Vec<View> =
            told.iter().skip_while(|view| view.id() != head).skip(1).map(|view| View::clone(view)).collect();
        let news = !later.is_empty();
        for view in later {
            self.adopt(view);
        }
        news
    }

    /// Two meshes meet that were founded apart: the younger one's nodes become guests of the older.
    fn meet(&mut self, told: Chain) -> bool {
        let older = self.chain.as_ref().is_some_and(|mine| told.root() < mine.root());
        if older {
            self.overlaps += 1;
            self.replace(told);
        }
        older
    }

    /// The same mesh took two ways, each side having taken the other for dead: the longer
    /// way stays, then the larger name.
    fn diverge(&mut self, told: Chain) -> bool {
        self.overlaps += 1;
        let weight = |chain: &Chain| (chain.head().members.len(), chain.head().fence, chain.head().id());
        let yields = self.chain.as_ref().is_some_and(|mine| weight(&told) > weight(mine));
        if yields {
            self.replace(told);
        }
        yields
    }

    fn replace(&mut self, told: Chain) {
        self.chain = Some(told);
        self.motions.clear();
        (self.bound, self.floor, self.differs_since, self.latest_begun) = (None, None, None, None);
        self.version += 1;
        self.upheavals += 1;
    }

    fn found_if_alone(&mut self, now: Timestamp, peers: &Peers) {
        let Some(wait) = self.options.found_after else { return };
        if self.chain.is_some() || now.since(self.started) < wait || self.leaving {
            return;
        }
        // Of those that look for a mesh together, the first by name founds it.
        let first = peers.heard(now).all(|(id, _)| self.me.id < *id);
        if first {
            self.found(now);
        }
    }

    /// Founds a mesh of this node alone, if it knows of none.
    pub(crate) fn found(&mut self, now: Timestamp) {
        if self.chain.is_none() {
            let view = View::founded(self.me.clone(), now);
            self.chain = Some(Chain::founded(view, now));
            self.version += 1;
        }
    }

    /// Who should be in the next view, and who of this one is dead.
    fn wanted(&self, head: &View, now: Timestamp, peers: &Peers) -> (Vec<Member>, Vec<Member>) {
        let (mut members, mut gone) = (Vec::new(), Vec::new());
        for member in &head.members {
            if *member == self.me {
                if !self.leaving {
                    members.push(member.clone());
                }
            } else if peers.is_dead(member, now, self.options.dead_after) {
                gone.push(member.clone());
            } else if !peers.is_leaving(member) {
                members.push(member.clone());
            }
        }
        for (id, generation) in peers.joining(now) {
            let newcomer = Member { id: id.clone(), generation };
            let in_it = members.iter().any(|member| member.id == newcomer.id);
            if !in_it && members.len() < self.options.most_members.min(View::MOST_MEMBERS) {
                members.push(newcomer);
            }
        }
        members.sort_unstable();
        (members, gone)
    }

    fn propose(&mut self, now: Timestamp, peers: &Peers) -> bool {
        let Some(head) = self.head().map(Arc::clone) else { return false };
        if self.bound.is_some() || !head.has(&self.me) {
            return false;
        }
        let (members, gone) = self.wanted(&head, now, peers);
        if *members == *head.members || members.is_empty() {
            self.differs_since = None;
            return false;
        }
        let since = *self.differs_since.get_or_insert(now);
        let voters = || head.members.iter().filter(|member| !gone.contains(member) && **member != self.me);
        // A vote that one of them cannot hear of would only stop windows from beginning.
        if !voters().all(|member| peers.is_heard(member, now)) {
            return false;
        }
        let before_me = voters().filter(|member| member.id < self.me.id).count();
        let wait = self.options.stagger.saturating_mul(u32::try_from(before_me).unwrap_or(u32::MAX));
        if now.since(since) < wait {
            return false;
        }
        let number = self.floor.as_ref().map_or(1, |floor| floor.number.saturating_add(1));
        let round = Round { number, proposer: self.me.id.clone() };
        let ahead = now.saturating_add(self.options.fence_lead);
        let after_all = self.latest_begun.max(Some(head.fence)).unwrap_or(head.fence);
        let fence = ahead.max(after_all.saturating_add(Duration::from_nanos(1)));
        let view = View::new(Some(head.id()), fence, round, members, gone);
        self.motions.retain(|motion| motion.fate() == Fate::Open);
        if self.motions.len() >= MOST_MOTIONS {
            return false;
        }
        self.motions.push(Motion::new(view, &head, now));
        self.vote(self.motions.len() - 1, now, peers);
        self.settle();
        true
    }

    #[cfg(test)]
    pub(crate) fn root(&self) -> Option<&Root> {
        self.chain.as_ref().map(Chain::root)
    }
}

#[cfg(test)]
mod rivals;
#[cfg(test)]
mod tests;
