//! Frames from peers. Only equal (counter, view, window) meet; totals are merged by their
//! maximum; whatever cannot be read, or is about another view or window, is dropped.

use super::{Lane, Node, Output};
use crate::book::Book;
use crate::chain::Chain;
use crate::codec::{Encoder, Items, period_nanos, read_header, tag_at};
use crate::dictionary::{Heard, Spoken, Subject};
use crate::frame::{FRAME_BUDGET, Header, Item, Place, Report, Word};
use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::page::{Regime, Side};
use crate::replay::Replay;
use crate::wire::Unreadable;
use hivemind_core::{Limit, Timestamp};
use std::collections::VecDeque;

impl Node {
    /// A frame came from a peer, whose name the transport vouches for.
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
            return Ok(()); // From a run that is over.
        }
        if header.generation > link.generation {
            link.unknown_for = 0;
            link.generation = header.generation;
            (link.spoken, link.heard) = (Spoken::default(), Heard::default());
            (link.replay, link.done) = (Replay::default(), VecDeque::new());
        }
        let member = Member { id: from.clone(), generation: header.generation };
        if !self.peers.hear_frame(from, now, &header) {
            return Ok(());
        }
        self.council.rules.hear(from, header.rules, now);
        let for_this_run = header.to == self.council.me.generation;
        if for_this_run {
            link.spoken.acknowledge(header.known);
            if let Some(echo) = header.echo {
                self.peers.answered(from, echo);
                self.peers.compare(from, now, &header, self.clock.slew);
            }
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
        self.council.hear_run(&member);
        if header.to > self.council.me.generation {
            self.on_later_run(now, header.to);
        }
        for item in read {
            // What an owner granted to an earlier run of this node died with that run.
            let lives = for_this_run || !matches!(item, Item::Word(..) | Item::Answer { .. });
            if lives && !self.is_quarantined(from, &item) {
                self.on_item(now, &member, item);
            }
        }
        // What was meant for an earlier run of this node may speak of a dictionary that is gone.
        if for_this_run { outcome } else { Ok(()) }
    }

    fn on_item(&mut self, now: Timestamp, from: &Member, item: Item) {
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
        }
    }

    fn after_votes(&mut self, now: Timestamp, spoke: bool) {
        if spoke {
            self.tell_views(now);
        }
        self.views_may_have_changed(now);
    }

    /// A peer knows a later run of this node's name, and does not listen to this one. One that holds nothing
    /// yet takes a number above it, once: if there is another node of its name the two would never end.
    fn on_later_run(&mut self, now: Timestamp, later: Generation) {
        self.outdated_by = self.outdated_by.max(Some(later));
        let Some(next) = later.0.checked_add(1).filter(|_| !self.renewed && !self.council.is_member()) else {
            return;
        };
        (self.renewed, self.outdated_by) = (true, None);
        self.council.renew(Generation(next), now);
        for link in self.links.values_mut() {
            (link.spoken, link.heard) = (Spoken::default(), Heard::default());
        }
        self.views_may_have_changed(now);
    }

    /// Opens the page that a peer speaks of. Says by which limit, if it is the same page here.
    pub(super) fn open_told(&mut self, now: Timestamp, from: &Member, place: &Place) -> Option<Limit> {
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
            // A node's own limit counts, and within a window what it began with. After a reload it is not known
            // before a request brings it, or a peer that goes by the same rules.
            let may_tell = here == told || self.council.rules.agree(&from.id);
            if counts || !may_tell {
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

    /// Where the owner decides everything, it also decides which window it is.
    pub(super) fn place_here(&mut self, now: Timestamp, place: &Place) -> Place {
        let Subject { key, limit } = place.subject;
        let view = self.council.current(now);
        let members = view.map_or(0, |view| view.members().len());
        let decides = Regime::of(&limit, members, &self.options) == Regime::Decides;
        let tag = if decides {
            self.shelf.tag(&self.council, &self.options, (key, &limit), now)
        } else {
            place.tag
        };
        Place { tag, ..*place }
    }

    fn on_report(&mut self, now: Timestamp, from: &Member, place: &Place, report: &Report) {
        let place = &self.place_here(now, place);
        let Some(limit) = self.open_told(now, from, place) else { return };
        let Some(mut book) = self.shelf.books.get_mut(&place.subject.key) else { return };
        let Some(page) = book.page(place.tag) else { return };
        let moment = page.moment_of(&limit, &self.options, now);
        let decides = page.decides(&limit, &self.options);
        let Side::Till(till) = &mut page.side else { return };
        let before = till.spent();
        till.hear(&limit, from, report, (decides, moment));
        let more = till.spent().saturating_sub(before);
        if report.eventual {
            till.spread_news();
            if place.tag == tag_at(&limit, now) {
                book.count_others(more, now);
            }
        }
        if let Some(page) = book.page(place.tag) {
            page.follow_state(&limit, &self.options);
        }
        book.set_listed(true);
        drop(book);
        self.serve_returned(now, place, report);
    }

    /// What comes with an ask is heard like any report.
    pub(super) fn hear_asker(&mut self, now: Timestamp, from: &Member, place: &Place, report: &Report) {
        if self.shelf.books.contains_key(&place.subject.key) {
            self.on_report(now, from, place, report);
        }
    }

    fn serve_returned(&mut self, now: Timestamp, place: &Place, report: &Report) {
        let (key, tag) = (place.subject.key, place.tag);
        if report.returned > 0 && self.parked.iter().any(|parked| parked.is_for(key, tag)) {
            self.serve_parked(now, place.subject.key, place.tag);
        }
    }

    /// Whether this run has, or may come to have, the account that a word is of. Windows have but one.
    fn knows_account(&mut self, key: hivemind_core::store::Key, word: &Word) -> bool {
        let page = self.shelf.books.page(&key, 0);
        let known =
            page.is_some_and(|page| matches!(&page.side, Side::Purse(purse) if purse.serial >= word.serial));
        word.serial == 0 || known || self.asks.values().any(|ask| ask.key == key)
    }

    fn on_word(&mut self, now: Timestamp, from: &Member, place: &Place, word: &Word) {
        // Where the owner decides everything this is the page of all windows, and it follows.
        let told = place.tag;
        let place = &self.place_here(now, place);
        let key = place.subject.key;
        if word.recall && !self.knows_account(key, word) {
            // What this run does not hold it has spent, as far as the owner is concerned: so it has room again.
            let report = Report { spent: word.granted, granted_seen: word.granted, ..Report::default() };
            let item = Item::Report(*place, Report { serial: word.serial, ..report });
            return self.urge(&from.id, item);
        }
        // A word opens a book only where it asks for a share that was not touched.
        let concerns = word.recall || self.shelf.books.contains_key(&key);
        if !concerns || self.open_told(now, from, place).is_none() {
            return;
        }
        let Some(mut book) = self.shelf.books.get_mut(&key) else { return };
        let limit = book.limit;
        let Some(page) = book.page(place.tag) else { return };
        if page.view.owner(key) != Some(from) {
            return;
        }
        page.tag = page.tag.max(told);
        let place = &Place { tag: page.tag, ..*place };
        let view = page.view.id();
        let Side::Purse(purse) = &page.side else { return };
        let (others, is_reset) = (purse.others, purse.is_reset_by(word));
        page.hear(word, &limit, now);
        let Side::Purse(purse) = &mut page.side else { return };
        let more = if is_reset { 0 } else { purse.others.saturating_sub(others) };

        let recalled = word.recall.then(|| {
            purse.give_up(0);
            purse.told(now);
            purse.report()
        });
        if is_reset {
            book.counted = None;
        }
        if book.counted.is_some() && place.tag == tag_at(&book.limit, now) {
            book.count_others(more, now);
        }
        if let Some(report) = recalled {
            let item = Item::Report(Place { view, ..*place }, report);
            if let Some(link) = self.links.get_mut(&from.id) {
                link.urgent.push(item);
            }
        }
        book.set_listed(true);
    }

    /// Follows the views: pages are compared anew, and what was held under another mesh is void.
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
            slew_us: self.clock.slew / 1_000,
            head: self.council.head().map(|head| head.id()),
            leaving: self.council.leaving,
            rules: self.council.rules.here(),
            known: 0,
            to: Generation(0),
            echo: None,
        };
        let Some(link) = self.links.get_mut(to) else { return };
        let echo = self.peers.echo(to, link.generation, now);
        let header = Header { known: link.heard.known(), to: link.generation, echo, ..header };
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
            let frame = encoder.finish();
            self.budget.spend(frame.len());
            self.outputs.push(Output::Send { to: to.clone(), lane, frame });
            if rest.is_empty() {
                break;
            }
        }
        self.peers.send(to, now);
    }
}
