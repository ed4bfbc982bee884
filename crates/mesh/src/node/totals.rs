//! Updates of counters by peers. Only equal (counter, view, window) match; totals are merged by their maximum;
//! updates of other views or windows are dropped.

use super::Node;
use crate::book::{Book, Source};
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Report, Word};
use crate::member::Member;
use crate::page::{Regime, Side};
use crate::shelf::go_on;
use crate::window::{period_nanos, tag_at};
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

impl Node {
    /// Opens the window that a peer's message refers to. Returns its limit, if it is the same window here.
    pub(super) fn open_told(&mut self, now: Timestamp, from: &Member, place: &Place) -> Option<Limit> {
        self.open_by(now, from, place, false)
    }

    /// The same. A request for a grant was caused by a present request with its limit, so it corrects a limit
    /// that this node has from others. Other messages may carry a limit that their sender has not used since
    /// its reload.
    pub(super) fn open_by(
        &mut self,
        now: Timestamp,
        from: &Member,
        place: &Place,
        is_ask: bool,
    ) -> Option<Limit> {
        let Subject { key, limit: told } = place.subject;
        let agree = self.council.rules.agree(&from.id);
        let has_page = |book: &Book| book.pages.iter().any(|page| page.tag == place.tag);
        let here = self.shelf.books.look(&key, |book| (book.limit(), book.source, has_page(book)));
        let is_new = here.is_none();
        if is_new && !self.may_open(from, place) {
            return None;
        }
        let (here, source, is_known) = here.unwrap_or((told, Source::Others, false));
        let is_bucket = matches!(told, Limit::TokenBucket(_));
        let alike = std::mem::discriminant(&here) == std::mem::discriminant(&told)
            && (is_bucket || period_nanos(&here) == period_nanos(&told));
        if !alike {
            return None;
        }
        // A node's own limit takes precedence. After a reload it is unknown until a request brings it, or a
        // peer with the same rules.
        let corrects = agree && source != Source::Own && (is_ask || !is_known);
        let limit = if corrects { told } else { here };
        let Self { shelf, council, options, .. } = self;
        if is_new {
            let is_open = shelf.open(council, options, (key, &limit, place.tag), now).is_ok();
            shelf.books.note_told(&key);
            if !is_open {
                return None;
            }
        }
        let mut book = shelf.open(council, options, (key, &limit, place.tag), now).ok()?;
        if corrects {
            book.source = Source::Alike;
        }
        let me = &council.me;
        let page = book.page(place.tag)?;
        if !is_known && !is_bucket && source == Source::Others && !corrects {
            let agree = |member: &&Member| *member != me && council.rules.agree(&member.id);
            let alike = page.view.members().iter().filter(agree).count();
            page.set_aside(alike, &limit, options, now);
        }
        if page.view.id() != place.view {
            let view = council.chain()?.find(place.view)?;
            if view.fence() > page.view.fence() {
                // The peer's clock is a little ahead; the decided view applies.
                go_on(page, council, &Arc::clone(view), (me, key, &limit), now);
            } else if !(is_bucket && view.owner(key) == page.view.owner(key)) {
                return None;
            }
        }
        Some(limit)
    }

    /// Whether a peer may cause a counter to be opened here: one that this node owns, or a recall of one that
    /// the peer owns. Half of the table is reserved for local requests.
    fn may_open(&self, from: &Member, place: &Place) -> bool {
        let view = self.council.chain().and_then(|chain| chain.find(place.view));
        let owner = view.and_then(|view| view.owner(place.subject.key));
        let concerns = owner.is_some_and(|owner| owner == from || *owner == self.council.me);
        concerns && self.shelf.books.told() < self.options.max_keys.div_ceil(2)
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

    pub(super) fn on_report(&mut self, now: Timestamp, from: &Arc<Member>, place: &Place, report: &Report) {
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

    /// The update in a request is applied like any other.
    pub(super) fn hear_asker(&mut self, now: Timestamp, from: &Arc<Member>, place: &Place, report: &Report) {
        if self.shelf.books.contains_key(&place.subject.key) {
            self.on_report(now, from, place, report);
        }
    }

    pub(super) fn serve_returned(&mut self, now: Timestamp, place: &Place, report: &Report) {
        let (key, tag) = (place.subject.key, place.tag);
        if report.returned > 0 && self.parked.iter().any(|parked| parked.is_for(key, tag)) {
            self.serve_parked(now, place.subject.key, place.tag);
        }
    }

    /// Whether this generation has, or may get, the account of an update. Windows have only one.
    fn knows_account(&mut self, key: hivemind_core::store::Key, word: &Word) -> bool {
        let page = self.shelf.books.page(&key, 0);
        let known = page
            .is_some_and(|page| matches!(&page.side, Side::Purse(purse) if purse.serial() >= word.serial));
        word.serial == 0 || known || self.asks.values().any(|ask| ask.key == key)
    }

    pub(super) fn on_word(&mut self, now: Timestamp, from: &Member, place: &Place, word: &Word) {
        // Where the owner decides everything this is the single counter window, and it follows.
        let told = place.tag;
        let place = &self.place_here(now, place);
        let key = place.subject.key;
        if word.recall && !self.knows_account(key, word) {
            // What this generation does not hold it has spent, from the owner's point of view: so the owner has
            // room again.
            let report = Report { spent: word.granted, granted_seen: word.granted, ..Report::default() };
            let item = Item::Report(*place, Report { serial: word.serial, ..report });
            return self.urge(&from.id, item);
        }
        // An update opens a counter only if it recalls an untouched share.
        let concerns = word.recall || self.shelf.books.contains_key(&key);
        if !concerns || self.open_told(now, from, place).is_none() {
            return;
        }
        let Some(mut book) = self.shelf.books.get_mut(&key) else { return };
        let limit = book.limit();
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
        if book.counted.is_some() && place.tag == tag_at(&limit, now) {
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
}
