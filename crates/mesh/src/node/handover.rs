//! Buckets that go to another owner with a view. The last owner stops at the fence, and tells each next one what the buckets
//! held that go to it and were not full, in parcels that are repeated until they are taken; what it does not name was
//! full, as far back as it can account for. So nobody begins empty where the last owner lives; where it is dead nobody speaks
//! for it, and buckets do (docs/decisions/013). Whoever leaves names in the same way the long windows that it touched; what it does
//! not name is its next owner's, untouched ([`crate::council`], heirs).

use super::Node;
use crate::book::Book;
use crate::dictionary::Subject;
use crate::frame::{Item, Levels, MOST_LEVELS};
use crate::handed::{Stage, Told};
use crate::member::Member;
use crate::owner::NodeId;
use crate::page::{Page, Side};
use crate::view::{View, ViewId};
use crate::window::{is_left_to_others, tag_at};
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::Key;
use hivemind_core::{Cost, Limit, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a next owner that says nothing is told what it gets.
const PATIENCE: Duration = Duration::from_secs(3);

/// What this run has to tell of the buckets that it had.
#[derive(Clone, Debug)]
pub(super) struct Handover {
    /// The view that buckets are in here.
    view: Option<Arc<View>>,
    /// Since when this run accounts for all buckets that it had until then: others came to it unaccounted for.
    since: Timestamp,
    parcels: Vec<Parcel>,
}

/// What one next owner is to be told.
#[derive(Clone, Debug)]
struct Parcel {
    view: ViewId,
    to: Member,
    levels: Vec<(Subject, u32)>,
    taken: usize,
    /// When it was last told, if it has taken nothing since; and when it last took something.
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

    /// Another mesh: this run had none of its buckets.
    pub(super) fn begin_anew(&mut self, now: Timestamp) {
        *self = Self { since: now, ..Self::new() };
    }

    /// Whether all is told that is to be told of the newest view.
    pub(super) fn is_done(&self, head: Option<ViewId>) -> bool {
        self.parcels.is_empty() && self.view.as_ref().map(|view| view.id()) == head
    }

    pub(super) fn set_back(&mut self, earlier: impl Fn(&mut Timestamp)) {
        for parcel in &mut self.parcels {
            parcel.told.iter_mut().chain([&mut parcel.moved]).for_each(&earlier);
        }
    }

    /// A next owner has taken so many.
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
    /// Follows the view that buckets are in, and tells next owners what they get.
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
            // What may not be sent at once goes at the pace at which it would be repeated.
            let at_once = may_send && parcel.told.is_none();
            if at_once || now.since(parcel.told.unwrap_or(parcel.moved)) >= pause {
                parcel.told = Some(now);
                due.push((parcel.to.id.clone(), parcel.part(since)));
            }
            now.since(parcel.moved) < PATIENCE
        });
        for (to, item) in due {
            // In a frame of its own: whoever cannot read it loses nothing else.
            self.send(&to, super::Lane::Ask, &[item], now);
        }
    }

    /// Since when this run accounts for the buckets that it has had until this view.
    fn account(&self, last: Option<&View>, view: &View) -> Timestamp {
        let (council, since) = (&self.council, self.handover.since);
        match last {
            Some(last) if last.has(&council.me) => since.max(council.accounted_since(last)),
            Some(_) => Timestamp::EPOCH, // It had none.
            None => {
                // Which of them came to it with views that it did not see hold is not known.
                let base = view.base.map(|base| council.chain().and_then(|chain| chain.find(base)));
                let had_some = base.is_some_and(|base| base.is_none_or(|base| base.has(&council.me)));
                if had_some { since.max(view.fence()) } else { since }
            }
        }
    }

    /// Lists what was left of the buckets that go to others with this view.
    fn pack(&mut self, last: &View, view: &Arc<View>, now: Timestamp) {
        let me = self.council.me.clone();
        // Past the cap counters are counted alone, and what they held is not known.
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
        if !stays {
            // From here on it touches no other.
            council.left = Some(view.fence());
            for (key, limit) in shelf.books.all().into_iter().filter(|(_, limit)| is_left_to_others(limit)) {
                if let Some(parcel) = view.owner(key).and_then(|owner| lists.get_mut(owner)) {
                    parcel.push((Subject { key, limit }, 0));
                }
            }
        }
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
        let parcel = |(to, levels)| {
            let (view, taken) = (view.id(), 0);
            Parcel { view, to, levels, taken, told: None, moved: now }
        };
        self.handover.parcels = lists.into_iter().map(parcel).collect();
    }

    /// The last owner of buckets that came to this run with the view that holds says what they held.
    pub(super) fn on_levels(&mut self, now: Timestamp, from: &Arc<Member>, told: &Levels) {
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
        // Who is not listened to any more is told that all has come, so that it does not say it again.
        let taken = if so_far.stage == Stage::Void { told.count } else { so_far.taken };
        self.urge(&from.id, Item::Taken { view: view.id(), taken });
    }

    /// Takes those that are next, and with the last of them all others that it had.
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

    /// One bucket that was not full. Says no if it was not the other's to hand over, or there is no room for it.
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
            // Of another limit it says nothing.
            till.take_over(&by, if by == limit { u64::from(level) } else { 0 }, now);
        }
        true
    }

    /// A window that somebody who left has touched: what that one held comes back by itself, and nothing is inherited of it. Says
    /// no if it is not this node's, or there is no room for it.
    fn take_touched(&mut self, now: Timestamp, view: &View, subject: &Subject) -> bool {
        let Self { shelf, council, options, .. } = self;
        let Subject { key, limit } = *subject;
        let here = shelf.books.look(&key, Book::limit);
        let is_full = here.is_none() && shelf.books.told() >= options.max_keys.div_ceil(2);
        if view.owner(key) != Some(&council.me) || is_full {
            return false;
        }
        let by = here.unwrap_or(limit);
        // Its page is there as long as the window is, and so is what is noted here.
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

    /// All that were not full are named: what was asked for here before and is not among them was full then.
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

/// What a bucket holds that was empty at `since`; full, if that is before all time.
fn earned(limit: &Limit, since: Timestamp, at: Timestamp) -> u64 {
    if since == Timestamp::EPOCH {
        return u64::from(limit.burst());
    }
    let empty = step(limit, None, Action::Debit, Cost::new(u64::from(limit.burst())), since);
    step(limit, Some(empty.state), Action::Peek, Cost::new(0), at).verdict.available
}
