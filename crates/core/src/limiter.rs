//! An embeddable limiter: rules, counters and a clock in one value, without an async runtime.

use crate::decision::Decision;
use crate::key::{Entry, KeySeed};
use crate::rules::{Descriptor, Rules};
use crate::start_error::StartError;
use crate::store::{Context, LocalStore, MemoryStore, Occupancy, OnRefusal, StoreOptions, Sweeper};
use crate::time::{Clock, SystemClock};
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::time::Duration;

/// Options of a [`Limiter`] in addition to its rules.
///
/// ```
/// use hivemind_core::store::{OnRefusal, StoreOptions};
/// use hivemind_core::{Limiter, LimiterOptions, Rules, SystemClock};
///
/// let small = StoreOptions { max_keys: 10_000, ..StoreOptions::default() };
/// let options = LimiterOptions { store: small, on_refusal: OnRefusal::CountAll, ..LimiterOptions::default() };
/// let limiter = Limiter::with_clock(Rules::new(), SystemClock, options)?;
/// assert_eq!(limiter.occupancy().keys, 0);
/// # Ok::<(), hivemind_core::StartError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LimiterOptions {
    /// Capacity of its store.
    pub store: StoreOptions,
    /// How often it removes idle keys.
    pub sweep_interval: Duration,
    /// Whether window limits count a refused request.
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

/// A rate limiter with rules, in this process.
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
    /// A limiter that uses the system clock.
    ///
    /// ```
    /// # use hivemind_core::{Limiter, Rules};
    /// let limiter = Limiter::new(Rules::new())?;
    /// assert!(limiter.allow("shop", &[("user", "ada")])); // Without a rule, nothing is limited.
    /// # Ok::<(), hivemind_core::StartError>(())
    /// ```
    ///
    /// # Errors
    /// If the thread that removes idle keys cannot be started.
    pub fn new(rules: Rules) -> Result<Self, StartError> {
        Self::with_clock(rules, SystemClock, LimiterOptions::default())
    }
}

impl<C: Clock + Clone + 'static> Limiter<C> {
    /// A limiter that uses the given clock.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
    /// # let rule = Rule::limit(Limit::fixed_window(1, Period::SECOND));
    /// # let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
    /// let clock = ManualClock::default(); // A test sets the time.
    /// let limiter = Limiter::with_clock(rules, clock.clone(), LimiterOptions::default())?;
    /// assert!(limiter.allow("shop", &[("user", "ada")]) && !limiter.allow("shop", &[("user", "ada")]));
    /// clock.advance(Period::SECOND.length());
    /// assert!(limiter.allow("shop", &[("user", "ada")]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the sweep interval is zero, or the thread that removes idle keys cannot be started.
    pub fn with_clock(rules: Rules, clock: C, options: LimiterOptions) -> Result<Self, StartError> {
        clock.now(); // The first reading may calibrate the clock, which no request should wait for.
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
    /// Whether one request of the client that `entries` name passes; it is counted if so.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Limiter, Matcher, Period, Rule, Rules};
    /// let blocked = Rule::limit(Limit::fixed_window(0, Period::DAY));
    /// let limiter = Limiter::new(Rules::new().with("shop", &[Matcher::exact("user", "eve")], blocked)?)?;
    /// assert!(!limiter.allow("shop", &[("user", "eve")]) && limiter.allow("shop", &[("user", "ada")]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn allow(&self, domain: &str, entries: &[Entry<'_>]) -> bool {
        self.check(domain, &[Descriptor::new(entries)]).is_allowed()
    }

    /// Decides all descriptors of a request in one step: it passes all their limits or spends on none.
    ///
    /// ```
    /// # use hivemind_core::{Descriptor, Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
    /// let once = |requests| Rule::limit(Limit::fixed_window(requests, Period::MINUTE));
    /// let rules = Rules::new().with("api", &[Matcher::any("user")], once(5))?;
    /// let rules = rules.with("api", &[Matcher::any("path")], once(1))?;
    /// let limiter = Limiter::with_clock(rules, ManualClock::default(), LimiterOptions::default())?;
    /// let (ada, path) = (Descriptor::new(&[("user", "ada")]), Descriptor::new(&[("path", "/export")]));
    /// assert!(limiter.check("api", &[ada, path]).is_allowed());
    /// assert!(!limiter.check("api", &[ada, path]).is_allowed()); // The path's limit refuses, so ...
    /// assert_eq!(limiter.check("api", &[ada]).remaining(), Some(3)); // ... ada's limit is not charged.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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

    /// Activates other rules, starting with the next request. Counters are kept: a changed
    /// limit continues with what its clients have used.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
    /// let daily = |requests| Rule::limit(Limit::fixed_window(requests, Period::DAY));
    /// let of = |requests| Rules::new().with("shop", &[Matcher::any("user")], daily(requests));
    /// let limiter = Limiter::with_clock(of(1)?, ManualClock::default(), LimiterOptions::default())?;
    /// assert!(limiter.allow("shop", &[("user", "ada")]));
    /// limiter.reload(of(2)?);
    /// assert!(limiter.allow("shop", &[("user", "ada")])); // The first one still counts ...
    /// assert!(!limiter.allow("shop", &[("user", "ada")])); // ... so a third is refused.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload(&self, rules: Rules) {
        let rules = Arc::new(rules.seeded(self.seed));
        let before = self.rules.swap(Arc::clone(&rules));
        if let Some(memory) = rules.longest_memory_after(&before) {
            let now = self.clock.now();
            self.store.hold(now, now.saturating_add(memory));
        }
    }

    /// Removes idle keys now, and returns how many were removed.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
    /// # let rule = Rule::limit(Limit::fixed_window(1, Period::SECOND));
    /// # let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
    /// # let clock = ManualClock::default();
    /// let limiter = Limiter::with_clock(rules, clock.clone(), LimiterOptions::default())?;
    /// limiter.allow("shop", &[("user", "ada")]);
    /// clock.advance(Period::HOUR.length());
    /// assert_eq!((limiter.sweep(), limiter.occupancy().keys), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep(&self) -> usize {
        self.store.sweep(self.clock.now())
    }

    /// How full its store is.
    ///
    /// ```
    /// # use hivemind_core::{Limiter, Rules};
    /// let occupancy = Limiter::new(Rules::new())?.occupancy();
    /// assert_eq!((occupancy.keys, occupancy.overflowed), (0, 0));
    /// # Ok::<(), hivemind_core::StartError>(())
    /// ```
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.store.occupancy()
    }

    /// Stops its thread, as dropping it does. It still decides, and then frees keys only at its capacity.
    ///
    /// ```
    /// # use hivemind_core::{Limiter, Rules};
    /// let limiter = Limiter::new(Rules::new())?;
    /// limiter.close();
    /// assert!(limiter.allow("shop", &[("user", "ada")]));
    /// # Ok::<(), hivemind_core::StartError>(())
    /// ```
    pub fn close(&self) {
        self.sweeper.stop();
    }
}
