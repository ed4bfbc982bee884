//! The port to whatever keeps the counters. A store decides and records in one
//! step, because that is the only thing that all of them can do: Redis decides in
//! a script and the mesh over the rights it holds, so get and set cannot be the port.
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

pub use crate::key::{Key, KeyPrefix, KeySeed, Parts};
pub use crate::sharing::Sharing;
pub use crate::sweeper::Sweeper;
pub use crate::verdict::{Outcome, Verdict, Verdicts};
pub use batch::{Counters, commits, decide_on, settle_on};
pub use memory::{MemoryStore, Occupancy, StoreOptions};

use crate::limit::Limit;
use crate::time::Timestamp;
use crate::verdict::Cost;
use std::future::Future;

/// What a charge does.
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
    /// Take the cost if it fits.
    #[default]
    Spend,
    /// Say whether it would fit, and record nothing.
    Peek,
    /// Give it back. Never refused.
    Refund,
    /// Take it whether it fits or not; it never stops a batch.
    Debit,
}

/// What a refusal by this charge means for its batch.
///
/// ```
/// use hivemind_core::store::Mode;
/// use hivemind_core::{Limit, Limiter, Matcher, Period, Rule, Rules};
///
/// let mut rule = Rule::limit(Limit::fixed_window(0, Period::DAY));
/// rule.mode = Mode::Shadow; // It refuses everything, and nobody notices.
/// let limiter = Limiter::new(Rules::new().with("shop", &[Matcher::any("user")], rule)?)?;
/// assert!(limiter.allow("shop", &[("user", "ada")]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// The batch is refused.
    #[default]
    Enforce,
    /// Nothing: it is only told.
    Shadow,
    /// The batch is refused if all its quotas are. The charges of one descriptor, which
    /// stand side by side and have equal parts, are one quota, refused by any of them.
    Quota,
}

/// What window limits record of a batch that was refused. A token bucket records nothing of it.
///
/// ```
/// use hivemind_core::{Cost, Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
/// use hivemind_core::store::OnRefusal;
///
/// let left_after_a_refusal = |on_refusal| -> Result<_, Box<dyn std::error::Error>> {
///     let rule = Rule::limit(Limit::fixed_window(5, Period::MINUTE));
///     let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
///     let options = LimiterOptions { on_refusal, ..LimiterOptions::default() };
///     let limiter = Limiter::with_clock(rules, ManualClock::default(), options)?;
///     let too_much = Descriptor { cost: Cost::new(6), ..Descriptor::new(&[("user", "ada")]) };
///     Ok(limiter.check("shop", &[too_much]).remaining())
/// };
/// assert_eq!(left_after_a_refusal(OnRefusal::CountRefusing)?, Some(0));
/// assert_eq!(left_after_a_refusal(OnRefusal::CountNone)?, Some(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnRefusal {
    /// The limits that refused count it, the others do not.
    #[default]
    CountRefusing,
    /// Every limit counts it, as the reference service does.
    CountAll,
    /// None counts it.
    CountNone,
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
    /// Which counter.
    pub key: Key,
    /// Its readable parts, for those who name counters or show them.
    pub parts: Parts<'a>,
    /// What the counter may admit.
    pub limit: &'a Limit,
    /// Which of the counters it is that one descriptor has of one kind; see [`Key::new`].
    pub ordinal: u16,
    /// How much.
    pub cost: Cost,
    /// What to do.
    pub op: Op,
    /// What a refusal means.
    pub mode: Mode,
    /// How its counter is shared, for stores that do.
    pub sharing: Sharing,
}

impl<'a> Charge<'a> {
    /// The charge of an ordinary request: one unit of the first counter of its kind, enforced,
    /// and shared as its store does by default.
    ///
    /// ```
    /// # use hivemind_core::{Cost, Limit, Period, store::{Charge, Key, Mode, Parts}};
    /// let (limit, nobody) = (Limit::fixed_window(1, Period::DAY), Parts { domain: "", entries: &[] });
    /// let charge = Charge::spend(Key::from_bits(1, 2), nobody, &limit);
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

/// What all charges of a batch share.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_core::store::{Context, OnRefusal};
///
/// let now = Timestamp::from_millis(1_000);
/// let patient = Context::at(now);
/// assert_eq!(patient.deadline, None);
/// let hurried = Context { deadline: Some(Timestamp::from_millis(1_050)), ..patient };
/// assert_eq!((hurried.now, hurried.on_refusal), (now, OnRefusal::default()));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The moment of the decision: two limits of one request see one time.
    pub now: Timestamp,
    /// When the caller stops waiting, if it said so.
    pub deadline: Option<Timestamp>,
    /// What a refused batch leaves behind.
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

/// Why no decision could be made. A refusal is not one of these.
///
/// ```
/// use hivemind_core::store::StoreError;
///
/// let error = StoreError::Unreachable { reason: "connection refused".into() };
/// assert_eq!(error.to_string(), "the store cannot be reached: connection refused");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Whoever keeps the counters did not answer.
    #[error("the store cannot be reached: {reason}")]
    Unreachable {
        /// What was seen.
        reason: String,
    },
    /// The caller's deadline passed first.
    #[error("the caller's deadline passed before the store answered")]
    DeadlinePassed,
}

/// Decides and records in one atomic step.
///
/// A batch commits unless an [`Mode::Enforce`] charge refuses, or it has
/// [`Mode::Quota`] charges and all of them refuse. A batch that does not commit
/// spends nothing on the limits that passed. Refunds and debits are always recorded.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_core::store::{Charge, Context, MemoryStore, Store, StoreOptions};
///
/// /// Who cannot be decided about may pass.
/// async fn passes(store: &impl Store, batch: &[Charge<'_>], now: Timestamp) -> bool {
///     let context = Context::at(now);
///     match store.try_decide(batch, context) {
///         Some(verdicts) => verdicts.committed, // In this process there is nothing to wait for.
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

    /// Decides them without waiting, where that can be done. `None` says that nothing was
    /// recorded, and that [`decide`](Self::decide) is to be awaited: whoever must not wait
    /// asks here first, and leaves its fast path only then.
    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        let _ = (batch, context);
        None
    }

    /// Forgets the counter of a charge: a connection was closed, or an operator reset a client.
    /// What is charged does not matter; all of it is there because some stores name counters by
    /// their readable parts.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, testing::block_on};
    /// # use hivemind_core::store::{Charge, Key, MemoryStore, Parts, Store, StoreOptions};
    /// # let (limit, nobody) = (Limit::fixed_window(1, Period::DAY), Parts { domain: "", entries: &[] });
    /// # let store = MemoryStore::new(StoreOptions::default());
    /// let charge = Charge::spend(Key::from_bits(1, 2), nobody, &limit);
    /// assert_eq!(block_on(store.forget(&charge)), Ok(())); // Also where there was nothing to forget.
    /// ```
    fn forget(&self, charge: &Charge<'_>) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A store in this process: nothing to wait for, nothing to fail. It is a [`Store`] as well.
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
/// store.forget_now(charge.key); // An operator lets ada off.
/// assert!(store.decide_now(&[charge], now).committed);
/// ```
pub trait LocalStore: Send + Sync {
    /// Decides all charges of one request together.
    fn decide_now(&self, batch: &[Charge<'_>], context: Context) -> Verdicts;

    /// Forgets one counter.
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
