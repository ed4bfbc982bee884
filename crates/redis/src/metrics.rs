//! Counts of the store's calls, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a store since its start.
///
/// ```
/// use hivemind_redis::{StoreMetrics, RedisOptions, RedisStore};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let store = RedisStore::start(RedisOptions::new("redis+unix:///nowhere.sock"), runtime.handle())?;
/// assert_eq!(store.metrics(), StoreMetrics::default()); // No call so far.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreMetrics {
    /// Calls of the script: one for each batch that Redis decided, more where it spans slots.
    pub script_calls: u64,
    /// Commands sent, including those repeated after a `NOSCRIPT` and returns of units.
    pub round_trips: u64,
    /// Batches refused because a counter was known to be over.
    pub refused_from_cache: u64,
    /// Batches admitted from a lease.
    pub admitted_from_lease: u64,
    /// Units leased.
    pub leased: u64,
    /// Leased units returned.
    pub lease_returned: u64,
    /// Batches that spanned slots and whose reservations were given back, because one slot refused.
    pub given_back: u64,
    /// Failed calls, without timeouts.
    pub errors: u64,
    /// Calls that exceeded the timeout or their caller's deadline.
    pub timeouts: u64,
    /// Calls that were not sent because the breaker was open.
    pub short_circuited: u64,
    /// Openings of the breaker.
    pub breaker_openings: u64,
    /// Connections created.
    pub connections: u64,
}

macro_rules! counts {
    ($($name:ident),* $(,)?) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(pub(crate) $name: Count,)*
        }

        impl Counts {
            pub(crate) fn snapshot(&self) -> StoreMetrics {
                StoreMetrics { $($name: self.$name.get(),)* }
            }
        }
    };
}

counts!(
    script_calls,
    round_trips,
    refused_from_cache,
    admitted_from_lease,
    leased,
    lease_returned,
    given_back,
    errors,
    timeouts,
    short_circuited,
    breaker_openings,
    connections,
);

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, many: u64) {
        self.0.fetch_add(many, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
