//! One window of one counter on this node: a ledger if this node owns it, a lease if not. A counter window
//! belongs to one view. When the view changes, a node keeps what it holds under the new view, and grants or
//! returns in flight under the old one are lost: never more than the limit.

use crate::annex::Annex;
use crate::frame::Word;
use crate::guard::Guard;
use crate::member::Member;
use crate::options::MeshOptions;
use crate::purse::{Purse, signed};
use crate::slip::Epoch;
use crate::till::Till;
use crate::view::{View, ViewId};
use crate::window::period_nanos;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

mod estate;
mod hands;

pub(crate) use hands::HANDED;

/// This node's side of a counter window: owner or member.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Till(Box<Till>),
    Purse(Purse),
}

/// One window of one counter; for a bucket, its whole life.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) tag: u64,
    pub(crate) view: Arc<View>,
    /// When it was last compared with the active view.
    pub(crate) epoch: Epoch,
    pub(crate) side: Side,
    /// The number of members of the view it began in, if this generation was one of them; else 0, and it has no
    /// share of it.
    began_with: u8,
    past: Annex<Past>,
}

/// Fields that most counter windows do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Past {
    /// What this node admitted in earlier views, or before it knew the view.
    before: u64,
    /// Which grants of a bucket's owner are accepted.
    guard: Guard,
    /// This node's level of a bucket when the owner changed, and the view that changed it.
    left: Option<(ViewId, u32)>,
}

/// How a counter is shared in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    /// The owner grants allowance, and each member starts a window with this share.
    Lends { share: u64 },
    /// The owner decides every charge itself.
    Decides,
}

impl Regime {
    pub(crate) fn of(limit: &Limit, members: usize, options: &MeshOptions) -> Self {
        let members = u32::try_from(members.max(1)).unwrap_or(u32::MAX);
        match limit {
            _ if !options.lend_ahead || members == 1 => Self::Decides,
            // Too few tokens to grant some to each member: most of them would lie where they are not needed.
            Limit::TokenBucket(_) if limit.burst() / members < 3 => Self::Decides,
            Limit::FixedWindow(_) if limit.requests() / members >= options.split_from => {
                Self::Lends { share: u64::from(limit.requests() / members) }
            }
            _ => Self::Lends { share: 0 },
        }
    }

    /// Whether the owner decides every charge of a counter in this view.
    pub(crate) fn decides(limit: &Limit, view: &View, options: &MeshOptions) -> bool {
        Self::of(limit, view.members().len(), options) == Self::Decides
    }

    pub(crate) fn share(self) -> u64 {
        match self {
            Self::Lends { share } => share,
            Self::Decides => 0,
        }
    }
}

impl Page {
    /// The time of a decision in this window. Where the owner decides everything it is `now`, in any window;
    /// else it is clamped to this window.
    pub(crate) fn moment_of(&self, limit: &Limit, options: &MeshOptions, now: Timestamp) -> Timestamp {
        if self.decides(limit, options) { now } else { Self::moment(self.tag, limit, now) }
    }

    /// Whether the owner decides every charge on it itself.
    pub(crate) fn decides(&self, limit: &Limit, options: &MeshOptions) -> bool {
        Regime::decides(limit, &self.view, options)
    }

    /// Whether it began as the single window for all window numbers, and may have covered earlier ones.
    pub(crate) fn began_for_all(&self, limit: &Limit, options: &MeshOptions) -> bool {
        self.began_with > 0 && Regime::of(limit, usize::from(self.began_with), options) == Regime::Decides
    }

    /// A counter that its owner decides moves to the window its state has reached.
    pub(crate) fn follow_state(&mut self, limit: &Limit, options: &MeshOptions) {
        if let Side::Till(till) = &self.side
            && let Some(state) = till.state
            && !matches!(limit, Limit::TokenBucket(_))
            && self.decides(limit, options)
        {
            self.tag = state.bits().0;
        }
    }

    /// The time of a decision, clamped to the window: clocks differ a little.
    pub(crate) fn moment(tag: u64, limit: &Limit, now: Timestamp) -> Timestamp {
        if matches!(limit, Limit::TokenBucket(_)) {
            return now;
        }
        let period = period_nanos(limit);
        let start = tag.saturating_mul(period);
        let last = start.saturating_add(period - 1);
        Timestamp::from_nanos(now.as_nanos().clamp(start, last))
    }

    /// A node's initial holding in a window that begins in `view`.
    pub(crate) fn begun(
        tag: u64,
        view: Arc<View>,
        (me, key, limit): (&Member, Key, &Limit),
        options: &MeshOptions,
        now: Timestamp,
    ) -> Self {
        let regime = Regime::of(limit, view.members().len(), options);
        let share = regime.share();
        let side = if view.owner(key) == Some(me) {
            let moment = Self::moment(tag, limit, now);
            Side::Till(Box::new(Till::begun(limit, share, &view, moment)))
        } else {
            let endless = matches!(limit, Limit::TokenBucket(_)) || regime == Regime::Decides;
            let start = if view.has(me) { share } else { 0 };
            Side::Purse(if endless { Purse::born(now) } else { Purse::new(start) })
        };
        let members = u8::try_from(view.members().len()).unwrap_or(u8::MAX);
        let began_with = if view.has(me) { members } else { 0 };
        Self { tag, view, epoch: 0, side, began_with, past: Annex::default() }
    }

    /// Applies an owner update, as far as it can be accepted.
    pub(crate) fn hear(&mut self, word: &Word, limit: &Limit, now: Timestamp) {
        let Side::Purse(purse) = &mut self.side else { return };
        let mut word = *word;
        if matches!(limit, Limit::TokenBucket(_)) && word.serial == purse.serial() {
            let is_reset = purse.is_reset_by(&word);
            let grant = word.granted.saturating_sub(purse.granted());
            let back = purse.back();
            let believed = self.past.change(|past| {
                if is_reset {
                    past.guard = Guard::default();
                }
                past.guard.believe(limit, grant, back, now)
            });
            word.granted = purse.granted().saturating_add(believed);
        }
        purse.hear(&word);
    }

    /// Replaces the lease, where the owner refers to a later account.
    pub(crate) fn begin_anew(&mut self, now: Timestamp) {
        self.side = Side::Purse(Purse::born(now));
        self.past.change(|past| past.guard.begin_anew());
    }

    /// This node already admitted this much of the window before it knew the view: deducts it from its share.
    pub(crate) fn take_off(&mut self, admitted: u64, limit: &Limit, now: Timestamp) {
        self.past.change(|past| past.before = past.before.saturating_add(admitted));
        match &mut self.side {
            Side::Till(till) if admitted > 0 => {
                till.apply(limit, Action::Debit, admitted, now);
                till.note_spent(admitted);
            }
            Side::Till(_) => {}
            Side::Purse(purse) => purse.lower_start(admitted),
        }
    }

    /// The owner began the window by the limit of a peer with other rules and does not know its own limit.
    /// `alike` members use its own rules and may have begun with an even share by them: reserves that much.
    pub(crate) fn set_aside(&mut self, alike: usize, limit: &Limit, options: &MeshOptions, now: Timestamp) {
        let members = self.view.members().len().max(1);
        if let Side::Till(till) = &mut self.side
            && Regime::of(limit, members, options) != Regime::Decides
        {
            let even = u64::from(limit.burst()).div_ceil(members as u64);
            let aside = even.saturating_mul(alike as u64);
            till.apply(limit, Action::Debit, aside, Self::moment(self.tag, limit, now));
        }
    }

    /// What this node may still admit by itself while the owner of a window cannot be reached: an even share,
    /// minus all that it admitted. Zero where windows are split, since it has its share. Zero for a generation
    /// that was not a member when the window began: each restart would get the share again.
    pub(crate) fn even_part(&self, limit: &Limit, options: &MeshOptions) -> i64 {
        let spent = match &self.side {
            Side::Purse(purse) => purse.spent(),
            Side::Till(_) => return 0,
        };
        // A node that began the window alone has shared it since then with all members of the view.
        let members = usize::from(self.began_with).max(self.view.members().len());
        if self.began_with == 0 || Regime::of(limit, members, options).share() > 0 {
            return 0;
        }
        let even = u64::from(limit.burst()).div_ceil(members as u64);
        signed(even.saturating_sub(self.past.get().before.saturating_add(spent)))
    }

    /// What this node could spend now by itself.
    pub(crate) fn unspent(&self, limit: &Limit, now: Timestamp) -> i64 {
        match &self.side {
            Side::Till(till) => signed(till.left(limit, Self::moment(self.tag, limit, now))),
            Side::Purse(purse) => purse.unspent(),
        }
    }

    pub(crate) fn is_purse(&self) -> bool {
        matches!(self.side, Side::Purse(_))
    }

    pub(crate) fn is_endless_purse(&self) -> bool {
        matches!(&self.side, Side::Purse(purse) if purse.is_endless())
    }

    /// Whether members hold tokens of it, as far as this node knows.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(&self.side, Side::Till(till) if till.held() > 0)
    }

    /// Moves this node's holding into `view`, a later view than the window's.
    pub(crate) fn move_to(
        &mut self,
        view: &Arc<View>,
        (me, key, limit): (&Member, Key, &Limit),
        now: Timestamp,
    ) {
        let moment = Self::moment(self.tag, limit, now);
        let owner = view.owner(key);
        let held = u64::try_from(self.unspent(limit, now)).unwrap_or(0);
        let spent = match &self.side {
            Side::Till(till) => till.spent_here(),
            Side::Purse(purse) => purse.spent(),
        };
        self.past.change(|past| past.before = past.before.saturating_add(spent));
        // The previous owner knows what it granted; other nodes do not.
        let lent = match &self.side {
            Side::Till(till) => till.outstanding(),
            Side::Purse(_) => u64::MAX,
        };
        self.side = if owner == Some(me) {
            Side::Till(Box::new(Till::inherited(limit, held, lent, moment)))
        } else {
            Side::Purse(Purse::new(held))
        };
        self.view = Arc::clone(view);
    }

    /// A reload: members now start with another share, and the ledger accounts for it.
    pub(crate) fn change_limit(
        &mut self,
        (old, new): (&Limit, &Limit),
        options: &MeshOptions,
        now: Timestamp,
    ) {
        let members = self.view.members().len();
        let (was, is) =
            (Regime::of(old, members, options).share(), Regime::of(new, members, options).share());
        let moment = Self::moment(self.tag, new, now);
        match &mut self.side {
            Side::Till(till) => till.change_share(new, is, moment),
            // Tokens of the previous bucket go back to the owner.
            Side::Purse(purse) if matches!(new, Limit::TokenBucket(_)) => drop(purse.give_up(0)),
            // A larger share applies only to windows that begin with it.
            Side::Purse(purse) => purse.lower_start(was.saturating_sub(is)),
        }
    }
}
