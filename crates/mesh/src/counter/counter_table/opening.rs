//! Opening of counter windows: a window begins in the view that is effective at its start, a bucket in the active view
//! and by the handoff. Also their move into a later view.

use crate::counter::Counter;
use crate::counter::counter_table::WindowUnavailable;
use crate::counter::counter_window::{CounterWindow, Regime, Side};
use crate::counter::owner_ledger::OwnerLedger;
use crate::membership::{Membership, WindowView};
use crate::options::MeshOptions;
use crate::view::Member;
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
    counter: &Counter,
    membership: &mut Membership,
    options: &MeshOptions,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) -> Result<CounterWindow, WindowUnavailable> {
    let me = membership.me.clone();
    if matches!(limit, Limit::TokenBucket(_)) {
        let view = Arc::clone(membership.settled(now).ok_or(WindowUnavailable::NoView)?);
        let mut window = CounterWindow::begin(0, Arc::clone(&view), (&me, key, limit), options, now);
        if let Side::Ledger(ledger) = &mut window.side {
            **ledger = OwnerLedger::of_bucket(limit, membership.start(key, limit, &view, now), &view);
        }
        return Ok(window);
    }
    let start = start_of(limit, tag);
    // At most one window ahead: there is room for that many.
    if start > now.saturating_add(options.early.min(limit.period().length())) {
        return Err(WindowUnavailable::NoView);
    }
    let WindowView::In(view) = membership.begin(start) else { return Err(WindowUnavailable::NoView) };
    let members = view.members().len();
    let agreed = view.owner(key).is_none_or(|owner| membership.rules.agreed_before(&owner.id, start));
    let mut window = CounterWindow::begin(tag, view, (&me, key, limit), options, now);
    if let Side::Lease(lease) = &mut window.side
        && !agreed
    {
        // The owner may split by another limit. Nothing is returned either: it might never have been granted.
        *lease = crate::counter::lease::Lease::new(0);
    }
    if let Side::Ledger(ledger) = &mut window.side {
        let others = window.view.members().iter().map(|member| &member.id).filter(|id| **id != me.id);
        let before = counter.cold.get().before;
        if let Some(before) = membership.rules.may_still_hold(before.as_ref(), others, start) {
            let share = Regime::of(&before, members, options).share();
            ledger.may_reach(&before);
            ledger.change_share(limit, share, CounterWindow::moment(tag, limit, now));
        }
        if matches!(limit, Limit::SlidingWindow(_)) {
            carry_previous(counter, ledger, membership, (key, limit, tag), now);
        }
        if ledger.state.is_some() {
            // It has reached this window from now on, even if a fast clock opened it early.
            ledger.apply(limit, Action::Peek, 0, CounterWindow::moment(tag, limit, now));
        }
    }
    if is_left_to_others(limit) {
        apply_inheritance(&mut window, counter, membership, options, (key, limit), now);
    }
    Ok(window)
}

/// Applies inheritance: removes the share that this node has left to others, and adds what others have left to
/// it.
fn apply_inheritance(
    window: &mut CounterWindow,
    counter: &Counter,
    membership: &Membership,
    options: &MeshOptions,
    (key, limit): (Key, &Limit),
    now: Timestamp,
) {
    let start = start_of(limit, window.tag);
    if membership.has_left(start) {
        window.give_up();
        return;
    }
    let is_touched = counter.cold.get().touched.is_some_and(|effective_at| start < effective_at);
    // Only in the active view: the counter window moves there next.
    let Some(current) = membership.current(now).filter(|_| !is_touched) else { return };
    if current.effective_at() <= window.view.effective_at() {
        return;
    }
    let parts = membership.left_to_me(key, start, current.effective_at());
    let more =
        parts.iter().map(|member| CounterWindow::initial_share(member, &window.view, (key, limit), options));
    let more = more.fold(0, u64::saturating_add);
    if more > 0 {
        window.inherit(more, limit, now);
    }
}

/// A sliding window weighs the previous one: as its owner knows it, or as if it had been full.
fn carry_previous(
    counter: &Counter,
    ledger: &mut OwnerLedger,
    membership: &Membership,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) {
    let Some(before) = tag.checked_sub(1) else { return };
    let last = counter.windows.iter().find(|window| window.tag == before);
    let start = start_of(limit, before);
    match last.map(|window| &window.side) {
        Some(Side::Ledger(last)) => ledger.follow(last, before),
        None if membership.owned_since(key, start, now.max(start)) => {}
        _ => ledger.follow_a_full_one(limit, start),
    }
}

/// Moves a counter window into a later view.
pub(crate) fn move_to_view(
    window: &mut CounterWindow,
    membership: &Membership,
    view: &Arc<View>,
    (me, key, limit): (&Member, Key, &Limit),
    now: Timestamp,
) {
    if matches!(limit, Limit::TokenBucket(_)) {
        let bucket_move = membership.bucket_move((key, limit), &window.view, view, now);
        window.hand_off(view, &bucket_move, (me, key, limit), now);
    } else {
        window.move_to(view, (me, key, limit), now);
    }
}

/// Moves a counter window into the active view, if it is not there.
pub(super) fn follow_view(
    counter: &mut Counter,
    membership: &Membership,
    (key, limit, tag): (Key, &Limit, u64),
    now: Timestamp,
) -> Result<(), WindowUnavailable> {
    let me = membership.me.clone();
    let is_bucket = matches!(limit, Limit::TokenBucket(_));
    let current = if is_bucket { membership.settled(now) } else { membership.current(now) };
    let current = current.ok_or(WindowUnavailable::NoView)?;
    let window = counter.window(tag).ok_or(WindowUnavailable::NoView)?;
    if window.view.effective_at() < current.effective_at() {
        if let (Side::Ledger(ledger), Some(view_log)) = (&mut window.side, membership.view_log()) {
            let (from, to) = (window.view.effective_at(), current.effective_at());
            let passed =
                view_log.iter().filter(|view| view.effective_at() > from && view.effective_at() <= to);
            passed.for_each(|view| ledger.remove_dead_accounts(limit, view, now));
        }
        move_to_view(window, membership, current, (&me, key, limit), now);
    }
    Ok(())
}
