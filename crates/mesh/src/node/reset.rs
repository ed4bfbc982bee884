//! A counter is reset: an operator did it, or a connection was closed. Its owner does it, once, whoever asks;
//! members hear of it with the owner's next word. Nothing that is held or in flight is made void (`till::reset`).

use super::Node;
use crate::dictionary::Subject;
use crate::frame::{Item, Place, Reply, Want};
use crate::member::Member;
use crate::page::Side;
use hivemind_core::store::{Key, LocalStore};
use hivemind_core::{Limit, Timestamp};

impl Node {
    /// Forgets what was spent of one counter, here and at its owner.
    pub fn forget(&mut self, key: Key, limit: &Limit, now: Timestamp) {
        let now = self.mesh_time(now);
        self.local.0.forget_now(key);
        let Self { shelf, council, options, .. } = self;
        let tag = shelf.tag(council, options, (key, limit), now);
        let Ok(mut book) = shelf.open(council, options, (key, limit, tag), now) else { return };
        (book.counted, book.part) = (None, None);
        let Some(page) = book.page(tag) else { return };
        let moment = page.moment_of(limit, options, now);
        let place = Place { subject: Subject { key, limit: *limit }, view: page.view.id(), tag };
        match &mut page.side {
            Side::Till(till) => {
                till.reset(limit, moment);
                book.set_listed(true);
            }
            Side::Purse(purse) => {
                let report = purse.report();
                purse.told(now);
                let Some(owner) = page.view.owner(key).map(|owner| owner.id.clone()) else { return };
                drop(book);
                let id = self.number();
                self.urge(&owner, Item::Ask { id, place, report, want: Want::Forget });
                self.flush_urgent(now);
            }
        }
    }

    /// A peer asks that a counter of this node's be reset. One that this node does not have needs no reset.
    pub(super) fn on_forget(&mut self, now: Timestamp, from: &Member, id: u64, place: &Place) {
        let key = place.subject.key;
        if !self.shelf.books.contains_key(&key) {
            return;
        }
        let Some(limit) = self.open_told(now, from, place) else { return };
        let Some(mut book) = self.shelf.books.get_mut(&key) else { return };
        let Some(page) = book.page(place.tag) else { return };
        let moment = page.moment_of(&limit, &self.options, now);
        let Side::Till(till) = &mut page.side else { return };
        till.reset(&limit, moment);
        (book.counted, book.part) = (None, None);
        book.set_listed(true);
        drop(book);
        self.answer(now, from, id, place, Reply::Lent);
    }
}
