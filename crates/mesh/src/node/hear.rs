//! Frames from peers. Only equal (counter, view, window) meet; totals are merged by their
//! maximum; whatever cannot be read, or is about another view or window, is dropped.

use super::{Lane, Node, Output};
use crate::book::Book;
use crate::chain::Chain;
use crate::codec::{Encoder, Items, period_nanos, read_header};
use crate::dictionary::{Heard, Spoken};
use crate::frame::{FRAME_BUDGET, Header, Item, Place, Report, Word};
use crate::member::Member;
use crate::options::Consistency;
use crate::owner::NodeId;
use crate::page::{Page, Side};
use crate::wire::Unreadable;
use hivemind_core::{Limit, Timestamp};

impl Node {
    /// A frame came from a peer, whose name the transport vouches for.
    pub fn on_frame(&mut self, now: Timestamp, from: &NodeId, bytes: &[u8]) {
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
            return Ok(()); // From a run that is over.
        }
        if header.generation > link.generation {
            link.generation = header.generation;
            (link.spoken, link.heard) = (Spoken::default(), Heard::default());
        }
        let member = Member { id: from.clone(), generation: header.generation };
        if !self.peers.hear(&member, now, header.head, header.leaving) {
            return Ok(());
        }
        let for_this_run = header.to == self.council.me.generation;
        if for_this_run {
            link.spoken.acknowledge(header.known);
        }
        let mut heard = std::mem::take(&mut link.heard);
        let mut items = Items { reader, header: &header, heard: &mut heard };
        let mut read = Vec::new();
        let outcome = loop {
            match items.next() {
                Ok(Some(item)) => read.push(item),
                Ok(None) => break Ok(()),
                Err(unreadable) => break Err(unreadable),
            }
        };
        if let Some(link) = self.links.get_mut(from) {
            link.heard = heard;
        }
        for item in read {
            self.on_item(now, &member, item);
        }
        // What was meant for an earlier run of this node may speak of a dictionary that is gone.
        if for_this_run { outcome } else { Ok(()) }
    }

    fn on_item(&mut self, now: Timestamp, from: &Member, item: Item) {
        match item {
            Item::Chain { root, views } => {
                if let Some(chain) = Chain::told(root, views) {
                    self.council.on_chain(chain);
                    self.views_may_have_changed(now);
                }
            }
            Item::Motion { view, votes } => {
                if self.council.on_motion(now, &self.peers, view, votes) {
                    self.tell_views(now);
                }
                self.views_may_have_changed(now);
            }
            Item::Report(place, report) => self.on_report(now, from, &place, &report),
            Item::Word(place, word) => self.on_word(now, from, &place, &word),
            Item::Ask { id, place, report, want } => {
                self.on_ask(now, from, id, &place, &report, want);
                self.serve_returned(now, &place, &report);
            }
            Item::Answer { id, place, word, reply } => self.on_answer(now, id, &place, &word, &reply),
        }
    }

    /// Opens the page that a peer speaks of. Says by which limit, if it is the same page here.
    pub(super) fn open_told(&mut self, now: Timestamp, place: &Place) -> Option<Limit> {
        let told = place.subject.limit;
        let key = place.subject.key;
        let mut limit = told;
        let has_page = |book: &Book| book.pages.iter().any(|page| page.tag == place.tag);
        let here = self.shelf.books.look(&key, |book| (book.limit, book.own || has_page(book)));
        if let Some((here, counts)) = here {
            let alike = std::mem::discriminant(&here) == std::mem::discriminant(&told)
                && (matches!(told, Limit::TokenBucket(_)) || period_nanos(&here) == period_nanos(&told));
            if !alike {
                return None;
            }
            // A node's own limit counts, and within a window what it began with.
            if counts {
                limit = here;
            }
        }
        let Self { shelf, council, options, .. } = self;
        let mut book = shelf.open(council, options, (key, &limit, place.tag), now).ok()?;
        let me = &council.me;
        let page = book.page(place.tag)?;
        if page.view.id() != place.view {
            let view = council.chain()?.find(place.view)?;
            let is_bucket = matches!(limit, Limit::TokenBucket(_));
            if view.fence() > page.view.fence() {
                // The peer's clock is a little ahead; what is decided is decided.
                page.move_to(&std::sync::Arc::clone(view), (me, key, &limit), now);
            } else if !(is_bucket && view.owner(key) == page.view.owner(key)) {
                return None;
            }
        }
        Some(limit)
    }

    fn on_report(&mut self, now: Timestamp, from: &Member, place: &Place, report: &Report) {
        let Some(limit) = self.open_told(now, place) else { return };
        let eventual = self.options.consistency == Consistency::Eventual;
        let moment = Page::moment(place.tag, &limit, now);
        let Some(mut page) = self.shelf.books.page(&place.subject.key, place.tag) else { return };
        let Side::Till(till) = &mut page.side else { return };
        till.hear(&limit, from, report, moment);
        if eventual {
            till.spread_news();
        }
        page.list();
        drop(page);
        self.serve_returned(now, place, report);
    }

    fn serve_returned(&mut self, now: Timestamp, place: &Place, report: &Report) {
        if report.returned > 0 && !self.parked.is_empty() {
            self.serve_parked(now, place.subject.key, place.tag);
        }
    }

    fn on_word(&mut self, now: Timestamp, from: &Member, place: &Place, word: &Word) {
        if self.open_told(now, place).is_none() {
            return;
        }
        let key = place.subject.key;
        let Some(mut page) = self.shelf.books.page(&key, place.tag) else { return };
        if page.view.owner(key) != Some(from) {
            return;
        }
        let (view, side) = (page.view.id(), &mut page.side);
        let Side::Purse(purse) = side else { return };
        purse.hear(word);
        if word.recall {
            purse.give_up(0);
            purse.told(now);
            let item = Item::Report(Place { view, ..*place }, purse.report());
            if let Some(link) = self.links.get_mut(&from.id) {
                link.urgent.push(item);
            }
        }
        page.list();
    }

    /// Follows the views: pages are compared anew, and what was held under another mesh is void.
    pub(super) fn views_may_have_changed(&mut self, now: Timestamp) {
        if self.version == self.council.version {
            return;
        }
        self.version = self.council.version;
        self.shelf.views_changed();
        if self.upheavals != self.council.upheavals {
            self.upheavals = self.council.upheavals;
            self.shelf.books.clear();
            self.asks.clear();
            self.parked.clear();
            let waiting: Vec<_> = self.waiting.keys().copied().collect();
            for ticket in waiting {
                self.give_up(ticket, now);
            }
        }
        self.tell_views(now);
    }

    /// Writes items into as many frames as they need.
    pub(super) fn send(&mut self, to: &NodeId, lane: Lane, items: &[Item], now: Timestamp) {
        let header = Header {
            generation: self.council.me.generation,
            time: now,
            head: self.council.head().map(|head| head.id()),
            leaving: self.council.leaving,
            known: 0,
            to: crate::member::Generation(0),
        };
        let Some(link) = self.links.get_mut(to) else { return };
        let header = Header { known: link.heard.known(), to: link.generation, ..header };
        let mut rest = items;
        loop {
            let mut encoder = Encoder::new(&header, &mut link.spoken);
            while let Some((item, later)) = rest.split_first() {
                encoder.push(item);
                rest = later;
                if encoder.length() >= FRAME_BUDGET {
                    break;
                }
            }
            self.outputs.push(Output::Send { to: to.clone(), lane, frame: encoder.finish() });
            if rest.is_empty() {
                break;
            }
        }
        if let Some(peer) = self.peers.get_mut(to) {
            peer.sent = now;
        }
    }
}
