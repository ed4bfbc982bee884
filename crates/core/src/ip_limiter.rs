//! Per-address limiter: one token bucket per client address, for an accept loop or a
//! login form.

use crate::client_ip::ClientIp;
use crate::key::{Key, KeySeed, Parts};
use crate::limit::{Limit, Rate};
use crate::start_error::StartError;
use crate::store::{Charge, Context, MemoryStore, Occupancy, StoreOptions, Sweeper};
use crate::time::{Clock, SystemClock};
use crate::verdict::Cost;
use std::sync::Arc;
use std::time::Duration;

/// A rate limiter by client address: IPv4 by the address, IPv6 by its /64.
///
/// ```
/// use hivemind_core::{IpLimiter, Rate};
/// use std::{net::Ipv4Addr, time::Duration};
///
/// let limiter = IpLimiter::new(Rate::per_second(10)?, 2, Duration::from_secs(60))?;
/// let client = Ipv4Addr::new(203, 0, 113, 9);
/// assert!(limiter.allow(client));
/// assert!(limiter.allow(client));
/// assert!(!limiter.allow(client));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IpLimiter<C = SystemClock> {
    limit: Limit,
    store: Arc<MemoryStore>,
    seed: KeySeed,
    clock: C,
    sweeper: Sweeper,
}

impl IpLimiter {
    /// A bucket of `burst` tokens per address, refilled at `rate`. A bucket that has been
    /// full for an `eviction_interval` is removed at the next interval.
    ///
    /// ```
    /// # use hivemind_core::{IpLimiter, Rate};
    /// # use std::time::Duration;
    /// let without_burst = IpLimiter::new(Rate::per_second(10)?, 0, Duration::from_secs(60));
    /// assert!(without_burst.is_err());
    /// # Ok::<(), hivemind_core::LimitError>(())
    /// ```
    ///
    /// # Errors
    /// If `burst` or `eviction_interval` is zero, or the sweep thread cannot be started.
    pub fn new(rate: Rate, burst: u32, eviction_interval: Duration) -> Result<Self, StartError> {
        Self::with_clock(rate, burst, eviction_interval, SystemClock)
    }
}

impl<C: Clock + Clone + 'static> IpLimiter<C> {
    /// Like [`IpLimiter::new`], with the given clock.
    ///
    /// ```
    /// # use hivemind_core::{IpLimiter, ManualClock, Rate};
    /// # use std::{net::Ipv4Addr, time::Duration};
    /// let clock = ManualClock::default();
    /// let limiter = IpLimiter::with_clock(Rate::per_second(1)?, 1, Duration::from_secs(60), clock.clone())?;
    /// assert!(limiter.allow(Ipv4Addr::LOCALHOST) && !limiter.allow(Ipv4Addr::LOCALHOST));
    /// clock.advance(Duration::from_secs(1));
    /// assert!(limiter.allow(Ipv4Addr::LOCALHOST));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If `burst` or `eviction_interval` is zero, or the sweep thread cannot be started.
    pub fn with_clock(
        rate: Rate,
        burst: u32,
        eviction_interval: Duration,
        clock: C,
    ) -> Result<Self, StartError> {
        let limit = Limit::token_bucket(rate, burst)?;
        let options = StoreOptions { idle_ttl: eviction_interval, ..StoreOptions::default() };
        clock.now(); // The first reading may calibrate the clock, which no request should wait for.
        let store = Arc::new(MemoryStore::new(options));
        let sweeper = Sweeper::start(&store, clock.clone(), eviction_interval)?;
        Ok(Self { limit, store, seed: KeySeed::random(), clock, sweeper })
    }
}

impl<C: Clock> IpLimiter<C> {
    /// Takes a token from the client's bucket; returns whether one was available.
    ///
    /// ```
    /// # use hivemind_core::{IpLimiter, ManualClock, Rate};
    /// # use std::{net::Ipv6Addr, time::Duration};
    /// # let clock = ManualClock::default();
    /// let limiter = IpLimiter::with_clock(Rate::per_second(1)?, 1, Duration::from_secs(60), clock)?;
    /// assert!(limiter.allow("2001:db8::1".parse::<Ipv6Addr>()?));
    /// assert!(!limiter.allow("2001:db8::2".parse::<Ipv6Addr>()?)); // The same /64, the same bucket.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn allow(&self, client: impl Into<ClientIp>) -> bool {
        let key = Key::of_address(&self.seed, client.into());
        let parts = Parts { domain: "", entries: &[] }; // The memory store does not read them.
        let (limit, cost) = (&self.limit, Cost::ONE);
        let charge = Charge { cost, ..Charge::spend(key, parts, limit) };
        self.store.decide_alone(&charge, Context::at(self.clock.now())).0
    }

    /// The number of tracked addresses, with evictions and overflows.
    ///
    /// ```
    /// # use hivemind_core::{IpLimiter, Rate};
    /// # use std::{net::Ipv4Addr, time::Duration};
    /// let limiter = IpLimiter::new(Rate::per_second(1)?, 1, Duration::from_secs(60))?;
    /// limiter.allow(Ipv4Addr::LOCALHOST);
    /// assert_eq!(limiter.occupancy().keys, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn occupancy(&self) -> Occupancy {
        self.store.occupancy()
    }

    /// Removes the buckets that have been full for an eviction interval, and returns their number.
    ///
    /// ```
    /// # use hivemind_core::{IpLimiter, ManualClock, Rate};
    /// # use std::{net::Ipv4Addr, time::Duration};
    /// # let clock = ManualClock::default();
    /// let limiter = IpLimiter::with_clock(Rate::per_second(1)?, 1, Duration::from_secs(60), clock.clone())?;
    /// limiter.allow(Ipv4Addr::LOCALHOST);
    /// assert_eq!(limiter.sweep(), 0); // It is not full again.
    /// clock.advance(Duration::from_secs(62));
    /// assert_eq!(limiter.sweep(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep(&self) -> usize {
        self.store.sweep(self.clock.now())
    }

    /// Stops its thread, as dropping it does. It still decides, and then frees buckets only at its capacity.
    ///
    /// ```
    /// # use hivemind_core::{IpLimiter, Rate};
    /// # use std::{net::Ipv4Addr, time::Duration};
    /// let limiter = IpLimiter::new(Rate::per_second(1)?, 1, Duration::from_secs(60))?;
    /// limiter.close();
    /// assert!(limiter.allow(Ipv4Addr::LOCALHOST));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.sweeper.stop();
    }
}
