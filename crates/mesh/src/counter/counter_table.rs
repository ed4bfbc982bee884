//! The counter table of a node, and how a counter window is opened: by the view its window began in, and by the
//! active view. Bounded: a counter over the cap is not shared.

use crate::counter::Counter;
use crate::counter::counter_map::{CounterMap, OpenCounter};
use crate::counter::counter_window::{CounterWindow, Regime};
use crate::counter::limit_interner::LimitInterner;
use crate::membership::Membership;
use crate::options::MeshOptions;
use crate::window::tag_at;
use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use opening::{begin, follow_view, start_of};

mod opening;
mod sweep;

pub(crate) use opening::move_to_view;
use sweep::SweepProgress;

/// How long an expired counter is kept, like in the memory store: a clock may step back several times.
pub(crate) const IDLE: std::time::Duration = std::time::Duration::from_secs(300);

/// All counters of this node.
#[derive(Clone, Debug)]
pub(crate) struct CounterTable {
    pub(crate) counters: CounterMap,
    limits: LimitInterner,
    /// The latest time seen. A window that has ended by then is not opened again, since its state may be gone:
    /// after a clock step back the limit must not be available a second time.
    latest: Timestamp,
    sweep: SweepProgress,
    /// Decisions on counters over the cap.
    pub(crate) unshared: u64,
    /// What was admitted above limits, in closed windows that this node owned.
    pub(crate) overadmission: u64,
}

/// Why a counter window is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowUnavailable {
    /// The maximum number of counters is shared.
    Full,
    /// No view is known or decided for it, or its window is not open.
    NoView,
}

impl CounterTable {
    pub(crate) fn new() -> Self {
        Self {
            counters: CounterMap::new(),
            limits: LimitInterner::default(),
            latest: Timestamp::EPOCH,
            sweep: SweepProgress::default(),
            unshared: 0,
            overadmission: 0,
        }
    }

    /// Opens a counter, with this window in the active view.
    pub(crate) fn open(
        &mut self,
        membership: &mut Membership,
        options: &MeshOptions,
        (key, limit, tag): (Key, &Limit, u64),
        now: Timestamp,
    ) -> Result<OpenCounter<'_>, WindowUnavailable> {
        self.see(now);
        if tag != 0 && matches!(limit, Limit::TokenBucket(_)) {
            return Err(WindowUnavailable::NoView);
        }
        let shards = self.counters.shards();
        if !shards.is_fresh(now) {
            shards.begin_epoch(membership.stays_until(now));
        }
        let epoch = shards.epoch();
        let Some(mut counter) =
            self.counters.get_or_insert((key, limit), &mut self.limits, now, options.max_keys)
        else {
            self.unshared += 1;
            return Err(WindowUnavailable::Full);
        };
        counter.used = counter.used.max(now);
        let present = tag_at(limit, now);
        if counter.window(tag).is_some_and(|window| window.tag < present && window.decides(limit, options)) {
            // The single counter window goes on to the present window, which begins here and now.
            membership.begin(start_of(limit, present));
        }
        // The usual case first: a window that was opened in the present views.
        if counter.limit() == *limit && counter.window(tag).is_some_and(|window| window.epoch == epoch) {
            return Ok(counter);
        }
        if counter.limit() != *limit {
            counter.change_limit(self.limits.of(limit), options, now);
            counter.set_queued(true);
        }
        if counter.window(tag).is_none() {
            let decides = membership.current(now).is_some_and(|view| Regime::decides(limit, view, options));
            // Such a counter window has forgotten the windows it left, so they must not begin again.
            let was_left =
                counter.windows.iter().any(|window| window.tag > tag && window.began_for_all(limit, options));
            if !decides && tag.saturating_add(1) < tag_at(limit, self.latest) || was_left {
                return Err(WindowUnavailable::NoView);
            }
            let mut window = begin(&counter, membership, options, (key, limit, tag), now)?;
            window.take_off(counter.alone_in(tag), limit, CounterWindow::moment(tag, limit, now));
            counter.add(window);
        }
        follow_view(&mut counter, membership, (key, limit, tag), now)?;
        if let Some(window) = counter.window(tag) {
            window.epoch = epoch;
        }
        Ok(counter)
    }

    /// The window number of a charge. Where the owner decides everything there is a single counter window, and
    /// the algorithm knows which window it is in.
    pub(crate) fn tag(
        &mut self,
        membership: &Membership,
        options: &MeshOptions,
        (key, limit): (Key, &Limit),
        now: Timestamp,
    ) -> u64 {
        let present = tag_at(limit, now);
        let decided = membership.current(now).is_some_and(|view| Regime::decides(limit, view, options));
        if !decided {
            return present;
        }
        // It goes on to a window only if that window's view is decided.
        let goes_on = membership.may_begin(start_of(limit, present));
        let last = |counter: &Counter| {
            let window = counter.windows.last().filter(|window| window.decides(limit, options));
            window.map(|window| window.tag).filter(|tag| goes_on || *tag >= present)
        };
        self.counters.look(&key, last).flatten().unwrap_or(present)
    }

    /// A clock that was set back is followed; one that only stepped back is not.
    fn see(&mut self, now: Timestamp) {
        let was_set = self.latest.since(now) > STEP_BACK;
        if was_set {
            // The age of a lease without end is unknown; its ledger may be gone before it.
            self.counters.retain(|entry| {
                let counter = &entry.counter;
                let is_bucket = matches!(counter.limit(), Limit::TokenBucket(_));
                !is_bucket || !counter.windows.iter().all(CounterWindow::is_endless_lease)
            });
        }
        self.latest = if was_set { now } else { self.latest.max(now) };
    }

    /// Views changed: every window must be compared again.
    pub(crate) fn views_changed(&mut self) {
        self.counters.shards().views_changed();
    }
}
