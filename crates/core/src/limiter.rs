//! A limiter to embed: rules, counters and a clock in one value, with no runtime.

use crate::decision::Decision;
use crate::key::{Entry, KeySeed};
use crate::rules::{Descriptor, Rules};
use crate::store::{Context, LocalStore, MemoryStore, Occupancy, OnRefusal, StoreOptions};
use crate::sweeper::Sweeper;
use crate::time::{Clock, SystemClock};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;

/// What a [`Limiter`] can be told beside its rules.
#[derive(Clone, Copy, Debug)]
pub struct LimiterOptions {
    /// How large it may grow.
    pub store: StoreOptions,
    /// How often it removes keys that say nothing any more.
    pub sweep_interval: Duration,
    /// What window limits record of a refused request.
    pub on_refusal: OnRefusal,
}

impl Default for LimiterOptions {
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            sweep_interval: Duration::from_secs(60),
            on_refusal: OnRefusal::default(),
        }
    }
}

/// Why a limiter cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A limit that makes no sense.
    #[error(transparent)]
    Limit(#[from] crate::limit::LimitError),
    /// A sweep without a pause.
    #[error("the sweep interval must be longer than 0; 60 s is usual")]
    ZeroSweepInterval,
    /// The system gave no thread to sweep with.
    #[error("the thread that removes idle keys cannot be started; raise the limit on threads: {0}")]
    Thread(#[from] std::io::Error),
}

/// Limits by rules, in this process.
///
/// ```
/// use hivemind_core::{Limit, Limiter, Matcher, Period, Rule, Rules};
///
/// let twice_a_day = Rule::limit(Limit::fixed_window(2, Period::DAY));
/// let rules = Rules::new().with("shop", &[Matcher::any("user")], twice_a_day)?;
/// let limiter = Limiter::new(rules)?;
/// assert!(limiter.allow("shop", &[("user", "ada")]));
/// assert!(limiter.allow("shop", &[("user", "ada")]));
/// assert!(!limiter.allow("shop", &[("user", "ada")]));
/// assert!(limiter.allow("shop", &[("user", "bob")]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter<C = SystemClock> {
    rules: ArcSwap<Rules>,
    store: Arc<MemoryStore>,
    seed: KeySeed,
    clock: C,
    on_refusal: OnRefusal,
    sweeper: Sweeper,
}

impl Limiter {
    /// A limiter by the machine's clock.
    ///
    /// # Errors
    /// If the thread that removes idle keys cannot be started.
    pub fn new(rules: Rules) -> Result<Self, StartError> {
        Self::with_clock(rules, SystemClock, LimiterOptions::default())
    }
}

impl<C: Clock + Clone + 'static> Limiter<C> {
    /// A limiter by another clock.
    ///
    /// # Errors
    /// If the sweep interval is zero, or the thread that removes idle keys cannot be started.
    pub fn with_clock(rules: Rules, clock: C, options: LimiterOptions) -> Result<Self, StartError> {
        clock.now(); // A clock may calibrate itself when it is first read: no request shall wait for that.
        let seed = KeySeed::random();
        let store = Arc::new(MemoryStore::new(options.store));
        let sweeper = Sweeper::start(&store, clock.clone(), options.sweep_interval)?;
        Ok(Self {
            rules: ArcSwap::from_pointee(rules.seeded(seed)),
            store,
            seed,
            clock,
            on_refusal: options.on_refusal,
            sweeper,
        })
    }
}

impl<C: Clock> Limiter<C> {
    /// Whether one request of whoever `entries` name may go on; it is counted if so.
    pub fn allow(&self, domain: &str, entries: &[Entry<'_>]) -> bool {
        self.check(domain, &[Descriptor::new(entries)]).is_allowed()
    }

    /// Decides all descriptors of a request in one step: it passes all their limits, or spends on none.
    pub fn check(&self, domain: &str, descriptors: &[Descriptor<'_>]) -> Decision {
        let rules = self.rules.load();
        let resolved = rules.resolve(domain, descriptors);
        let charges = resolved.charges(&self.seed);
        let context = Context { now: self.clock.now(), deadline: None, on_refusal: self.on_refusal };
        if let [charge] = charges.as_slice() {
            let (allowed, verdict) = self.store.decide_alone(charge, context);
            return Decision::of_one(allowed, charge, verdict);
        }
        Decision::new(&charges, &self.store.decide_now(&charges, context))
    }

    /// Puts other rules in force, from the next request on. Counters stay: a
    /// changed limit goes on from what its clients have used.
    pub fn reload(&self, rules: Rules) {
        let rules = Arc::new(rules.seeded(self.seed));
        let before = self.rules.swap(Arc::clone(&rules));
        if let Some(memory) = rules.longest_memory_after(&before) {
            let now = self.clock.now();
            self.store.hold(now, now.saturating_add(memory));
        }
    }

    /// Removes keys that say nothing any more, now, and returns how many went.
    pub fn sweep(&self) -> usize {
        self.store.sweep(self.clock.now())
    }

    /// How full it is.
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.store.occupancy()
    }

    /// Stops its thread, as dropping it does. It still answers, and then frees keys only at its cap.
    pub fn close(&self) {
        self.sweeper.stop();
    }
}
