//! Updates of counters by peers. Only equal (counter, view, window) match; totals are merged by their maximum;
//! updates of other views or windows are dropped.

use super::Node;
use crate::counter::counter_table::move_to_view;
use crate::counter::counter_window::{Regime, Side};
use crate::counter::{Counter, LimitSource};
use crate::frame::interner::CounterRef;
use crate::frame::{Item, MemberReport, OwnerUpdate, WindowRef};
use crate::view::Member;
use crate::window::{period_nanos, tag_at};
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

impl Node {
    /// Opens the window that a peer's message refers to. Returns its limit, if it is the same window here.
    pub(super) fn open_for_peer(
        &mut self,
        now: Timestamp,
        from: &Member,
        window_ref: &WindowRef,
    ) -> Option<Limit> {
        self.open_by(now, from, window_ref, false)
    }

    /// The same. A request for a grant was caused by a current request under that limit, so it corrects a limit
    /// that this node has from others. Other messages may carry a limit that their sender has not used since
    /// its reload.
    pub(super) fn open_by(
        &mut self,
        now: Timestamp,
        from: &Member,
        window_ref: &WindowRef,
        is_ask: bool,
    ) -> Option<Limit> {
        let CounterRef { key, limit: sent } = window_ref.counter;
        let agree = self.membership.rules.agree(&from.id);
        let has_window =
            |counter: &Counter| counter.windows.iter().any(|window| window.tag == window_ref.tag);
        let here =
            self.table.counters.look(&key, |counter| (counter.limit(), counter.source, has_window(counter)));
        let is_new = here.is_none();
        if is_new && !self.may_open(from, window_ref) {
            return None;
        }
        let (here, source, is_known) = here.unwrap_or((sent, LimitSource::Others, false));
        let is_bucket = matches!(sent, Limit::TokenBucket(_));
        let alike = std::mem::discriminant(&here) == std::mem::discriminant(&sent)
            && (is_bucket || period_nanos(&here) == period_nanos(&sent));
        if !alike {
            return None;
        }
        // A node's own limit takes precedence. After a reload it is unknown until a request brings it, or a
        // peer with the same rules.
        let corrects = agree && source != LimitSource::Own && (is_ask || !is_known);
        let limit = if corrects { sent } else { here };
        let Self { table, membership, options, .. } = self;
        if is_new {
            let is_open = table.open(membership, options, (key, &limit, window_ref.tag), now).is_ok();
            table.counters.mark_peer_opened(&key);
            if !is_open {
                return None;
            }
        }
        let mut counter = table.open(membership, options, (key, &limit, window_ref.tag), now).ok()?;
        if corrects {
            counter.source = LimitSource::Alike;
        }
        let me = &membership.me;
        let window = counter.window(window_ref.tag)?;
        if !is_known && !is_bucket && source == LimitSource::Others && !corrects {
            let agree = |member: &&Member| *member != me && membership.rules.agree(&member.id);
            let alike = window.view.members().iter().filter(agree).count();
            window.reserve_shares(alike, &limit, options, now);
        }
        if window.view.id() != window_ref.view {
            let view = membership.view_log()?.find(window_ref.view)?;
            if view.effective_at() > window.view.effective_at() {
                // The peer's clock is a little ahead; the decided view applies.
                move_to_view(window, membership, &Arc::clone(view), (me, key, &limit), now);
            } else if !(is_bucket && view.owner(key) == window.view.owner(key)) {
                return None;
            }
        }
        Some(limit)
    }

    /// Whether a peer may cause a counter to be opened here: one that this node owns, or a recall of one that
    /// the peer owns. Half of the table is reserved for local requests.
    fn may_open(&self, from: &Member, window_ref: &WindowRef) -> bool {
        let view = self.membership.view_log().and_then(|view_log| view_log.find(window_ref.view));
        let owner = view.and_then(|view| view.owner(window_ref.counter.key));
        let concerns = owner.is_some_and(|owner| owner == from || *owner == self.membership.me);
        concerns && self.table.counters.peer_opened() < self.options.max_keys.div_ceil(2)
    }

    /// Where the owner decides everything, it also decides which window it is.
    pub(super) fn window_ref_here(&mut self, now: Timestamp, window_ref: &WindowRef) -> WindowRef {
        let CounterRef { key, limit } = window_ref.counter;
        let view = self.membership.current(now);
        let members = view.map_or(0, |view| view.members().len());
        let decides = Regime::of(&limit, members, &self.options) == Regime::Decides;
        let tag = if decides {
            self.table.tag(&self.membership, &self.options, (key, &limit), now)
        } else {
            window_ref.tag
        };
        WindowRef { tag, ..*window_ref }
    }

    pub(super) fn on_report(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        window_ref: &WindowRef,
        report: &MemberReport,
    ) {
        let window_ref = &self.window_ref_here(now, window_ref);
        let Some(limit) = self.open_for_peer(now, from, window_ref) else { return };
        let Some(mut counter) = self.table.counters.get_mut(&window_ref.counter.key) else { return };
        let Some(window) = counter.window(window_ref.tag) else { return };
        let moment = window.moment_of(&limit, &self.options, now);
        let decides = window.decides(&limit, &self.options);
        let Side::Ledger(ledger) = &mut window.side else { return };
        let before = ledger.spent();
        ledger.apply_report(&limit, from, report, (decides, moment));
        let more = ledger.spent().saturating_sub(before);
        if report.eventual {
            ledger.mark_all_dirty();
            if window_ref.tag == tag_at(&limit, now) {
                counter.count_others(more, now);
            }
        }
        if let Some(window) = counter.window(window_ref.tag) {
            window.follow_state(&limit, &self.options);
        }
        counter.set_queued(true);
        drop(counter);
        self.serve_returned(now, window_ref, report);
    }

    /// The update in a request is applied like any other.
    pub(super) fn apply_asker_report(
        &mut self,
        now: Timestamp,
        from: &Arc<Member>,
        window_ref: &WindowRef,
        report: &MemberReport,
    ) {
        if self.table.counters.contains_key(&window_ref.counter.key) {
            self.on_report(now, from, window_ref, report);
        }
    }

    pub(super) fn serve_returned(&mut self, now: Timestamp, window_ref: &WindowRef, report: &MemberReport) {
        let (key, tag) = (window_ref.counter.key, window_ref.tag);
        if report.returned > 0 && self.parked.iter().any(|parked| parked.is_for(key, tag)) {
            self.serve_parked(now, window_ref.counter.key, window_ref.tag);
        }
    }

    /// Whether this generation has, or may get, the account of an update. Windows have only one.
    fn knows_account(&mut self, key: hivemind_core::store::Key, update: &OwnerUpdate) -> bool {
        let window = self.table.counters.window(&key, 0);
        let known = window.is_some_and(
            |window| matches!(&window.side, Side::Lease(lease) if lease.serial() >= update.serial),
        );
        update.serial == 0 || known || self.asks.values().any(|ask| ask.key == key)
    }

    pub(super) fn on_update(
        &mut self,
        now: Timestamp,
        from: &Member,
        window_ref: &WindowRef,
        update: &OwnerUpdate,
    ) {
        // Where the owner decides everything this is the single counter window, and it follows.
        let sent_tag = window_ref.tag;
        let window_ref = &self.window_ref_here(now, window_ref);
        let key = window_ref.counter.key;
        if update.recall && !self.knows_account(key, update) {
            // What this generation does not hold it has spent, from the owner's point of view: so the owner has
            // room again.
            let report = MemberReport {
                spent: update.granted,
                granted_seen: update.granted,
                ..MemberReport::default()
            };
            let item = Item::Report(*window_ref, MemberReport { serial: update.serial, ..report });
            return self.urge(&from.id, item);
        }
        // An update opens a counter only if it recalls an untouched share.
        let concerns = update.recall || self.table.counters.contains_key(&key);
        if !concerns || self.open_for_peer(now, from, window_ref).is_none() {
            return;
        }
        let Some(mut counter) = self.table.counters.get_mut(&key) else { return };
        let limit = counter.limit();
        let Some(window) = counter.window(window_ref.tag) else { return };
        if window.view.owner(key) != Some(from) {
            return;
        }
        window.tag = window.tag.max(sent_tag);
        let window_ref = &WindowRef { tag: window.tag, ..*window_ref };
        let view = window.view.id();
        let Side::Lease(lease) = &window.side else { return };
        let (others, is_reset) = (lease.others, lease.is_reset_by(update));
        window.apply_update(update, &limit, now);
        let Side::Lease(lease) = &mut window.side else { return };
        let more = if is_reset { 0 } else { lease.others.saturating_sub(others) };

        let recalled = update.recall.then(|| {
            lease.give_up(0);
            lease.mark_sent(now);
            lease.report()
        });
        if is_reset {
            counter.counted = None;
        }
        if counter.counted.is_some() && window_ref.tag == tag_at(&limit, now) {
            counter.count_others(more, now);
        }
        if let Some(report) = recalled {
            let item = Item::Report(WindowRef { view, ..*window_ref }, report);
            if let Some(link) = self.links.get_mut(&from.id) {
                link.urgent.push(item);
            }
        }
        counter.set_queued(true);
    }
}
