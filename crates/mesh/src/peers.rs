//! What this node hears of its peers: who spoke when, which run of them, how their clock
//! stands to ours, and what discovery says of them. Bounded: who is silent for long, unknown
//! to discovery and in no view is forgotten.

use crate::clock::{self, Exchanges, Sample};
use crate::frame::{Echo, Header};
use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::view::ViewId;
use hivemind_core::{Limit, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// After which silence a peer that is in no view and that discovery does not name is forgotten. Longer
/// than any frame is under way, since the number of its last run is forgotten with it.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The same where there is no discovery that could name it.
const FORGOTTEN_UNNAMED: Duration = Duration::from_secs(600);
/// A frame whose time is so far behind the last one's was not overtaken: its sender's clock was set back.
const SET_BACK: Duration = Duration::from_secs(5);
/// The most names of discovery that are remembered.
const MOST_NAMES: usize = 4_096;

/// One peer, as its last frames showed it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) generation: Generation,
    pub(crate) heard: Timestamp,
    /// What its clock showed in the newest of its frames, and ours when that came.
    time: Timestamp,
    arrived: Timestamp,
    /// How far its mesh clock is ahead of its own, and how far that is from ours.
    slew: i64,
    exchanges: Exchanges,
    pub(crate) head: Option<ViewId>,
    pub(crate) leaving: bool,
    /// When we last sent it anything, so that silence is broken in time.
    pub(crate) sent: Timestamp,
    /// When the first frame was sent that it has not said to have heard; none if it has heard all.
    unanswered: Option<Timestamp>,
    /// The newest view it was told of, and when.
    pub(crate) told: Option<(ViewId, Timestamp)>,
}

impl Peer {
    /// How far its mesh clock is ahead of ours, which is so far ahead of our own.
    pub(crate) fn offset(&self, slew: i64) -> Option<i64> {
        self.exchanges.best().map(|best| best.moved(slew, self.slew).offset)
    }

    /// The most that this is wrong by.
    pub(crate) fn doubt(&self) -> Duration {
        self.exchanges.best().map_or(Duration::ZERO, |best| Duration::from_nanos(best.trip / 2))
    }
}

/// All peers this node has heard of.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    all: BTreeMap<NodeId, Peer>,
    staleness: Duration,
    most: usize,
    /// The names that discovery knows; none if there is no discovery that could say who is gone.
    discovered: Option<BTreeSet<NodeId>>,
    /// The names that discovery knew once and no longer does.
    withdrawn: BTreeSet<NodeId>,
}

impl Peers {
    pub(crate) fn new(staleness: Duration, most: usize) -> Self {
        Self { all: BTreeMap::new(), staleness, most, discovered: None, withdrawn: BTreeSet::new() }
    }

    /// A frame came from a run of a peer. Says no if it is from an earlier run than one that was heard.
    pub(crate) fn hear_frame(&mut self, from: &NodeId, now: Timestamp, header: &Header) -> bool {
        let member = Member { id: from.clone(), generation: header.generation };
        let known = self.all.get(from).filter(|peer| peer.generation == header.generation);
        // A frame that was overtaken says nothing new of its sender but that it lives.
        let overtaken =
            known.is_some_and(|peer| header.time < peer.time && peer.time.since(header.time) < SET_BACK);
        let (head, time, arrived) = match known {
            Some(peer) if overtaken => (peer.head, peer.time, peer.arrived),
            _ => (header.head, header.time, now),
        };
        let is_news = self.hear(&member, now, head, header.leaving);
        if let Some(peer) = self.all.get_mut(from).filter(|_| is_news) {
            (peer.time, peer.arrived) = (time, arrived);
            peer.slew = if overtaken { peer.slew } else { header.slew_us.saturating_mul(1_000) };
        }
        is_news
    }

    /// A run of a peer was heard, and its newest view is this one.
    pub(crate) fn hear(
        &mut self,
        from: &Member,
        now: Timestamp,
        head: Option<ViewId>,
        leaving: bool,
    ) -> bool {
        if !self.all.contains_key(&from.id) && self.all.len() >= self.most {
            return false;
        }
        let peer = self.all.entry(from.id.clone()).or_insert(Peer {
            generation: from.generation,
            heard: now,
            time: now,
            arrived: now,
            slew: 0,
            exchanges: Exchanges::default(),
            head,
            leaving,
            sent: Timestamp::EPOCH,
            unanswered: None,
            told: None,
        });
        if from.generation < peer.generation {
            return false;
        }
        if from.generation > peer.generation {
            (peer.generation, peer.leaving) = (from.generation, leaving);
            (peer.unanswered, peer.told) = (None, None);
            (peer.slew, peer.exchanges) = (0, Exchanges::default());
        }
        // A run that leaves does not come back.
        peer.leaving |= leaving;
        (peer.heard, peer.time, peer.arrived, peer.head) = (peer.heard.max(now), now, now, head);
        true
    }

    /// A frame goes to a peer.
    pub(crate) fn send(&mut self, to: &NodeId, now: Timestamp) {
        if let Some(peer) = self.all.get_mut(to) {
            peer.sent = now;
            // A clock that was set back would wait for an answer from the future.
            peer.unanswered = Some(peer.unanswered.map_or(now, |first| first.min(now)));
        }
    }

    /// A peer said which is the newest frame of ours that it has heard.
    pub(crate) fn answered(&mut self, from: &NodeId, echo: Echo) {
        let micros = |moment: Timestamp| moment.as_nanos() / 1_000;
        if let Some(peer) = self.all.get_mut(from)
            && peer.unanswered.is_some_and(|first| micros(first) <= echo.time_us)
        {
            let has_all = echo.time_us >= micros(peer.sent);
            peer.unanswered = (!has_all).then_some(peer.sent);
        }
    }

    /// Compares clocks with a peer that said when it heard which frame of ours. Our mesh clock is so far ahead of our own.
    pub(crate) fn compare(&mut self, from: &NodeId, now: Timestamp, header: &Header, slew: i64) {
        let (Some(peer), Some(echo)) = (self.all.get_mut(from), header.echo) else { return };
        let spoke = Timestamp::from_nanos(echo.time_us.saturating_mul(1_000));
        let held = Duration::from_micros(echo.held_us);
        if let Some(sample) = Sample::of(spoke, held, header.time, now) {
            let theirs = header.slew_us.saturating_mul(1_000);
            peer.exchanges.hear(sample.moved(slew.saturating_neg(), theirs.saturating_neg()));
        }
    }

    /// The newest frame of this run of a peer, to be told to it.
    pub(crate) fn echo(&self, id: &NodeId, generation: Generation, now: Timestamp) -> Option<Echo> {
        let peer = self.all.get(id).filter(|peer| peer.generation == generation)?;
        let held_us = u64::try_from(now.since(peer.arrived).as_micros()).unwrap_or(u64::MAX);
        Some(Echo { time_us: peer.time.as_nanos() / 1_000, held_us })
    }

    /// The middle of our own clock and of theirs that spoke lately, as far as they were compared.
    pub(crate) fn middle(&self, now: Timestamp) -> Sample {
        clock::middle(self.heard(now).filter_map(|(_, peer)| peer.exchanges.best()))
    }

    /// Our own clock was moved by so much.
    pub(crate) fn move_ours(&mut self, by: i64) {
        self.all.values_mut().for_each(|peer| peer.exchanges.move_ours(by));
    }

    /// Our mesh clock was set back: moments are made as much earlier.
    pub(crate) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        for peer in self.all.values_mut() {
            [&mut peer.heard, &mut peer.arrived, &mut peer.sent].into_iter().for_each(&earlier);
            peer.unanswered.iter_mut().for_each(&earlier);
            peer.told.iter_mut().for_each(|(_, at)| earlier(at));
        }
    }

    /// Whether a peer's mesh clock is too far from ours, which is so far ahead of our own, to share windows of this
    /// length with it.
    pub(crate) fn is_apart(&self, id: &NodeId, limit: &Limit, slew: i64) -> bool {
        let offset = self.all.get(id).and_then(|peer| peer.offset(slew));
        offset.is_some_and(|offset| clock::is_too_far(Duration::from_nanos(offset.unsigned_abs()), limit))
    }

    pub(crate) fn get(&self, id: &NodeId) -> Option<&Peer> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &NodeId) -> Option<&mut Peer> {
        self.all.get_mut(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.all.iter()
    }

    pub(crate) fn discover(&mut self, names: impl IntoIterator<Item = NodeId>) {
        let names: BTreeSet<NodeId> = names.into_iter().take(MOST_NAMES).collect();
        let before = self.discovered.take().unwrap_or_default();
        self.withdrawn.extend(before);
        self.withdrawn.retain(|name| !names.contains(name));
        self.discovered = Some(names);
    }

    /// Whether this very run spoke lately.
    pub(crate) fn is_heard(&self, member: &Member, now: Timestamp) -> bool {
        self.all.get(&member.id).is_some_and(|peer| {
            peer.generation == member.generation && now.since(peer.heard) <= self.staleness
        })
    }

    /// Whether this very run spoke lately, and hears what it is sent.
    pub(crate) fn is_reachable(&self, member: &Member, now: Timestamp) -> bool {
        let hears = |peer: &Peer| peer.unanswered.is_none_or(|first| now.since(first) <= self.staleness * 2);
        self.is_heard(member, now) && self.all.get(&member.id).is_some_and(hears)
    }

    /// Whether this very run spoke lately, and its newest view is among those.
    pub(crate) fn follows(&self, member: &Member, now: Timestamp, is_it: impl Fn(ViewId) -> bool) -> bool {
        let head = self.all.get(&member.id).and_then(|peer| peer.head);
        self.is_heard(member, now) && head.is_some_and(is_it)
    }

    /// The peers that spoke lately.
    pub(crate) fn heard(&self, now: Timestamp) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.all.iter().filter(move |(_, peer)| now.since(peer.heard) <= self.staleness)
    }

    /// What the clocks of those that spoke lately show, in order.
    fn clocks(&self, now: Timestamp) -> Vec<Timestamp> {
        // After this node's own clock stepped back it cannot be said how long ago a frame came.
        let shows = |peer: &Peer| {
            if peer.arrived > now {
                peer.time.max(now)
            } else {
                peer.time.saturating_add(now.since(peer.arrived))
            }
        };
        let clocks = self.heard(now).map(|(_, peer)| shows(peer));
        let mut clocks: Vec<Timestamp> = clocks.collect();
        clocks.sort_unstable();
        clocks
    }

    /// The clocks of this node and of those it hears, in order.
    fn all_clocks(&self, now: Timestamp) -> Vec<Timestamp> {
        let mut clocks = self.clocks(now);
        let place = clocks.partition_point(|clock| *clock < now);
        clocks.insert(place, now);
        clocks
    }

    /// The time that this node and those it hears have in common: the earlier middle of their clocks.
    pub(crate) fn common_time(&self, now: Timestamp) -> Timestamp {
        let clocks = self.all_clocks(now);
        clocks.get((clocks.len() - 1) / 2).copied().unwrap_or(now)
    }

    /// The later middle of the clocks of this node and of those it hears.
    pub(crate) fn later_time(&self, now: Timestamp) -> Timestamp {
        let clocks = self.all_clocks(now);
        clocks.get(clocks.len() / 2).copied().unwrap_or(now)
    }

    /// What the clocks of the others show, the later middle of them; nothing if nobody is heard.
    pub(crate) fn others_time(&self, now: Timestamp) -> Option<Timestamp> {
        let clocks = self.clocks(now);
        clocks.get(clocks.len() / 2).copied()
    }

    /// The peers that could be in a view.
    pub(crate) fn joining(&self, now: Timestamp) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.heard(now).filter(|(_, peer)| !peer.leaving)
    }

    pub(crate) fn is_leaving(&self, member: &Member) -> bool {
        let peer = self.all.get(&member.id);
        peer.is_some_and(|peer| peer.leaving && peer.generation == member.generation)
    }

    /// Whether a run is over: a later one spoke, or it is silent and discovery has withdrawn its name. A name
    /// that discovery never knew proves nothing: the list may be short.
    pub(crate) fn is_dead(&self, member: &Member, now: Timestamp, after: Duration) -> bool {
        let peer = self.all.get(&member.id);
        if peer.is_some_and(|peer| peer.generation > member.generation) {
            return true;
        }
        let silent = peer.is_none_or(|peer| now.since(peer.heard) > after);
        silent && self.withdrawn.contains(&member.id)
    }

    /// Forgets those that nothing is left of.
    pub(crate) fn forget(&mut self, now: Timestamp, in_a_view: impl Fn(&NodeId) -> bool) {
        let Self { all, discovered, withdrawn, .. } = self;
        let known = |id: &NodeId| discovered.as_ref().is_some_and(|names| names.contains(id));
        let after = if discovered.is_some() { FORGOTTEN } else { FORGOTTEN_UNNAMED };
        all.retain(|id, peer| now.since(peer.heard) <= after || known(id) || in_a_view(id));
        withdrawn.retain(|id| all.contains_key(id) || in_a_view(id));
    }

    /// Whether a name that never spoke may do so one day: discovery knows it, or there is none that could say.
    pub(crate) fn may_answer(&self, id: &NodeId) -> bool {
        self.discovered.as_ref().is_none_or(|names| names.contains(id))
    }
}
