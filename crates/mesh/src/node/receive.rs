//! Frames from peers: checks of sender and generations. Unreadable frames are dropped.

use super::{Node, begin_interner};
use crate::frame::Item;
use crate::frame::codec::{Items, read_header};
use crate::frame::interner::ReceiveInterner;
use crate::frame::replay_window::ReplayWindow;
use crate::frame::wire::Unreadable;
use crate::view::NodeId;
use crate::view::view_log::ViewLog;
use crate::view::{Generation, Member};
use hivemind_core::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

impl Node {
    /// A frame came from a peer; the transport has verified the name.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// let mut nodes = mesh_nodes(2, &MeshOptions::default(), now);
    /// let peer = nodes[1].member().id.clone();
    /// nodes[0].on_frame(now, &peer, b"no frame at all"); // It is counted and dropped.
    /// assert!(nodes[0].is_ready());
    /// ```
    pub fn on_frame(&mut self, now: Timestamp, from: &NodeId, bytes: &[u8]) {
        let now = self.mesh_time(now);
        self.table.counters.see(now);
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
            (link.send_interner, link.receive_interner) =
                (begin_interner(&mut self.interners), ReceiveInterner::default());
            (link.replay, link.done, link.reset) =
                (ReplayWindow::default(), VecDeque::new(), VecDeque::new());
            // Messages and waits of the previous generation do not belong to this one: it would get that one's
            // allowance as well.
            (link.urgent, link.items) = (Vec::new(), Vec::new());
            self.parked.retain(|parked| !parked.is_of(from));
        }
        let member = link.member(from);
        let before = self.peers.newest(from);
        if !self.peers.record_frame(from, now, &header) {
            return Ok(());
        }
        let is_newest = self.peers.newest(from) == Some(header.time) && before != Some(header.time);
        self.membership.rules.hear(from, header.rules, now);
        let is_for_this_generation = header.to == self.membership.me.generation;
        if is_for_this_generation {
            if !link.send_interner.acknowledge(header.known_of, header.known, is_newest) {
                link.send_interner = begin_interner(&mut self.interners);
            }
            if let Some(echo) = header.echo {
                self.peers.answered(from, echo);
                self.membership.rules.answered(from, echo.time_us, now);
                self.peers.compare(from, now, &header, self.clock.slew);
            }
        }
        if !link.receive_interner.turn_to(header.interner) {
            return Ok(()); // It was overtaken by a frame that begins another interner.
        }
        let mut receive_interner = std::mem::take(&mut link.receive_interner);
        let mut items = Items { reader, header: &header, receive_interner: &mut receive_interner };
        let mut read = Vec::new();
        let outcome = loop {
            match items.next_item() {
                Ok(Some(item)) => read.push(item),
                Ok(None) => break Ok(()),
                Err(unreadable) => break Err(unreadable),
            }
        };
        if let Some(link) = self.links.get_mut(from) {
            link.receive_interner = receive_interner;
        }
        self.membership.record_generation(&member, header.time);
        if header.to > self.membership.me.generation {
            self.on_later_generation(now, header.to);
        }
        for item in read {
            // Grants to an earlier generation of this node died with it.
            let lives = is_for_this_generation || !matches!(item, Item::Update(..) | Item::Answer { .. });
            if lives && !self.is_quarantined(from, &item) {
                self.on_item(now, &member, item);
            }
        }
        // A frame for an earlier generation of this node may refer to an interner that no longer exists.
        if is_for_this_generation { outcome } else { Ok(()) }
    }

    fn on_item(&mut self, now: Timestamp, from: &Arc<Member>, item: Item) {
        match item {
            Item::ViewLog { root, views } => {
                if let Some(view_log) = ViewLog::received(root, views) {
                    self.membership.receive_view_log(now, &self.peers, view_log);
                    self.views_may_have_changed(now);
                }
            }
            Item::Proposal { view, votes } => {
                let has_voted = self.membership.receive_proposal(now, &self.peers, from, view, votes);
                self.after_votes(now, has_voted);
            }
            Item::Vote { view, votes } => {
                let has_voted = self.membership.receive_vote(now, &self.peers, from, view, votes);
                self.after_votes(now, has_voted);
            }
            Item::Report(window_ref, report) => self.on_report(now, from, &window_ref, &report),
            Item::Update(window_ref, update) => self.on_update(now, from, &window_ref, &update),
            Item::Ask { id, window_ref, report, want } => {
                self.on_ask(now, from, id, &window_ref, &report, want);
                self.serve_returned(now, &window_ref, &report);
            }
            Item::Answer { id, window_ref, update, reply } => {
                self.on_answer(now, from, id, &window_ref, &update, &reply);
            }
            Item::Levels(levels) => self.on_levels(now, from, &levels),
            // Sends the next chunk immediately: there may be hundreds, and a leaver waits for them.
            Item::Taken { view, taken } => {
                self.handoff.on_taken(from, view, taken, now);
                self.send_handoffs(now);
            }
        }
    }

    fn after_votes(&mut self, now: Timestamp, has_voted: bool) {
        if has_voted {
            self.send_views(now);
        }
        self.views_may_have_changed(now);
    }

    /// Another generation of this node's name was seen outside of its frames. Returns whether peers accept that
    /// one instead of this one; this one is unchanged.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{Generation, MeshOptions, testing::mesh_nodes};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// let node = &mut mesh_nodes(1, &MeshOptions::default(), now)[0];
    /// assert!(!node.observe_generation(now, Generation(0))); // An earlier one.
    /// ```
    pub fn observe_generation(&mut self, now: Timestamp, run: Generation) -> bool {
        let now = self.mesh_time(now);
        if run > self.membership.me.generation {
            self.on_later_generation(now, run);
        }
        run > self.membership.me.generation
    }

    /// A peer knows a later generation of this node's name and ignores this one. A node without holdings takes
    /// a number above it, once: with another node of its name the two would never stop.
    fn on_later_generation(&mut self, now: Timestamp, later: Generation) {
        self.outdated_by = self.outdated_by.max(Some(later));
        let Some(next) = later.0.checked_add(1).filter(|_| !self.renewed && !self.membership.is_member())
        else {
            return;
        };
        (self.renewed, self.outdated_by) = (true, None);
        self.membership.renew(Generation(next), now);
        for link in self.links.values_mut() {
            (link.send_interner, link.receive_interner) =
                (begin_interner(&mut self.interners), ReceiveInterner::default());
        }
        self.views_may_have_changed(now);
    }

    /// Follows the views: counter windows are compared again, and allowance of another mesh is void.
    pub(super) fn views_may_have_changed(&mut self, now: Timestamp) {
        let version = self.membership.version;
        if self.version == version {
            return;
        }
        self.version = version;
        self.table.views_changed();
        if self.upheavals != self.membership.upheavals {
            self.upheavals = self.membership.upheavals;
            self.table.counters.clear();
            self.asks.clear();
            self.parked.clear();
            self.handoff.reset(now);
            let waiting: Vec<_> = self.waiting.keys().copied().collect();
            for ticket in waiting {
                self.give_up(ticket, now);
            }
        }
        self.send_views(now);
    }
}
