//! Peer table: last frames, generations, clock offsets, and what discovery reports. Bounded: a peer that is
//! silent for long, unknown to discovery and in no view is forgotten.

mod clocks;
mod discovery;

use crate::clock::Exchanges;
use crate::frame::{Echo, Header};
use crate::view::NodeId;
use crate::view::ViewId;
use crate::view::{Generation, Member};
use hivemind_core::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A frame this far behind the last one's time was not overtaken: its sender's clock was set back.
const SET_BACK: Duration = Duration::from_secs(5);

/// One peer, by its last frames.
#[derive(Clone, Debug)]
pub(crate) struct KnownPeer {
    pub(crate) generation: Generation,
    pub(crate) heard: Timestamp,
    /// Its clock in the newest of its frames, and ours when that arrived.
    time: Timestamp,
    arrived: Timestamp,
    /// How far its mesh clock is ahead of its own, and that one's offset to ours.
    slew: i64,
    exchanges: Exchanges,
    pub(crate) head: Option<ViewId>,
    pub(crate) leaving: bool,
    /// When the last frame was sent to it, for heartbeats.
    pub(crate) sent: Timestamp,
    /// When the first unacknowledged frame was sent; none if it has acknowledged all.
    unanswered: Option<Timestamp>,
    /// The newest view that was sent to it, and when.
    pub(crate) sent_view: Option<(ViewId, Timestamp)>,
}

impl KnownPeer {
    /// How far its mesh clock is ahead of ours, which is `slew` ahead of our local clock.
    pub(crate) fn offset(&self, slew: i64) -> Option<i64> {
        self.exchanges.best().map(|best| best.moved(slew, self.slew).offset)
    }

    /// The maximum error of the offset.
    pub(crate) fn doubt(&self) -> Duration {
        self.exchanges.best().map_or(Duration::ZERO, |best| Duration::from_nanos(best.trip / 2))
    }
}

/// All known peers.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    all: BTreeMap<NodeId, KnownPeer>,
    staleness: Duration,
    most: usize,
    /// The names that discovery knows; none without a discovery that reports removals.
    discovered: Option<BTreeSet<NodeId>>,
    /// The names that discovery knew once and no longer does.
    withdrawn: BTreeSet<NodeId>,
    /// The names that an operator has forgotten, until they send frames again.
    given_up: BTreeSet<NodeId>,
    /// Names without any frame, and when a frame was last sent to them.
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

    /// A frame came from a generation of a peer. Returns false if a later generation was heard before.
    pub(crate) fn record_frame(&mut self, from: &NodeId, now: Timestamp, header: &Header) -> bool {
        let member = Member { id: from.clone(), generation: header.generation };
        let known = self.all.get(from).filter(|peer| peer.generation == header.generation);
        // An overtaken frame carries nothing new, except that its sender is alive.
        let overtaken =
            known.is_some_and(|peer| header.time < peer.time && peer.time.since(header.time) < SET_BACK);
        let (head, time, arrived) = match known {
            Some(peer) if overtaken => (peer.head, peer.time, peer.arrived),
            _ => (header.head, header.time, now),
        };
        let is_current = self.hear(&member, now, head, header.leaving);
        if let Some(peer) = self.all.get_mut(from).filter(|_| is_current) {
            (peer.time, peer.arrived) = (time, arrived);
            peer.slew = if overtaken { peer.slew } else { header.slew_us.saturating_mul(1_000) };
        }
        is_current
    }

    /// A generation of a peer was heard, and this is its newest view.
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
        let peer = self.all.entry(from.id.clone()).or_insert(KnownPeer {
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
            sent_view: None,
        });
        self.silent.remove(&from.id);
        if from.generation < peer.generation {
            return false;
        }
        if from.generation > peer.generation {
            (peer.generation, peer.leaving) = (from.generation, leaving);
            (peer.unanswered, peer.sent_view) = (None, None);
            (peer.slew, peer.exchanges) = (0, Exchanges::default());
        }
        // A peer that sends frames was forgotten too early, and must not count as dead at its next silence.
        self.given_up.remove(&from.id);
        // A leaving generation does not come back.
        peer.leaving |= leaving;
        (peer.heard, peer.time, peer.arrived, peer.head) = (peer.heard.max(now), now, now, head);
        true
    }

    /// A frame is sent to a peer.
    pub(crate) fn send(&mut self, to: &NodeId, now: Timestamp) {
        if let Some(peer) = self.all.get_mut(to) {
            peer.sent = now;
            // After the clock was set back, a later time would wait for an answer from the future.
            peer.unanswered = Some(peer.unanswered.map_or(now, |first| first.min(now)));
        } else {
            self.silent.insert(to.clone(), now);
        }
    }

    /// Whether no frame was sent to a name for `longest`. Frames sent after `now` were sent by a clock that was
    /// set back since.
    pub(crate) fn is_left_alone(&self, id: &NodeId, now: Timestamp, longest: Duration) -> bool {
        let sent = self.all.get(id).map(|peer| peer.sent).or_else(|| self.silent.get(id).copied());
        sent.is_none_or(|sent| sent > now || now.since(sent) >= longest)
    }

    /// A peer acknowledged its newest received frame of ours.
    pub(crate) fn answered(&mut self, from: &NodeId, echo: Echo) {
        let micros = |moment: Timestamp| moment.as_nanos() / 1_000;
        if let Some(peer) = self.all.get_mut(from)
            && peer.unanswered.is_some_and(|first| micros(first) <= echo.time_us)
        {
            let has_all = echo.time_us >= micros(peer.sent);
            peer.unanswered = (!has_all).then_some(peer.sent);
        }
    }

    /// Our mesh clock was set back: shifts all times back.
    pub(crate) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        for peer in self.all.values_mut() {
            [&mut peer.heard, &mut peer.arrived, &mut peer.sent].into_iter().for_each(&earlier);
            peer.unanswered.iter_mut().for_each(&earlier);
            peer.sent_view.iter_mut().for_each(|(_, at)| earlier(at));
        }
    }

    /// A peer's clock in the newest of its frames.
    pub(crate) fn newest(&self, id: &NodeId) -> Option<Timestamp> {
        self.all.get(id).map(|peer| peer.time)
    }

    pub(crate) fn get(&self, id: &NodeId) -> Option<&KnownPeer> {
        self.all.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &NodeId) -> Option<&mut KnownPeer> {
        self.all.get_mut(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&NodeId, &KnownPeer)> {
        self.all.iter()
    }

    /// Whether a frame of this generation arrived recently.
    pub(crate) fn is_heard(&self, member: &Member, now: Timestamp) -> bool {
        self.all.get(&member.id).is_some_and(|peer| {
            peer.generation == member.generation && now.since(peer.heard) <= self.staleness
        })
    }

    /// Whether a frame of this generation arrived recently, and it receives ours.
    pub(crate) fn is_reachable(&self, member: &Member, now: Timestamp) -> bool {
        let hears =
            |peer: &KnownPeer| peer.unanswered.is_none_or(|first| now.since(first) <= self.staleness * 2);
        self.is_heard(member, now) && self.all.get(&member.id).is_some_and(hears)
    }

    /// Whether a frame of this generation arrived recently, and its newest view matches.
    pub(crate) fn follows(&self, member: &Member, now: Timestamp, is_it: impl Fn(ViewId) -> bool) -> bool {
        let head = self.all.get(&member.id).and_then(|peer| peer.head);
        self.is_heard(member, now) && head.is_some_and(is_it)
    }

    /// The peers whose frames arrived recently.
    pub(crate) fn heard(&self, now: Timestamp) -> impl Iterator<Item = (&NodeId, &KnownPeer)> {
        self.all.iter().filter(move |(_, peer)| now.since(peer.heard) <= self.staleness)
    }

    /// The peers that could be in a view.
    pub(crate) fn joining(&self, now: Timestamp) -> impl Iterator<Item = (&NodeId, &KnownPeer)> {
        self.heard(now).filter(|(_, peer)| !peer.leaving)
    }

    pub(crate) fn is_leaving(&self, member: &Member) -> bool {
        let peer = self.all.get(&member.id);
        peer.is_some_and(|peer| peer.leaving && peer.generation == member.generation)
    }
}
