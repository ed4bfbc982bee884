//! One window of one counter on this node: a ledger if this node owns it, a lease if not. A counter window
//! belongs to one view. When the view changes, a node keeps what it holds under the new view, and grants or
//! returns in flight under the old one are lost: never more than the limit.

use crate::counter::cold_fields::ColdFields;
use crate::counter::fast_path_entry::Epoch;
use crate::counter::grant_guard::GrantGuard;
use crate::counter::lease::{Lease, signed};
use crate::counter::owner_ledger::OwnerLedger;
use crate::frame::OwnerUpdate;
use crate::options::MeshOptions;
use crate::view::Member;
use crate::view::{View, ViewId};
use crate::window::period_nanos;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Timestamp};
use std::sync::Arc;

mod handoff;
mod inheritance;

pub(crate) use handoff::HANDOFF_PAUSE;

/// This node's side of a counter window: owner or member.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    Ledger(Box<OwnerLedger>),
    Lease(Lease),
}

/// One window of one counter; for a bucket, its whole life.
#[derive(Clone, Debug)]
pub(crate) struct CounterWindow {
    pub(crate) tag: u64,
    pub(crate) view: Arc<View>,
    /// When it was last compared with the active view.
    pub(crate) epoch: Epoch,
    pub(crate) side: Side,
    /// The number of members of the view it began in, if this generation was one of them; else 0, and it has no
    /// share of it.
    began_with: u8,
    cold: ColdFields<WindowColdFields>,
}

/// Fields that most counter windows do not need.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct WindowColdFields {
    /// What this node admitted in earlier views, or before it knew the view.
    before: u64,
    /// Which grants of a bucket's owner are accepted.
    guard: GrantGuard,
    /// This node's level of a bucket when the owner changed, and the view that changed it.
    left: Option<(ViewId, u32)>,
}

/// How a counter is shared in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regime {
    /// The owner grants allowance, and each member starts a window with this share.
    Grants { share: u64 },
    /// The owner decides every charge itself.
    Decides,
}

impl Regime {
    pub(crate) fn of(limit: &Limit, members: usize, options: &MeshOptions) -> Self {
        let members = u32::try_from(members.max(1)).unwrap_or(u32::MAX);
        match limit {
            _ if !options.grant_ahead || members == 1 => Self::Decides,
            // Too few tokens to grant some to each member: most of them would lie where they are not needed.
            Limit::TokenBucket(_) if limit.burst() / members < 3 => Self::Decides,
            Limit::FixedWindow(_) if limit.requests() / members >= options.split_from => {
                Self::Grants { share: u64::from(limit.requests() / members) }
            }
            _ => Self::Grants { share: 0 },
        }
    }

    /// Whether the owner decides every charge of a counter in this view.
    pub(crate) fn decides(limit: &Limit, view: &View, options: &MeshOptions) -> bool {
        Self::of(limit, view.members().len(), options) == Self::Decides
    }

    pub(crate) fn share(self) -> u64 {
        match self {
            Self::Grants { share } => share,
            Self::Decides => 0,
        }
    }
}

impl CounterWindow {
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
        if let Side::Ledger(ledger) = &self.side
            && let Some(state) = ledger.state
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
    pub(crate) fn begin(
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
            Side::Ledger(Box::new(OwnerLedger::begin(limit, share, &view, moment)))
        } else {
            let endless = matches!(limit, Limit::TokenBucket(_)) || regime == Regime::Decides;
            let start = if view.has(me) { share } else { 0 };
            Side::Lease(if endless { Lease::endless(now) } else { Lease::new(start) })
        };
        let members = u8::try_from(view.members().len()).unwrap_or(u8::MAX);
        let began_with = if view.has(me) { members } else { 0 };
        Self { tag, view, epoch: 0, side, began_with, cold: ColdFields::default() }
    }

    /// Applies an owner update, as far as it can be accepted.
    pub(crate) fn apply_update(&mut self, update: &OwnerUpdate, limit: &Limit, now: Timestamp) {
        let Side::Lease(lease) = &mut self.side else { return };
        let mut update = *update;
        if matches!(limit, Limit::TokenBucket(_)) && update.serial == lease.serial() {
            let is_reset = lease.is_reset_by(&update);
            let grant = update.granted.saturating_sub(lease.granted());
            let back = lease.back();
            let accepted = self.cold.change(|cold| {
                if is_reset {
                    cold.guard = GrantGuard::default();
                }
                cold.guard.accept(limit, grant, back, now)
            });
            update.granted = lease.granted().saturating_add(accepted);
        }
        lease.apply_update(&update);
    }

    /// Replaces the lease, where the owner refers to a later account.
    pub(crate) fn replace_lease(&mut self, now: Timestamp) {
        self.side = Side::Lease(Lease::endless(now));
        self.cold.change(|cold| cold.guard.reset());
    }

    /// This node already admitted this much of the window before it knew the view: deducts it from its share.
    pub(crate) fn take_off(&mut self, admitted: u64, limit: &Limit, now: Timestamp) {
        self.cold.change(|cold| cold.before = cold.before.saturating_add(admitted));
        match &mut self.side {
            Side::Ledger(ledger) if admitted > 0 => {
                ledger.apply(limit, Action::Debit, admitted, now);
                ledger.note_spent(admitted);
            }
            Side::Ledger(_) => {}
            Side::Lease(lease) => lease.lower_start(admitted),
        }
    }

    /// The owner began the window by the limit of a peer with other rules and does not know its own limit.
    /// `alike` members use its own rules and may have begun with an even share by them: reserves that much.
    pub(crate) fn reserve_shares(
        &mut self,
        alike: usize,
        limit: &Limit,
        options: &MeshOptions,
        now: Timestamp,
    ) {
        let members = self.view.members().len().max(1);
        if let Side::Ledger(ledger) = &mut self.side
            && Regime::of(limit, members, options) != Regime::Decides
        {
            let even = u64::from(limit.burst()).div_ceil(members as u64);
            let reserve = even.saturating_mul(alike as u64);
            ledger.apply(limit, Action::Debit, reserve, Self::moment(self.tag, limit, now));
        }
    }

    /// What this node may still admit by itself while the owner of a window cannot be reached: an even share,
    /// minus all that it admitted. Zero where windows are split, since it has its share. Zero for a generation
    /// that was not a member when the window began: each restart would get the share again.
    pub(crate) fn even_share(&self, limit: &Limit, options: &MeshOptions) -> i64 {
        let spent = match &self.side {
            Side::Lease(lease) => lease.spent(),
            Side::Ledger(_) => return 0,
        };
        // A node that began the window alone has shared it since then with all members of the view.
        let members = usize::from(self.began_with).max(self.view.members().len());
        if self.began_with == 0 || Regime::of(limit, members, options).share() > 0 {
            return 0;
        }
        let even = u64::from(limit.burst()).div_ceil(members as u64);
        signed(even.saturating_sub(self.cold.get().before.saturating_add(spent)))
    }

    /// What this node could spend now by itself.
    pub(crate) fn unspent(&self, limit: &Limit, now: Timestamp) -> i64 {
        match &self.side {
            Side::Ledger(ledger) => signed(ledger.left(limit, Self::moment(self.tag, limit, now))),
            Side::Lease(lease) => lease.unspent(),
        }
    }

    pub(crate) fn is_lease(&self) -> bool {
        matches!(self.side, Side::Lease(_))
    }

    pub(crate) fn is_endless_lease(&self) -> bool {
        matches!(&self.side, Side::Lease(lease) if lease.is_endless())
    }

    /// Whether members hold tokens of it, as far as this node knows.
    pub(crate) fn has_grants(&self) -> bool {
        matches!(&self.side, Side::Ledger(ledger) if ledger.held() > 0)
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
            Side::Ledger(ledger) => ledger.spent_here(),
            Side::Lease(lease) => lease.spent(),
        };
        self.cold.change(|cold| cold.before = cold.before.saturating_add(spent));
        // The previous owner knows what it granted; other nodes do not.
        let granted = match &self.side {
            Side::Ledger(ledger) => ledger.outstanding(),
            Side::Lease(_) => u64::MAX,
        };
        self.side = if owner == Some(me) {
            Side::Ledger(Box::new(OwnerLedger::inherited(limit, held, granted, moment)))
        } else {
            Side::Lease(Lease::new(held))
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
            Side::Ledger(ledger) => ledger.change_share(new, is, moment),
            // Tokens of the previous bucket go back to the owner.
            Side::Lease(lease) if matches!(new, Limit::TokenBucket(_)) => drop(lease.give_up(0)),
            // A larger share applies only to windows that begin with it.
            Side::Lease(lease) => lease.lower_start(was.saturating_sub(is)),
        }
    }
}
