//! Handoff of buckets to other owners with a view. The last owner stops at the fence, and sends each next owner
//! the levels of its buckets that were not full, in chunks that are repeated until acknowledged. Buckets that
//! it does not list were full, as far back as it knows. So no bucket begins empty while its last owner lives; a
//! dead owner sends nothing, and its buckets begin empty (docs/decisions/013). A leaver lists the long windows
//! that it touched in the same way; unlisted ones belong to the next owner, untouched ([`crate::council`],
//! heirs).

use super::Node;
use crate::dictionary::Subject;
use crate::frame::{Item, Levels, MOST_LEVELS};
use crate::member::Member;
use crate::owner::NodeId;
use crate::view::{View, ViewId};
use crate::window::is_left_to_others;
use hivemind_core::{Limit, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

mod taking;

/// How long a next owner without a reply receives its levels.
const PATIENCE: Duration = Duration::from_secs(3);

/// The handoff state of this generation's former buckets.
#[derive(Clone, Debug)]
pub(super) struct Handover {
    /// The view that buckets are in here.
    view: Option<Arc<View>>,
    /// The time since which this generation knows all buckets that it had: others moved to it unaccounted for.
    since: Timestamp,
    parcels: Vec<Parcel>,
}

/// The levels for one next owner.
#[derive(Clone, Debug)]
struct Parcel {
    view: ViewId,
    to: Member,
    levels: Vec<(Subject, u32)>,
    taken: usize,
    /// When it was last sent, if nothing was acknowledged since; and when something was last acknowledged.
    told: Option<Timestamp>,
    moved: Timestamp,
}

impl Parcel {
    fn part(&self, since: Timestamp) -> Item {
        let few = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let each = self.levels.iter().skip(self.taken).take(MOST_LEVELS).copied().collect();
        let (count, first) = (few(self.levels.len()), few(self.taken));
        Item::Levels(Levels { view: self.view, since, count, first, each })
    }
}

impl Handover {
    pub(super) fn new() -> Self {
        Self { view: None, since: Timestamp::EPOCH, parcels: Vec::new() }
    }

    /// Another mesh: this generation had none of its buckets.
    pub(super) fn begin_anew(&mut self, now: Timestamp) {
        *self = Self { since: now, ..Self::new() };
    }

    /// Whether everything about the newest view has been sent.
    pub(super) fn is_done(&self, head: Option<ViewId>) -> bool {
        self.parcels.is_empty() && self.view.as_ref().map(|view| view.id()) == head
    }

    pub(super) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        for parcel in &mut self.parcels {
            parcel.told.iter_mut().chain([&mut parcel.moved]).for_each(&earlier);
        }
    }

    /// A next owner acknowledged this many.
    pub(super) fn on_taken(&mut self, from: &Member, view: ViewId, taken: u32, now: Timestamp) {
        let taken = usize::try_from(taken).unwrap_or(usize::MAX);
        self.parcels.retain_mut(|parcel| {
            let is_it = parcel.to == *from && parcel.view == view;
            if is_it && taken > parcel.taken {
                (parcel.taken, parcel.told, parcel.moved) = (taken, None, now);
            }
            !is_it || taken < parcel.levels.len()
        });
    }
}

impl Node {
    /// Follows the view that buckets are in, and sends levels to next owners.
    pub(super) fn hand_over(&mut self, now: Timestamp) {
        let Some(view) = self.council.settled(now).map(Arc::clone) else { return };
        if self.handover.view.as_ref().is_none_or(|last| last.id() != view.id()) {
            self.council.pass(&view);
            self.shelf.views_changed();
            let last = self.handover.view.replace(Arc::clone(&view));
            self.handover.parcels.clear();
            let follows = last.as_ref().is_some_and(|last| view.base == Some(last.id()));
            self.handover.since = self.account(last.as_deref().filter(|_| follows), &view);
            if let Some(last) = last.filter(|_| follows) {
                self.pack(&last, &view, now);
            }
        }
        let (pause, since) = (self.options.sync_interval, self.handover.since);
        let may_send = self.budget.has_room();
        let mut due = Vec::new();
        self.handover.parcels.retain_mut(|parcel| {
            // What the budget does not allow immediately is sent at the repetition interval.
            let at_once = may_send && parcel.told.is_none();
            if at_once || now.since(parcel.told.unwrap_or(parcel.moved)) >= pause {
                parcel.told = Some(now);
                due.push((parcel.to.id.clone(), parcel.part(since)));
            }
            now.since(parcel.moved) < PATIENCE
        });
        for (to, item) in due {
            // In a separate frame: a peer that cannot read it loses nothing else.
            self.send(&to, super::Lane::Ask, &[item], now);
        }
    }

    /// The time since which this generation knows the buckets that it had until this view.
    fn account(&self, last: Option<&View>, view: &View) -> Timestamp {
        let (council, since) = (&self.council, self.handover.since);
        match last {
            Some(last) if last.has(&council.me) => since.max(council.accounted_since(last)),
            Some(_) => Timestamp::EPOCH, // It had none.
            None => {
                // Which of them moved to it with views that it did not see active is unknown.
                let base = view.base.map(|base| council.chain().and_then(|chain| chain.find(base)));
                let had_some = base.is_some_and(|base| base.is_none_or(|base| base.has(&council.me)));
                if had_some { since.max(view.fence()) } else { since }
            }
        }
    }

    /// Lists the levels of buckets that move to others with this view.
    fn pack(&mut self, last: &View, view: &Arc<View>, now: Timestamp) {
        let me = self.council.me.clone();
        // Over the cap, counters are counted alone, and their levels are unknown.
        let is_full = self.shelf.books.len() >= self.options.max_keys;
        if !self.options.hand_over || is_full || !last.has(&me) {
            return;
        }
        let named = |view: &View, id: &NodeId| view.members().iter().any(|other| other.id == *id);
        let stays = named(view, &me.id);
        let next = view.members().iter().filter(|to| to.id != me.id && !(stays && named(last, &to.id)));
        let mut lists: BTreeMap<Member, Vec<(Subject, u32)>> =
            next.map(|to| (to.clone(), Vec::new())).collect();
        if lists.is_empty() {
            return;
        }
        let Self { shelf, council, options, .. } = self;
        for (key, limit, _) in shelf.books.pages() {
            let goes = last.owner(key) == Some(&me) && view.owner(key) != Some(&me);
            if !matches!(limit, Limit::TokenBucket(_)) || !goes {
                continue;
            }
            let Ok(mut book) = shelf.open(council, options, (key, &limit, 0), now) else { return };
            let left = book.page(0).and_then(|page| page.left_at(view.id()));
            let parcel = view.owner(key).and_then(|owner| lists.get_mut(owner));
            if let (Some(left), Some(parcel)) = (left.filter(|left| *left < limit.burst()), parcel) {
                parcel.push((Subject { key, limit }, left));
            }
        }
        if !stays {
            // From here on it touches no other. Listed after the buckets: of those each chunk counts by itself,
            // of these all or nothing.
            council.left = Some(view.fence());
            for (key, limit) in shelf.books.all().into_iter().filter(|(_, limit)| is_left_to_others(limit)) {
                if let Some(parcel) = view.owner(key).and_then(|owner| lists.get_mut(owner)) {
                    parcel.push((Subject { key, limit }, 0));
                }
            }
        }
        let parcel = |(to, levels)| {
            let (view, taken) = (view.id(), 0);
            Parcel { view, to, levels, taken, told: None, moved: now }
        };
        self.handover.parcels = lists.into_iter().map(parcel).collect();
    }
}
