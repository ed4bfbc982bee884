//! The next owner's side: levels of buckets that were not full, and long windows that a leaver touched.

use super::super::Node;
use crate::book::Book;
use crate::dictionary::Subject;
use crate::frame::{Item, Levels};
use crate::handed::{Stage, Told};
use crate::member::Member;
use crate::page::{Page, Side};
use crate::view::{View, ViewId};
use crate::window::{is_left_to_others, tag_at};
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::Key;
use hivemind_core::{Cost, Limit, Timestamp};
use std::sync::Arc;

impl Node {
    /// Handles levels from the last owner of buckets that moved to this generation with the active view.
    pub(in crate::node) fn on_levels(&mut self, now: Timestamp, from: &Arc<Member>, told: &Levels) {
        let Self { council, .. } = self;
        let Some(view) = council.settled(now).filter(|view| view.id() == told.view).map(Arc::clone) else {
            return;
        };
        let Some(chain) = council.chain() else { return };
        let Some(last) = view.base.and_then(|base| chain.find(base)).map(Arc::clone) else { return };
        if !last.has(from) || !view.has(&council.me) {
            return;
        }
        let known: Vec<ViewId> = chain.iter().map(|view| view.id()).collect();
        council.handed.keep(|id| known.contains(&id));
        let since = told.since.min(view.fence());
        let new = Told { since, count: told.count, taken: 0, stage: Stage::Coming };
        let mut so_far = *council.handed.of(view.id(), &from.id, new);
        if so_far.stage == Stage::Coming {
            self.take_levels(now, from, (&last, &view), told, &mut so_far);
            *self.council.handed.of(view.id(), &from.id, new) = so_far;
        }
        // A sender that is ignored gets an acknowledgement of everything, so that it stops repeating.
        let taken = if so_far.stage == Stage::Void { told.count } else { so_far.taken };
        self.urge(&from.id, Item::Taken { view: view.id(), taken });
    }

    /// Takes the next levels, and with the last of them all unlisted buckets.
    fn take_levels(
        &mut self,
        now: Timestamp,
        from: &Member,
        views: (&View, &View),
        told: &Levels,
        so_far: &mut Told,
    ) {
        if so_far.count != told.count || so_far.since != told.since.min(views.1.fence()) {
            so_far.stage = Stage::Void;
            return;
        }
        for (number, (subject, level)) in (told.first..).zip(&told.each) {
            if number < so_far.taken {
                continue;
            }
            if number > so_far.taken || number >= so_far.count {
                break;
            }
            if !self.take_level(now, from, views, subject, *level) {
                so_far.stage = Stage::Void;
                return;
            }
            so_far.taken += 1;
        }
        if so_far.taken == so_far.count {
            so_far.stage = Stage::Whole;
            self.take_the_rest(now, from, views, so_far.since);
        }
    }

    /// Takes one bucket that was not full. Returns false if the sender did not own it, or there is no room for
    /// it.
    fn take_level(
        &mut self,
        now: Timestamp,
        from: &Member,
        (last, view): (&View, &View),
        subject: &Subject,
        level: u32,
    ) -> bool {
        let Self { shelf, council, options, .. } = self;
        let Subject { key, limit } = *subject;
        if is_left_to_others(&limit) {
            return self.take_touched(now, view, subject);
        }
        let is_theirs = last.owner(key) == Some(from) && view.owner(key) == Some(&council.me);
        if !matches!(limit, Limit::TokenBucket(_)) || !is_theirs || level > limit.burst() {
            return false;
        }
        let here = shelf.books.look(&key, Book::limit);
        if here.is_none() && shelf.books.told() >= options.max_keys.div_ceil(2) {
            return false;
        }
        let by = here.unwrap_or(limit);
        let is_open = shelf.open(council, options, (key, &by, 0), now).map(drop).is_ok();
        if here.is_none() {
            shelf.books.note_told(&key);
        }
        let Some(mut page) = shelf.books.page(&key, 0).filter(|_| is_open) else { return false };
        if let Side::Till(till) = &mut page.side {
            // A level of another limit is meaningless.
            till.take_over(&by, if by == limit { u64::from(level) } else { 0 }, now);
        }
        true
    }

    /// A window that a leaver has touched: the leaver's holding comes back by itself, and its share is not
    /// inherited. Returns false if it is not this node's window, or the table is full.
    fn take_touched(&mut self, now: Timestamp, view: &View, subject: &Subject) -> bool {
        let Self { shelf, council, options, .. } = self;
        let Subject { key, limit } = *subject;
        let here = shelf.books.look(&key, Book::limit);
        let is_full = here.is_none() && shelf.books.told() >= options.max_keys.div_ceil(2);
        if view.owner(key) != Some(&council.me) || is_full {
            return false;
        }
        let by = here.unwrap_or(limit);
        // Its window exists as long as it is running, and so does this mark.
        let Ok(mut book) = shelf.open(council, options, (key, &by, tag_at(&by, now)), now) else {
            return false;
        };
        book.aside.change(|aside| aside.touched = aside.touched.max(Some(view.fence())));
        drop(book);
        if here.is_none() {
            shelf.books.note_told(&key);
        }
        true
    }

    /// All buckets that were not full are listed: an unlisted one that was requested here before was full then.
    fn take_the_rest(
        &mut self,
        now: Timestamp,
        from: &Member,
        (last, view): (&View, &View),
        since: Timestamp,
    ) {
        let awaits = |page: &Page| matches!(&page.side, Side::Till(till) if till.awaits());
        let mut rest: Vec<(Key, Limit)> = Vec::new();
        for part in self.shelf.books.parts().each() {
            let open = part.slips.iter().filter(|slip| {
                slip.book.pages.iter().any(|page| page.view.id() == view.id() && awaits(page))
            });
            let theirs = open.filter(|slip| last.owner(slip.key) == Some(from));
            rest.extend(theirs.map(|slip| (slip.key, slip.book.limit())));
        }
        for (key, limit) in rest {
            if let Some(mut page) = self.shelf.books.page(&key, 0)
                && let Side::Till(till) = &mut page.side
            {
                till.take_over(&limit, earned(&limit, since, view.fence()), now);
            }
        }
    }
}

/// The level of a bucket that was empty at `since`; full if that is the epoch.
fn earned(limit: &Limit, since: Timestamp, at: Timestamp) -> u64 {
    if since == Timestamp::EPOCH {
        return u64::from(limit.burst());
    }
    let empty = step(limit, None, Action::Debit, Cost::new(u64::from(limit.burst())), since);
    step(limit, Some(empty.state), Action::Peek, Cost::new(0), at).verdict.available
}
