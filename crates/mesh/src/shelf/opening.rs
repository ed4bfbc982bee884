//! How counter windows begin: a window's by the view that it starts in, a bucket's by the active view and the
//! handoff. And how they move into a later view.

use crate::book::Book;
use crate::council::{Begun, Council};
use crate::member::Member;
use crate::options::MeshOptions;
use crate::page::{Page, Regime, Side};
use crate::shelf::NoPage;
use crate::till::Till;
use crate::view::View;
use crate::window::{is_left_to_others, period_nanos};
use hivemind_core::algorithm::Action;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

/// The start of a window.
pub(super) fn start_of(limit: &Limit, tag: u64) -> Timestamp {
    Timestamp::from_nanos(tag.saturating_mul(period_nanos(limit)))
}

pub(super) fn begin(
    book: &Book,
    council: &mut Council,
    options: &MeshOptions,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) -> Result<Page, NoPage> {
    let me = council.me.clone();
    if matches!(limit, Limit::TokenBucket(_)) {
        let view = Arc::clone(council.settled(now).ok_or(NoPage::NoView)?);
        let mut page = Page::begun(0, Arc::clone(&view), (&me, key, limit), options, now);
        if let Side::Till(till) = &mut page.side {
            **till = Till::of_bucket(limit, council.start(key, limit, &view, now), &view);
        }
        return Ok(page);
    }
    let start = start_of(limit, tag);
    // At most one window ahead: there is room for that many.
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
        // The owner may split by another limit. Nothing is returned either: it might never have been granted.
        *purse = crate::purse::Purse::new(0);
    }
    if let Side::Till(till) = &mut page.side {
        let others = page.view.members().iter().map(|member| &member.id).filter(|id| **id != me.id);
        let before = book.aside.get().before;
        if let Some(before) = council.rules.may_still_hold(before.as_ref(), others, start) {
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
    if is_left_to_others(limit) {
        settle_estate(&mut page, book, council, options, (key, limit), now);
    }
    Ok(page)
}

/// Applies inheritance: removes the share that this node has left to others, and adds what others have left to
/// it.
fn settle_estate(
    page: &mut Page,
    book: &Book,
    council: &Council,
    options: &MeshOptions,
    (key, limit): (Key, &Limit),
    now: Timestamp,
) {
    let start = start_of(limit, page.tag);
    if council.has_left(start) {
        page.give_up();
        return;
    }
    let is_touched = book.aside.get().touched.is_some_and(|fence| start < fence);
    // Only in the active view: the counter window moves there next.
    let Some(current) = council.current(now).filter(|_| !is_touched) else { return };
    if current.fence() <= page.view.fence() {
        return;
    }
    let parts = council.left_to_me(key, start, current.fence());
    let more = parts.iter().map(|member| Page::part_of(member, &page.view, (key, limit), options));
    let more = more.fold(0, u64::saturating_add);
    if more > 0 {
        page.inherit(more, limit, now);
    }
}

/// A sliding window weighs the previous one: as its owner knows it, or as if it had been full.
fn carry_on(
    book: &Book,
    till: &mut Till,
    council: &Council,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) {
    let Some(before) = tag.checked_sub(1) else { return };
    let last = book.pages.iter().find(|page| page.tag == before);
    let start = start_of(limit, before);
    match last.map(|page| &page.side) {
        Some(Side::Till(last)) => till.follow(last, before),
        None if council.owned_since(key, start, now.max(start)) => {}
        _ => till.follow_a_full_one(limit, start),
    }
}

/// Moves a counter window into a later view.
pub(crate) fn go_on(
    page: &mut Page,
    council: &Council,
    view: &Arc<View>,
    (me, key, limit): (&Member, Key, &Limit),
    now: Timestamp,
) {
    if matches!(limit, Limit::TokenBucket(_)) {
        let passage = council.passage((key, limit), &page.view, view, now);
        page.hand_on(view, &passage, (me, key, limit), now);
    } else {
        page.move_to(view, (me, key, limit), now);
    }
}

/// Moves a counter window into the active view, if it is not there.
pub(super) fn keep_up(
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
        go_on(page, council, current, (&me, key, limit), now);
    }
    Ok(())
}
