//! Redis store: decides the batch of a request with one call of the script.

use crate::breaker::Availability;
use crate::client::RedisClient;
use crate::local_decisions::{self, LocalDecisions};
use crate::metrics::StoreMetrics;
use crate::monitor::Monitor;
use crate::options::{OptionsError, RedisOptions};
use crate::script::{self, ScriptCall};
use crate::slots;
use crate::wait::Wait;
use hivemind_core::store::{Charge, Context, Store, StoreError, Verdicts};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Counters in Redis or Valkey. Threads with their own runtimes can share the store: each
/// runtime has a connection, which its first call creates.
///
/// ```no_run
/// use hivemind_core::store::{Charge, Context, Key, KeySeed, Parts, Store};
/// use hivemind_core::{Clock, Limit, Period, SystemClock};
/// use hivemind_redis::{RedisOptions, RedisStore};
///
/// # async fn decide() -> Result<(), Box<dyn std::error::Error>> {
/// let options = RedisOptions::new("redis://redis.example.org:6379");
/// let store = RedisStore::start(options, &tokio::runtime::Handle::current())?;
/// let (seed, limit) = (KeySeed::from_cluster_id("shop"), Limit::fixed_window(100, Period::MINUTE));
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// let charge = Charge::spend(Key::new(&seed, ada, &limit, 0), ada, &limit);
/// let passes = store.decide(&[charge], Context::at(SystemClock.now())).await?.committed;
/// if !store.is_available() {
///     println!("{:?}, {:?}", *store.availability().borrow(), store.metrics());
/// }
/// # Ok(())
/// # }
/// ```
pub struct RedisStore {
    client: Arc<RedisClient>,
    local: Arc<LocalDecisions>,
}

impl RedisStore {
    /// A store that connects in the background, on `runtime`, and reconnects when necessary.
    /// This does not wait: the store is unavailable until Redis responds.
    ///
    /// ```
    /// # use hivemind_redis::{RedisOptions, RedisStore};
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let store = RedisStore::start(RedisOptions::new("redis+unix:///nowhere.sock"), runtime.handle())?;
    /// assert!(!store.is_available()); // It has started, without a response so far.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the options are invalid.
    pub fn start(options: RedisOptions, runtime: &Handle) -> Result<Self, OptionsError> {
        let client = Arc::new(RedisClient::new(options, runtime)?);
        let options = &client.options;
        let (server, breaker) = (Arc::downgrade(&client.server), Arc::downgrade(&client.breaker));
        let monitor = Monitor::new(server, breaker, options.prefix.clone(), options.timeout);
        runtime.spawn(monitor.run());
        let local = Arc::new(LocalDecisions::new(options));
        if let Some(lease) = options.lease {
            let (client, local) = (Arc::downgrade(&client), Arc::downgrade(&local));
            runtime.spawn(local_decisions::return_leases(client, local, lease.longest));
        }
        Ok(Self { client, local })
    }

    /// Whether calls are sent to Redis: not before its first response, and not while the breaker is open.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.client.breaker.is_closed()
    }

    /// Whether Redis responds, with changes.
    #[must_use]
    pub fn availability(&self) -> watch::Receiver<Availability> {
        self.client.breaker.availability()
    }

    /// Counts since the start.
    #[must_use]
    pub fn metrics(&self) -> StoreMetrics {
        self.client.counts.snapshot()
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("options", &self.client.options).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        if batch.is_empty() {
            return Ok(Verdicts::new(true, []));
        }
        let (client, local) = (&self.client, &self.local);
        if let Some(verdicts) = local.decide(&client.counts, batch, context) {
            return Ok(verdicts);
        }
        client.check_breaker()?;
        let wait = Wait::of(context, client.options.timeout)?;
        if client.server.is_cluster() && slots::spans(&client.options.prefix, batch) {
            local.drop_all(batch);
            return slots::decide(client, batch, context, &wait).await;
        }
        let mut call = ScriptCall::new(client.call_options(context, false));
        let sides = local.write_call(&client.options.prefix, &mut call, batch, context);
        let response = client.call(&call, &wait).await?;
        let verdicts = local.record_response(&client.counts, batch, context, (&response, &sides));
        if verdicts.committed != response.committed {
            // The script of another version, or a state that another program wrote: neither is trusted.
            client.counts.errors.one();
            let reason = "its script decides differently; run the same version on all nodes".to_owned();
            return Err(StoreError::Unreachable { reason });
        }
        Ok(verdicts)
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        self.local.decide(&self.client.counts, batch, context)
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let name = script::name(&self.client.options.prefix, charge);
        let deleted = self.client.delete(name.as_str()).await;
        self.local.forget(charge);
        deleted
    }
}
