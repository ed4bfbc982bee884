//! The store port: the interface to counter storage. A store decides and records in one
//! step, because that is the only operation that all stores support: Redis decides in a
//! script and the mesh within its allowance, so get and set cannot be the port.
//!
//! ```
//! use hivemind_core::store::{Charge, Context, Key, KeySeed, LocalStore, MemoryStore, Parts, StoreOptions};
//! use hivemind_core::{Limit, Period, Timestamp};
//!
//! let (seed, limit) = (KeySeed::new([7; 16]), Limit::fixed_window(1, Period::MINUTE));
//! let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
//! let charge = Charge::spend(Key::new(&seed, ada, &limit, 0), ada, &limit);
//! let store = MemoryStore::new(StoreOptions::default());
//! assert!(store.decide_now(&[charge], Context::at(Timestamp::EPOCH)).committed);
//! assert!(!store.decide_now(&[charge], Context::at(Timestamp::EPOCH)).committed);
//! ```

mod batch;
mod memory;
mod overflow;
mod shard;
mod sweeper;

pub use crate::key::{Key, KeyPrefix, KeySeed, Parts};
pub use crate::sharing::Sharing;
pub use crate::verdict::{Outcome, Verdict, Verdicts};
pub use batch::{Counters, commits, decide_on, settle_on};
pub use memory::{MemoryStore, Occupancy, StoreOptions};
pub use sweeper::Sweeper;

use crate::limit::Limit;
use crate::time::Timestamp;
use crate::verdict::Cost;
use std::future::Future;

/// The operation of a charge.
///
/// ```
/// use hivemind_core::store::Op;
/// use hivemind_core::{Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(5, Period::MINUTE));
/// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
/// let limiter = Limiter::with_clock(rules, ManualClock::default(), LimiterOptions::default())?;
/// let left = |op| limiter.check("shop", &[Descriptor { op, ..Descriptor::new(&[("user", "ada")]) }]).remaining();
/// assert_eq!([left(Op::Spend), left(Op::Peek), left(Op::Refund)], [Some(4), Some(4), Some(5)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Op {
    /// Takes the cost if it fits.
    #[default]
    Spend,
    /// Returns whether it would fit, and records nothing.
    Peek,
    /// Gives it back. Never refused.
    Refund,
    /// Takes it whether it fits or not; it never stops a batch.
    Debit,
}

/// The effect of a charge's refusal on its batch.
///
/// ```
/// use hivemind_core::store::Mode;
/// use hivemind_core::{Limit, Limiter, Matcher, Period, Rule, Rules};
///
/// let mut rule = Rule::limit(Limit::fixed_window(0, Period::DAY));
/// rule.mode = Mode::Shadow; // It refuses everything, without effect.
/// let limiter = Limiter::new(Rules::new().with("shop", &[Matcher::any("user")], rule)?)?;
/// assert!(limiter.allow("shop", &[("user", "ada")]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// The batch is refused.
    #[default]
    Enforce,
    /// None: the refusal is only reported.
    Shadow,
    /// The batch is refused if all its quotas are. The charges of one descriptor, which are
    /// adjacent and have equal parts, are one quota, which any of them refuses.
    Quota,
}

/// How window limits count a refused batch. Token buckets never count it.
///
/// ```
/// use hivemind_core::{Cost, Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
/// use hivemind_core::store::OnRefusal;
///
/// let left_after_refusing = |cost, on_refusal| -> Result<_, Box<dyn std::error::Error>> {
///     let rule = Rule::limit(Limit::fixed_window(5, Period::MINUTE));
///     let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
///     let options = LimiterOptions { on_refusal, ..LimiterOptions::default() };
///     let limiter = Limiter::with_clock(rules, ManualClock::default(), options)?;
///     limiter.allow("shop", &[("user", "ada")]);
///     let too_much = Descriptor { cost: Cost::new(cost), ..Descriptor::new(&[("user", "ada")]) };
///     Ok(limiter.check("shop", &[too_much]).remaining())
/// };
/// assert_eq!(left_after_refusing(5, OnRefusal::CountRefusing)?, Some(0));
/// assert_eq!(left_after_refusing(5, OnRefusal::CountNone)?, Some(4));
// A cost above the limit can never pass, so only `CountAll` counts it.
/// assert_eq!(left_after_refusing(6, OnRefusal::CountRefusing)?, Some(4));
/// assert_eq!(left_after_refusing(6, OnRefusal::CountAll)?, Some(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnRefusal {
    /// Only the limits that refused count it, unless its cost is above the limit.
    #[default]
    CountRefusing,
    /// Every limit counts it, as the reference service does.
    CountAll,
    /// None counts it.
    CountNone,
}

impl OnRefusal {
    /// Whether a limit that refuses `cost` counts it. Counting a cost above the limit would bar requests that can pass.
    ///
    /// ```
    /// use hivemind_core::{Cost, Limit, Period, store::OnRefusal};
    ///
    /// let limit = Limit::fixed_window(5, Period::MINUTE);
    /// assert!(OnRefusal::CountRefusing.counts_refused(Cost::new(5), &limit));
    /// assert!(!OnRefusal::CountRefusing.counts_refused(Cost::new(6), &limit));
    /// assert!(OnRefusal::CountAll.counts_refused(Cost::new(6), &limit));
    /// ```
    #[must_use]
    #[inline]
    pub fn counts_refused(self, cost: Cost, limit: &Limit) -> bool {
        match self {
            Self::CountRefusing => cost.get() <= u64::from(limit.burst()),
            Self::CountAll => true,
            Self::CountNone => false,
        }
    }
}

/// One limit, charged once.
///
/// ```
/// use hivemind_core::store::{Charge, Key, KeySeed, Op, Parts};
/// use hivemind_core::{Cost, Limit, Period};
///
/// let (seed, limit) = (KeySeed::new([7; 16]), Limit::fixed_window(100, Period::MINUTE));
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// let one = Charge::spend(Key::new(&seed, ada, &limit, 0), ada, &limit);
/// let give_back = Charge { op: Op::Refund, cost: Cost::new(5), ..one };
/// assert_eq!(give_back.key, one.key); // The same counter.
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter's key.
    pub key: Key,
    /// The counter's readable parts, for stores that name counters by them and for display.
    pub parts: Parts<'a>,
    /// The limit.
    pub limit: &'a Limit,
    /// The position among counters of one kind on one descriptor; see [`Key::new`].
    pub ordinal: u16,
    /// The cost.
    pub cost: Cost,
    /// The operation.
    pub op: Op,
    /// The effect of a refusal.
    pub mode: Mode,
    /// How its counter is shared, in stores that share counters.
    pub sharing: Sharing,
}

impl<'a> Charge<'a> {
    /// The charge of an ordinary request: one unit on the first counter of its kind, enforced,
    /// with the store's default sharing.
    ///
    /// ```
    /// # use hivemind_core::{Cost, Limit, Period, store::{Charge, Key, Mode, Parts}};
    /// let (limit, parts) = (Limit::fixed_window(1, Period::DAY), Parts { domain: "", entries: &[] });
    /// let charge = Charge::spend(Key::from_bits(1, 2), parts, &limit);
    /// assert_eq!((charge.cost, charge.mode, charge.ordinal), (Cost::ONE, Mode::Enforce, 0));
    /// ```
    #[must_use]
    pub fn spend(key: Key, parts: Parts<'a>, limit: &'a Limit) -> Self {
        Self {
            key,
            parts,
            limit,
            ordinal: 0,
            cost: Cost::ONE,
            op: Op::Spend,
            mode: Mode::Enforce,
            sharing: Sharing::default(),
        }
    }
}

/// The context of a batch, common to its charges.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_core::store::{Context, OnRefusal};
///
/// let now = Timestamp::from_millis(1_000);
/// let context = Context::at(now);
/// assert_eq!(context.deadline, None);
/// let urgent = Context { deadline: Some(Timestamp::from_millis(1_050)), ..context };
/// assert_eq!((urgent.now, urgent.on_refusal), (now, OnRefusal::default()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The time of the decision, the same for all limits of a request.
    pub now: Timestamp,
    /// When the caller stops waiting, if it set a deadline.
    pub deadline: Option<Timestamp>,
    /// How a refused batch is counted.
    pub on_refusal: OnRefusal,
}

impl Context {
    /// A decision at `now` with no deadline and the default of [`OnRefusal`].
    ///
    /// ```
    /// # use hivemind_core::{Timestamp, store::Context};
    /// assert_eq!(Context::at(Timestamp::EPOCH).now, Timestamp::EPOCH);
    /// ```
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, deadline: None, on_refusal: OnRefusal::default() }
    }
}

/// No decision could be made. A refusal is not an error.
///
/// ```
/// use hivemind_core::store::StoreError;
///
/// let error = StoreError::Unreachable { reason: "connection refused".into() };
/// assert_eq!(error.to_string(), "store unreachable: connection refused");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The counter storage did not respond.
    #[error("store unreachable: {reason}")]
    Unreachable {
        /// The cause.
        reason: String,
    },
    /// The caller's deadline passed first.
    #[error("the caller's deadline passed before the store responded")]
    DeadlinePassed,
}

/// Counter storage that decides and records in one atomic step.
///
/// A batch commits unless an [`Mode::Enforce`] charge refuses, or it has
/// [`Mode::Quota`] charges and all of them refuse. A batch that does not commit
/// spends nothing on the limits that passed. Refunds and debits are always recorded.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_core::store::{Charge, Context, MemoryStore, Store, StoreOptions};
///
/// /// Requests without a decision pass.
/// async fn passes(store: &impl Store, batch: &[Charge<'_>], now: Timestamp) -> bool {
///     let context = Context::at(now);
///     match store.try_decide(batch, context) {
/// Some(verdicts) => verdicts.committed, // A store in this process never waits.
///         None => store.decide(batch, context).await.map_or(true, |verdicts| verdicts.committed),
///     }
/// }
/// let store = MemoryStore::new(StoreOptions::default());
/// assert!(hivemind_core::testing::block_on(passes(&store, &[], Timestamp::EPOCH)));
/// ```
pub trait Store: Send + Sync {
    /// Decides all charges of one request together.
    fn decide(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send;

    /// Decides without waiting, where that is possible. With `None`, nothing was recorded,
    /// and the caller has to await [`decide`](Self::decide). A caller with a fast path calls
    /// this first, and leaves the fast path only on `None`.
    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        let _ = (batch, context);
        None
    }

    /// Removes the counter of a charge: a connection was closed, or an operator reset a
    /// client. The cost is ignored; the whole charge is passed because some stores name
    /// counters by their readable parts.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, testing::block_on};
    /// # use hivemind_core::store::{Charge, Key, MemoryStore, Parts, Store, StoreOptions};
    /// # let (limit, parts) = (Limit::fixed_window(1, Period::DAY), Parts { domain: "", entries: &[] });
    /// # let store = MemoryStore::new(StoreOptions::default());
    /// let charge = Charge::spend(Key::from_bits(1, 2), parts, &limit);
    /// assert_eq!(block_on(store.forget(&charge)), Ok(())); // Also where no counter exists.
    /// ```
    fn forget(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A store in this process: it never waits and never fails. It also implements [`Store`].
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, LocalStore, MemoryStore, Parts, StoreOptions};
/// use hivemind_core::{Limit, Period, Timestamp};
///
/// let limit = Limit::fixed_window(1, Period::DAY);
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// let (charge, now) = (Charge::spend(Key::from_bits(1, 2), ada, &limit), Context::at(Timestamp::EPOCH));
/// let store = MemoryStore::new(StoreOptions::default());
/// assert!(store.decide_now(&[charge], now).committed && !store.decide_now(&[charge], now).committed);
/// store.forget_now(charge.key); // An operator resets ada.
/// assert!(store.decide_now(&[charge], now).committed);
/// ```
pub trait LocalStore: Send + Sync {
    /// Decides all charges of one request together.
    fn decide_now(&self, batch: &[Charge<'_>], context: Context) -> Verdicts;

    /// Removes one counter.
    fn forget_now(&self, key: Key);
}

impl<L: LocalStore> Store for L {
    fn decide(
        &self,
        batch: &[Charge<'_>],
        context: Context,
    ) -> impl Future<Output = Result<Verdicts, StoreError>> + Send {
        std::future::ready(Ok(self.decide_now(batch, context)))
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        Some(self.decide_now(batch, context))
    }

    fn forget(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.forget_now(charge.key);
        std::future::ready(Ok(()))
    }
}
