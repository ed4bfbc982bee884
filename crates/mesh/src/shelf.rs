//! The counter table of a node, and how a counter window is opened: by the view its window began in, and by the
//! active view. Bounded: a counter over the cap is not shared.

use crate::book::Book;
use crate::books::{Books, OpenBook};
use crate::council::Council;
use crate::limits::Limits;
use crate::options::MeshOptions;
use crate::page::{Page, Regime};
use crate::window::tag_at;
use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use opening::{begin, keep_up, start_of};

mod opening;
mod sweeping;

pub(crate) use opening::go_on;
use sweeping::Sweeping;

/// How long an expired counter is kept, like in the memory store: a clock may step back several times.
pub(crate) const IDLE: std::time::Duration = std::time::Duration::from_secs(300);

/// All counters of this node.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) books: Books,
    limits: Limits,
    /// The latest time seen. A window that has ended by then is not opened again, since its state may be gone:
    /// after a clock step back the limit must not be available a second time.
    latest: Timestamp,
    sweeping: Sweeping,
    /// Decisions on counters over the cap.
    pub(crate) unshared: u64,
    /// What was admitted above limits, in closed windows that this node owned.
    pub(crate) overadmission: u64,
}

/// Why a counter window is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPage {
    /// The maximum number of counters is shared.
    Full,
    /// No view is known or decided for it, or its window is not open.
    NoView,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        Self {
            books: Books::new(),
            limits: Limits::default(),
            latest: Timestamp::EPOCH,
            sweeping: Sweeping::default(),
            unshared: 0,
            overadmission: 0,
        }
    }

    /// Opens a counter, with this window in the active view.
    pub(crate) fn open(
        &mut self,
        council: &mut Council,
        options: &MeshOptions,
        (key, limit, tag): (Key, &Limit, u64),
        now: Timestamp,
    ) -> Result<OpenBook<'_>, NoPage> {
        self.see(now);
        if tag != 0 && matches!(limit, Limit::TokenBucket(_)) {
            return Err(NoPage::NoView);
        }
        let parts = self.books.parts();
        if !parts.is_fresh(now) {
            parts.begin_epoch(council.stays_until(now));
        }
        let epoch = parts.epoch();
        let Some(mut book) = self.books.get_or_insert((key, limit), &mut self.limits, now, options.max_keys)
        else {
            self.unshared += 1;
            return Err(NoPage::Full);
        };
        book.used = book.used.max(now);
        let present = tag_at(limit, now);
        if book.page(tag).is_some_and(|page| page.tag < present && page.decides(limit, options)) {
            // The single counter window goes on to the present window, which begins here and now.
            council.begin(start_of(limit, present));
        }
        // The usual case first: a window that was opened in the present views.
        if book.limit() == *limit && book.page(tag).is_some_and(|page| page.epoch == epoch) {
            return Ok(book);
        }
        if book.limit() != *limit {
            book.change_limit(self.limits.of(limit), options, now);
            book.set_listed(true);
        }
        if book.page(tag).is_none() {
            let decides = council.current(now).is_some_and(|view| Regime::decides(limit, view, options));
            // Such a counter window has forgotten the windows it left, so they must not begin again.
            let was_left = book.pages.iter().any(|page| page.tag > tag && page.began_for_all(limit, options));
            if !decides && tag.saturating_add(1) < tag_at(limit, self.latest) || was_left {
                return Err(NoPage::NoView);
            }
            let mut page = begin(&book, council, options, (key, limit, tag), now)?;
            page.take_off(book.alone_in(tag), limit, Page::moment(tag, limit, now));
            book.add(page);
        }
        keep_up(&mut book, council, (key, limit, tag), now)?;
        if let Some(page) = book.page(tag) {
            page.epoch = epoch;
        }
        Ok(book)
    }

    /// The window number of a charge. Where the owner decides everything there is a single counter window, and
    /// the algorithm knows which window it is in.
    pub(crate) fn tag(
        &mut self,
        council: &Council,
        options: &MeshOptions,
        (key, limit): (Key, &Limit),
        now: Timestamp,
    ) -> u64 {
        let present = tag_at(limit, now);
        let decided = council.current(now).is_some_and(|view| Regime::decides(limit, view, options));
        if !decided {
            return present;
        }
        // It goes on to a window only if that window's view is decided.
        let goes_on = council.may_begin(start_of(limit, present));
        let last = |book: &Book| {
            let page = book.pages.last().filter(|page| page.decides(limit, options));
            page.map(|page| page.tag).filter(|tag| goes_on || *tag >= present)
        };
        self.books.look(&key, last).flatten().unwrap_or(present)
    }

    /// A clock that was set back is followed; one that only stepped back is not.
    fn see(&mut self, now: Timestamp) {
        let was_set = self.latest.since(now) > STEP_BACK;
        if was_set {
            // The age of a lease without end is unknown; its ledger may be gone before it.
            self.books.retain(|slip| {
                let book = &slip.book;
                let is_bucket = matches!(book.limit(), Limit::TokenBucket(_));
                !is_bucket || !book.pages.iter().all(Page::is_endless_purse)
            });
        }
        self.latest = if was_set { now } else { self.latest.max(now) };
    }

    /// Views changed: every window must be compared again.
    pub(crate) fn views_changed(&mut self) {
        self.books.parts().views_changed();
    }
}
