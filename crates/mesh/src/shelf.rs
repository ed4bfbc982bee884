//! The books of a node, and how a page comes to be opened: by the view its window began in,
//! and by the view that holds now. Bounded: a counter past the cap is not shared.

use crate::book::Book;
use crate::books::{Books, OpenBook};
use crate::codec::{period_nanos, tag_at};
use crate::council::{Begun, Council};
use crate::member::Member;
use crate::options::MeshOptions;
use crate::page::{Page, Regime, Side};
use crate::slip::Slip;
use crate::till::Till;
use crate::view::View;
use hashbrown::HashMap;
use hivemind_core::algorithm::{Action, STEP_BACK};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A key's low half is a hash already (docs/decisions/006).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

pub(crate) type KeyMap<V> = HashMap<Key, V, BuildHasherDefault<KeyHasher>>;

/// How long what says nothing any more is kept, as the memory store does: a clock may step back several times.
pub(crate) const IDLE: std::time::Duration = std::time::Duration::from_secs(300);

/// How far sweeping goes on at once, at first: they are a second apart.
const STRIDE: std::time::Duration = std::time::Duration::from_secs(1);

/// All books of this node.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) books: Books,
    /// The latest moment that was seen. A window that is over by it is not opened again, since its page
    /// may be gone: a clock that steps back finds no second limit there.
    latest: Timestamp,
    /// By when windows are swept, and how far that goes on at once. A clock that leaps for a moment must not take the
    /// pages of windows along that go on when it is back.
    calm: Timestamp,
    stride: std::time::Duration,
    /// Decisions on counters past the cap.
    pub(crate) unshared: u64,
    /// What was admitted above limits, of windows that are over and were this node's.
    pub(crate) overadmission: u64,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPage {
    /// Too many counters are shared already.
    Full,
    /// Its rule says that it is not shared.
    Unshared,
    /// No view is known for it, or none is decided yet, or its window is not open.
    NoView,
}

impl Shelf {
    pub(crate) fn new() -> Self {
        Self {
            books: Books::new(),
            latest: Timestamp::EPOCH,
            calm: Timestamp::EPOCH,
            stride: STRIDE,
            unshared: 0,
            overadmission: 0,
        }
    }

    /// The book of a counter, with the page of this window open in the view that holds now.
    pub(crate) fn open(
        &mut self,
        council: &mut Council,
        options: &MeshOptions,
        (key, limit, tag): (Key, &Limit, u64),
        now: Timestamp,
    ) -> Result<OpenBook<'_>, NoPage> {
        self.see(now);
        let parts = self.books.parts();
        if !parts.is_fresh(now) {
            parts.begin_epoch(council.stays_until(now));
        }
        let epoch = parts.epoch();
        let Some(mut book) = self.books.get_or_insert(key, limit, now, options.max_keys) else {
            self.unshared += 1;
            return Err(NoPage::Full);
        };
        book.used = book.used.max(now);
        // The usual case first: a page that was opened in the present views.
        if book.limit == *limit && book.page(tag).is_some_and(|page| page.epoch == epoch) {
            return Ok(book);
        }
        if book.limit != *limit {
            book.change_limit(limit, (&council.me, key), options, now);
        }
        if book.page(tag).is_none() {
            let decides = council.current(now).is_some_and(|view| decides(limit, view, options));
            if !decides && tag.saturating_add(1) < tag_at(limit, self.latest) {
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

    /// The number of the page that a charge belongs to: that of its window. Where the owner decides everything
    /// there is one page, and the algorithm knows which window it is in.
    pub(crate) fn tag(
        &mut self,
        council: &Council,
        options: &MeshOptions,
        (key, limit): (Key, &Limit),
        now: Timestamp,
    ) -> u64 {
        let present = tag_at(limit, now);
        let decided = council.current(now).is_some_and(|view| decides(limit, view, options));
        if !decided {
            return present;
        }
        let last = |book: &Book| {
            let page = book.pages.last().filter(|page| decides(limit, &page.view, options));
            page.map(|page| page.tag)
        };
        self.books.look(&key, last).flatten().unwrap_or(present)
    }

    /// A clock that was set back is followed; one that only stepped back is not.
    fn see(&mut self, now: Timestamp) {
        let was_set = self.latest.since(now) > STEP_BACK;
        if was_set {
            // How long a purse without end has lived is no longer known; its till may be gone before it.
            self.books.retain(|slip| {
                let book = &slip.book;
                let is_bucket = matches!(book.limit, Limit::TokenBucket(_));
                !is_bucket || !book.pages.iter().all(Page::is_endless_purse)
            });
        }
        self.latest = if was_set { now } else { self.latest.max(now) };
    }

    /// Views changed, so every page is to be compared anew.
    pub(crate) fn views_changed(&mut self) {
        self.books.parts().views_changed();
    }

    /// The moment that windows are swept by: the latest, after a leap as soon as it has lasted for some sweeps.
    fn go_on_calmly(&mut self) -> Timestamp {
        let next = self.calm.saturating_add(self.stride);
        let lags = self.calm > Timestamp::EPOCH && next < self.latest;
        self.stride = if lags { self.stride.saturating_mul(2) } else { STRIDE };
        self.calm = if lags { next } else { self.latest };
        self.calm
    }

    /// Drops windows that are over, and buckets that nobody used until they were full again.
    /// Says which buckets nobody uses although their tokens are lent: they should come back.
    pub(crate) fn sweep(&mut self, options: &MeshOptions, now: Timestamp) -> Vec<Key> {
        self.see(now);
        let latest = self.go_on_calmly();
        let mut lent = Vec::new();
        let mut beyond = 0_u64;
        self.books.retain(|slip| {
            let Slip { key, book, listed, .. } = slip;
            let limit = book.limit;
            if matches!(limit, Limit::TokenBucket(_)) {
                let is_purse = book.pages.iter().all(Page::is_purse);
                let idle = latest.since(book.used) > outlives(&limit, is_purse);
                let is_lent = book.pages.iter().any(Page::is_lent);
                // By then purses that nobody used are gone.
                let is_quiet = latest.since(book.used) > outlives(&limit, true).saturating_add(IDLE / 10);
                if is_quiet && is_lent {
                    lent.push(*key);
                }
                return !idle || !is_purse && (*listed || is_lent);
            }
            // The last window is kept: slow clocks still ask for it, and a sliding one weighs it.
            let present = tag_at(&limit, latest);
            book.pages.retain(|page| {
                let start = Timestamp::from_nanos(page.tag.saturating_mul(period_nanos(&limit)));
                let stays = decides(&limit, &page.view, options);
                let until = start.saturating_add(outlives(&limit, page.is_purse()));
                let is_kept = page.tag.saturating_add(2) > present || stays && until > latest;
                if let Side::Till(till) = &page.side
                    && !is_kept
                    && !stays
                {
                    beyond = beyond.saturating_add(till.admitted_beyond());
                }
                is_kept
            });
            !book.pages.is_empty() || book.alone.1 > 0 && book.alone.0.saturating_add(2) > present
        });
        self.overadmission = self.overadmission.saturating_add(beyond);
        lent
    }
}

/// How long a page that has no end is kept. A purse goes first: one that outlived its till would tell the next
/// one all that it told the last.
fn outlives(limit: &Limit, is_purse: bool) -> std::time::Duration {
    limit.longest_memory().saturating_add(if is_purse { IDLE } else { 2 * IDLE })
}

fn decides(limit: &Limit, view: &View, options: &MeshOptions) -> bool {
    Regime::of(limit, view.members().len(), options) == Regime::Decides
}

fn begin(
    book: &Book,
    council: &mut Council,
    options: &MeshOptions,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) -> Result<Page, NoPage> {
    let me = council.me.clone();
    if matches!(limit, Limit::TokenBucket(_)) {
        let view = Arc::clone(council.settled(now).ok_or(NoPage::NoView)?);
        let mut page = Page::begun(0, view, (&me, key, limit), options, now);
        let since = Timestamp::from_nanos(now.as_nanos().saturating_sub(nanos(limit.longest_memory())));
        if let Side::Till(till) = &mut page.side
            && !council.owned_since(key, since, now)
        {
            // Another may have spent what it holds: it begins empty.
            till.apply(limit, Action::Debit, u64::from(limit.burst()), now);
        }
        return Ok(page);
    }
    let period = period_nanos(limit);
    let start = Timestamp::from_nanos(tag.saturating_mul(period));
    // One window ahead at most: there is room for so many pages.
    if start > now.saturating_add(options.early.min(limit.period().length())) {
        return Err(NoPage::NoView);
    }
    let Begun::In(view) = council.begin(start) else { return Err(NoPage::NoView) };
    let members = view.members().len();
    let agreed = view.owner(key).is_none_or(|owner| council.rules.agreed_before(&owner.id, start));
    let mut page = Page::begun(tag, view, (&me, key, limit), options, now);
    if let Side::Purse(purse) = &mut page.side
        && !agreed
    {
        // The owner may split by another limit. Nothing is returned either: it might never have been lent.
        *purse = crate::purse::Purse::new(0);
    }
    if let Side::Till(till) = &mut page.side {
        if let Some(before) = council.rules.may_still_hold(book.before.as_deref(), now) {
            let share = Regime::of(&before, members, options).share();
            till.may_reach(&before);
            till.change_share(limit, share, Page::moment(tag, limit, now));
        }
        if matches!(limit, Limit::SlidingWindow(_)) {
            carry_on(book, till, council, (key, limit, tag), now);
        }
        if till.state.is_some() {
            // It has reached this window from now on, even if a fast clock opened it early.
            till.apply(limit, Action::Peek, 0, Page::moment(tag, limit, now));
        }
    }
    Ok(page)
}

/// A sliding window weighs the one before it: what its owner knows of that, or that it was full.
fn carry_on(
    book: &Book,
    till: &mut Till,
    council: &Council,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) {
    let Some(before) = tag.checked_sub(1) else { return };
    let last = book.pages.iter().find(|page| page.tag == before);
    let start = Timestamp::from_nanos(before.saturating_mul(period_nanos(limit)));
    match last.map(|page| &page.side) {
        Some(Side::Till(last)) => till.state = last.state,
        None if council.owned_since(key, start, now.max(start)) => {}
        _ => {
            till.apply(limit, Action::Debit, u64::from(limit.requests()), start);
        }
    }
}

/// Moves a page into the view that holds now, if it is not there.
fn keep_up(
    book: &mut Book,
    council: &Council,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) -> Result<(), NoPage> {
    let me = council.me.clone();
    let is_bucket = matches!(limit, Limit::TokenBucket(_));
    let current = if is_bucket { council.settled(now) } else { council.current(now) };
    let current = current.ok_or(NoPage::NoView)?;
    let page = book.page(tag).ok_or(NoPage::NoView)?;
    if page.view.fence() < current.fence() {
        if let (Side::Till(till), Some(chain)) = (&mut page.side, council.chain()) {
            let (from, to) = (page.view.fence(), current.fence());
            let passed = chain.iter().filter(|view| view.fence() > from && view.fence() <= to);
            passed.for_each(|view| till.bury_gone(limit, view, now));
        }
        page.move_to(current, (&me, key, limit), now);
    }
    Ok(())
}

fn nanos(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Book {
    /// A reload gave the counter another limit: shares are reckoned with it from now on.
    fn change_limit(
        &mut self,
        limit: &Limit,
        (me, key): (&Member, Key),
        options: &MeshOptions,
        now: Timestamp,
    ) {
        let old = std::mem::replace(&mut self.limit, *limit);
        self.before = Some(Box::new(old));
        for page in &mut self.pages {
            page.change_limit((&old, limit), (me, key), options, now);
        }
    }
}
