//! What this node hears of its peers: who spoke when, which run of them, how their clock
//! stands to ours, and what discovery says of them. Bounded: who is silent for long, unknown
//! to discovery and in no view is forgotten.

mod clocks;
mod discovery;

use crate::clock::Exchanges;
use crate::frame::{Echo, Header};
use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::view::ViewId;
use hivemind_core::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A frame whose time is so far behind the last one's was not overtaken: its sender's clock was set back.
const SET_BACK: Duration = Duration::from_secs(5);

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
    /// The names that an operator has given up, until they speak again.
    given_up: BTreeSet<NodeId>,
    /// Names that have not spoken, and when they were last sent anything.
    silent: BTreeMap<NodeId, Timestamp>,
}

impl Peers {
    pub(crate) fn new(staleness: Duration, most: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            staleness,
            most,
            discovered: None,
            withdrawn: BTreeSet::new(),
            given_up: BTreeSet::new(),
            silent: BTreeMap::new(),
        }
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
        self.silent.remove(&from.id);
        if from.generation < peer.generation {
            return false;
        }
        if from.generation > peer.generation {
            (peer.generation, peer.leaving) = (from.generation, leaving);
            (peer.unanswered, peer.told) = (None, None);
            (peer.slew, peer.exchanges) = (0, Exchanges::default());
        }
        // Whoever speaks was given up too early, and does not die of it at its next silence.
        self.given_up.remove(&from.id);
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
        } else {
            self.silent.insert(to.clone(), now);
        }
    }

    /// Whether nothing was sent to a name for so long. What was sent after `now` was sent by a clock that was set
    /// back since.
    pub(crate) fn is_left_alone(&self, id: &NodeId, now: Timestamp, longest: Duration) -> bool {
        let sent = self.all.get(id).map(|peer| peer.sent).or_else(|| self.silent.get(id).copied());
        sent.is_none_or(|sent| sent > now || now.since(sent) >= longest)
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

    /// Our mesh clock was set back: moments are made as much earlier.
    pub(crate) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        for peer in self.all.values_mut() {
            [&mut peer.heard, &mut peer.arrived, &mut peer.sent].into_iter().for_each(&earlier);
            peer.unanswered.iter_mut().for_each(&earlier);
            peer.told.iter_mut().for_each(|(_, at)| earlier(at));
        }
    }

    /// What the clock of a peer showed in the newest of its frames.
    pub(crate) fn newest(&self, id: &NodeId) -> Option<Timestamp> {
        self.all.get(id).map(|peer| peer.time)
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

    /// The peers that could be in a view.
    pub(crate) fn joining(&self, now: Timestamp) -> impl Iterator<Item = (&NodeId, &Peer)> {
        self.heard(now).filter(|(_, peer)| !peer.leaving)
    }

    pub(crate) fn is_leaving(&self, member: &Member) -> bool {
        let peer = self.all.get(&member.id);
        peer.is_some_and(|peer| peer.leaving && peer.generation == member.generation)
    }
}
