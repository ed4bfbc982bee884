//! Frames from peers: checks of sender and generations. Unreadable frames are dropped.

use super::{Node, begin_dictionary};
use crate::chain::Chain;
use crate::codec::{Items, read_header};
use crate::dictionary::Heard;
use crate::frame::Item;
use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::replay::Replay;
use crate::wire::Unreadable;
use hivemind_core::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

impl Node {
    /// A frame came from a peer; the transport has verified the name.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, testing::seated};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// let mut nodes = seated(2, &MeshOptions::default(), now);
    /// let peer = nodes[1].member().id.clone();
    /// nodes[0].on_frame(now, &peer, b"no frame at all"); // It is counted and dropped.
    /// assert!(nodes[0].is_ready());
    /// ```
    pub fn on_frame(&mut self, now: Timestamp, from: &NodeId, bytes: &[u8]) {
        let now = self.mesh_time(now);
        self.shelf.books.see(now);
        self.meet(from.clone());
        if self.read(now, from, bytes).is_err() {
            self.unreadable += 1;
        }
        self.flush_urgent(now);
    }

    fn read(&mut self, now: Timestamp, from: &NodeId, bytes: &[u8]) -> Result<(), Unreadable> {
        let (header, reader) = read_header(bytes)?;
        let Some(link) = self.links.get_mut(from) else { return Ok(()) };
        if header.generation < link.generation {
            return Ok(()); // From an expired generation.
        }
        if header.generation > link.generation {
            link.unknown_for = 0;
            link.generation = header.generation;
            (link.spoken, link.heard) = (begin_dictionary(&mut self.dictionaries), Heard::default());
            (link.replay, link.done, link.reset) = (Replay::default(), VecDeque::new(), VecDeque::new());
            // Messages and waits of the previous generation do not belong to this one: it would get that one's
            // allowance as well.
            (link.urgent, link.items) = (Vec::new(), Vec::new());
            self.parked.retain(|parked| !parked.is_of(from));
        }
        let member = link.run(from);
        let before = self.peers.newest(from);
        if !self.peers.hear_frame(from, now, &header) {
            return Ok(());
        }
        let is_newest = self.peers.newest(from) == Some(header.time) && before != Some(header.time);
        self.council.rules.hear(from, header.rules, now);
        let for_this_run = header.to == self.council.me.generation;
        if for_this_run {
            if !link.spoken.acknowledge(header.known_of, header.known, is_newest) {
                link.spoken = begin_dictionary(&mut self.dictionaries);
            }
            if let Some(echo) = header.echo {
                self.peers.answered(from, echo);
                self.council.rules.answered(from, echo.time_us, now);
                self.peers.compare(from, now, &header, self.clock.slew);
            }
        }
        if !link.heard.turn_to(header.dictionary) {
            return Ok(()); // It was overtaken by a frame that begins another interner.
        }
        let mut heard = std::mem::take(&mut link.heard);
        let mut items = Items { reader, header: &header, heard: &mut heard };
        let mut read = Vec::new();
        let outcome = loop {
            match items.next_item() {
                Ok(Some(item)) => read.push(item),
                Ok(None) => break Ok(()),
                Err(unreadable) => break Err(unreadable),
            }
        };
        if let Some(link) = self.links.get_mut(from) {
            link.heard = heard;
        }
        self.council.hear_run(&member, header.time);
        if header.to > self.council.me.generation {
            self.on_later_run(now, header.to);
        }
        for item in read {
            // Grants to an earlier generation of this node died with it.
            let lives = for_this_run || !matches!(item, Item::Word(..) | Item::Answer { .. });
            if lives && !self.is_quarantined(from, &item) {
                self.on_item(now, &member, item);
            }
        }
        // A frame for an earlier generation of this node may refer to an interner that no longer exists.
        if for_this_run { outcome } else { Ok(()) }
    }

    fn on_item(&mut self, now: Timestamp, from: &Arc<Member>, item: Item) {
        match item {
            Item::Chain { root, views } => {
                if let Some(chain) = Chain::told(root, views) {
                    self.council.hear_chain(now, &self.peers, chain);
                    self.views_may_have_changed(now);
                }
            }
            Item::Motion { view, votes } => {
                let spoke = self.council.hear_motion(now, &self.peers, from, view, votes);
                self.after_votes(now, spoke);
            }
            Item::Vote { view, votes } => {
                let spoke = self.council.hear_vote(now, &self.peers, from, view, votes);
                self.after_votes(now, spoke);
            }
            Item::Report(place, report) => self.on_report(now, from, &place, &report),
            Item::Word(place, word) => self.on_word(now, from, &place, &word),
            Item::Ask { id, place, report, want } => {
                self.on_ask(now, from, id, &place, &report, want);
                self.serve_returned(now, &place, &report);
            }
            Item::Answer { id, place, word, reply } => self.on_answer(now, from, id, &place, &word, &reply),
            Item::Levels(levels) => self.on_levels(now, from, &levels),
            // Sends the next chunk immediately: there may be hundreds, and a leaver waits for them.
            Item::Taken { view, taken } => {
                self.handover.on_taken(from, view, taken, now);
                self.hand_over(now);
            }
        }
    }

    fn after_votes(&mut self, now: Timestamp, spoke: bool) {
        if spoke {
            self.tell_views(now);
        }
        self.views_may_have_changed(now);
    }

    /// Another generation of this node's name was seen outside of its frames. Returns whether peers accept that
    /// one instead of this one; this one is unchanged.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{Generation, MeshOptions, testing::seated};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// let node = &mut seated(1, &MeshOptions::default(), now)[0];
    /// assert!(!node.hear_of_run(now, Generation(0))); // An earlier one.
    /// ```
    pub fn hear_of_run(&mut self, now: Timestamp, run: Generation) -> bool {
        let now = self.mesh_time(now);
        if run > self.council.me.generation {
            self.on_later_run(now, run);
        }
        run > self.council.me.generation
    }

    /// A peer knows a later generation of this node's name and ignores this one. A node without holdings takes
    /// a number above it, once: with another node of its name the two would never stop.
    fn on_later_run(&mut self, now: Timestamp, later: Generation) {
        self.outdated_by = self.outdated_by.max(Some(later));
        let Some(next) = later.0.checked_add(1).filter(|_| !self.renewed && !self.council.is_member()) else {
            return;
        };
        (self.renewed, self.outdated_by) = (true, None);
        self.council.renew(Generation(next), now);
        for link in self.links.values_mut() {
            (link.spoken, link.heard) = (begin_dictionary(&mut self.dictionaries), Heard::default());
        }
        self.views_may_have_changed(now);
    }

    /// Follows the views: counter windows are compared again, and allowance of another mesh is void.
    pub(super) fn views_may_have_changed(&mut self, now: Timestamp) {
        let version = self.council.version;
        if self.version == version {
            return;
        }
        self.version = version;
        self.shelf.views_changed();
        if self.upheavals != self.council.upheavals {
            self.upheavals = self.council.upheavals;
            self.shelf.books.clear();
            self.asks.clear();
            self.parked.clear();
            self.handover.begin_anew(now);
            let waiting: Vec<_> = self.waiting.keys().copied().collect();
            for ticket in waiting {
                self.give_up(ticket, now);
            }
        }
        self.tell_views(now);
    }
}
