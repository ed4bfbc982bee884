//! Builder of a rate limiter: counters, clock, identity, response format and log. All defaults are safe.

use crate::active_limits::ActiveLimits;
use crate::backend::{Backend, LocalBackend, RemoteBackend};
use crate::decision::Decision;
use crate::header_format::{HeaderFormat, Headers};
use crate::identity::Identity;
use crate::limiter::{LimiterError, LimiterInner, PeerLookup, RateLimiter, warn_capped_limits};
use crate::limiter_state::{LimiterState, Sleeper};
use crate::limits::Limits;
use crate::open_connections::OpenConnections;
use crate::peer::peer_address;
use crate::refusal_log::RefusalLog;
use crate::refusal_response::RefusalBody;
use arc_swap::ArcSwap;
use bytes::Bytes;
use hivemind_core::store::{KeySeed, LocalStore, MemoryStore, Store, StoreOptions, Sweeper};
use hivemind_core::{Clock, SystemClock};
use http::{Extensions, Response};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
const STORE_TIMEOUT: Duration = Duration::from_millis(50);

/// Builds a [`RateLimiter`].
///
/// ```
/// use hivemind_tower::{ClientAddress, ForwardingHeader, Headers, Identity, Limits, RateLimiter};
/// use std::time::Duration;
///
/// let proxies = ClientAddress::behind_proxies(["10.0.0.0/8"], ForwardingHeader::XForwardedFor)?;
/// let limiter = RateLimiter::builder(Limits::new())
///     .identity(Identity::usual(proxies))
///     .headers(Headers::X)
///     .reset_delta()
///     .text_body()
///     .store_timeout(Duration::from_millis(20))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct RateLimiterBuilder {
    limits: Limits,
    counters: CounterSource,
    clock: Arc<dyn Clock>,
    identity: Identity,
    headers: HeaderFormat,
    refusal_body: RefusalBody,
    log: Arc<RefusalLog>,
    peer: PeerLookup,
    fails_closed: bool,
    store_timeout: Duration,
    sleeper: Sleeper,
}

/// Where the limiter counts.
enum CounterSource {
    /// In a memory store of its own.
    Memory(StoreOptions),
    Backend(Box<dyn Backend>, KeySeed),
}

impl RateLimiterBuilder {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            counters: CounterSource::Memory(StoreOptions::default()),
            clock: Arc::new(SystemClock),
            identity: Identity::default(),
            headers: HeaderFormat::default(),
            refusal_body: RefusalBody::default(),
            log: Arc::default(),
            peer: Box::new(peer_address),
            fails_closed: false,
            store_timeout: STORE_TIMEOUT,
            sleeper: Box::new(|delay| Box::pin(wait(delay))),
        }
    }

    /// Bounds the counters in this process.
    ///
    /// ```
    /// # use hivemind_core::store::StoreOptions;
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let small = StoreOptions { max_keys: 10_000, ..StoreOptions::default() };
    /// let limiter = RateLimiter::builder(Limits::new()).memory(small).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory(mut self, options: StoreOptions) -> Self {
        self.counters = CounterSource::Memory(options);
        self
    }

    /// Counts in a memory store that other components share and sweep.
    ///
    /// ```
    /// # use hivemind_core::store::{KeySeed, MemoryStore, StoreOptions};
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # use std::sync::Arc;
    /// let (store, seed) = (Arc::new(MemoryStore::new(StoreOptions::default())), KeySeed::random());
    /// let ours = RateLimiter::builder(Limits::new()).memory_store(Arc::clone(&store), seed).build()?;
    /// let theirs = RateLimiter::builder(Limits::new()).memory_store(store, seed).build()?; // It shares the counters.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_store(mut self, store: Arc<MemoryStore>, seed: KeySeed) -> Self {
        self.counters = CounterSource::Backend(Box::new(LocalBackend::new(store)), seed);
        self
    }

    /// Counts in a store of your own that decides immediately and keeps its counters in `memory`. The limiter
    /// extends the memory's retention when limits change; sweeping it is up to you.
    ///
    /// ```
    /// # use hivemind_core::store::{KeySeed, MemoryStore, StoreOptions};
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # use std::sync::Arc;
    /// let memory = Arc::new(MemoryStore::new(StoreOptions::default()));
    /// let store = Arc::clone(&memory); // Or your own store over this memory.
    /// let limiter = RateLimiter::builder(Limits::new()).local_store(store, memory, KeySeed::random()).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local_store(
        mut self,
        store: Arc<impl LocalStore + 'static>,
        memory: Arc<MemoryStore>,
        seed: KeySeed,
    ) -> Self {
        self.counters = CounterSource::Backend(Box::new(LocalBackend { store, memory }), seed);
        self
    }

    /// Counts in any other store: a mesh, Redis or your own. All nodes that share it need the same seed.
    ///
    /// ```
    /// # use hivemind_core::store::{KeySeed, MemoryStore, StoreOptions};
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # use std::sync::Arc;
    /// # let shared_by_all = MemoryStore::new(StoreOptions::default());
    /// let seed = KeySeed::from_cluster_id("shop");
    /// let limiter = RateLimiter::builder(Limits::new()).store(Arc::new(shared_by_all), seed).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(mut self, store: Arc<impl Store + 'static>, seed: KeySeed) -> Self {
        self.counters = CounterSource::Backend(Box::new(RemoteBackend(store)), seed);
        self
    }

    /// Uses another clock.
    ///
    /// ```
    /// # use hivemind_core::ManualClock;
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let clock = ManualClock::default(); // Tests advance it instead of sleeping.
    /// let limiter = RateLimiter::builder(Limits::new()).clock(clock.clone()).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Identifies clients in another way than by session, bearer token, API key id and address.
    ///
    /// ```
    /// # use hivemind_tower::{ClientAddress, Identity, Limits, RateLimiter};
    /// let by_address = Identity::by_address(ClientAddress::peer());
    /// let limiter = RateLimiter::builder(Limits::new()).identity(by_address).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = identity;
        self
    }

    /// Reads the peer's address from another extension than [`Peer`](crate::Peer) and those of axum and tonic.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # use std::net::IpAddr;
    /// #[derive(Clone, Copy)]
    /// struct Caller(IpAddr); // Inserted into each request's extensions by your server.
    ///
    /// let caller = |extensions: &http::Extensions| extensions.get::<Caller>().map(|caller| caller.0);
    /// let limiter = RateLimiter::builder(Limits::new()).peer(caller).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peer(mut self, peer: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        self.peer = Box::new(peer);
        self
    }

    /// Selects the rate limit headers of responses.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.headers.headers = headers;
        self
    }

    /// `reset: delta`: `X-RateLimit-Reset` counts seconds from now, as in Envoy and Kong, instead of since the
    /// Unix epoch.
    pub fn reset_delta(mut self) -> Self {
        self.headers.reset_is_delta = true;
        self
    }

    /// `body: text`: refusals have the body `Too Many Requests`, whatever the client accepts.
    pub fn text_body(mut self) -> Self {
        self.refusal_body = RefusalBody::Text;
        self
    }

    /// Refuses with a response of your own. `Retry-After`, `Cache-Control` and the headers of the limit are
    /// added to it.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, PartialLimit, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limits = Limits::new().platform(PartialLimit::new().requests(1).burst(1));
    /// let busy = |_: &_| http::Response::builder().status(503).body("busy".into()).unwrap_or_default();
    /// let limiter = RateLimiter::builder(limits).custom_body(busy).build()?.service_limiter("shop");
    /// let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// let admissions = [0; 2].map(|_| runtime.block_on(limiter.admit(&request, None)));
    /// assert!(matches!(&admissions[1], Admission::Refused(_, response) if response.status() == 503));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn custom_body(
        mut self,
        response: impl Fn(&Decision) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.refusal_body = RefusalBody::Custom(Arc::new(response));
        self
    }

    /// Logs refusals to this log: with a file, with other sampling, or shared with other limiters in an `Arc`.
    /// The default is [`RefusalLog::events`].
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter, RefusalLog};
    /// # use std::sync::Arc;
    /// let log = Arc::new(RefusalLog::events());
    /// let ours = RateLimiter::builder(Limits::new()).refusal_log(Arc::clone(&log)).build()?;
    /// let theirs = RateLimiter::builder(Limits::new()).refusal_log(log).build()?; // Both sample together.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refusal_log(mut self, log: impl Into<Arc<RefusalLog>>) -> Self {
        self.log = log.into();
        self
    }

    /// `on_error: closed`: returns 503 while the store fails. By default requests pass uncounted.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let limiter = RateLimiter::builder(Limits::new()).fail_closed().build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fail_closed(mut self) -> Self {
        self.fails_closed = true;
        self
    }

    /// Limits how long a request waits for a store outside this process. The default is 50 ms. After that the
    /// request passes uncounted, or gets 503 with [`fail_closed`](Self::fail_closed). The store receives the
    /// time-out as the deadline of its decision.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.store_timeout = timeout;
        self
    }

    /// Uses another timer than tokio's for delayed requests and the store time-out.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// // A test without delays.
    /// let limiter = RateLimiter::builder(Limits::new()).sleeper(|_| std::future::ready(())).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sleeper<F>(mut self, sleep: impl Fn(Duration) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.sleeper = Box::new(move |delay| Box::pin(sleep(delay)));
        self
    }

    /// Builds the limiter.
    ///
    /// # Errors
    /// If the limits are invalid, or the thread that removes idle keys cannot be started.
    pub fn build(self) -> Result<RateLimiter, LimiterError> {
        self.clock.now(); // A clock may calibrate itself at its first reading, which no request should pay for.
        let (backend, seed, sweeper): (Box<dyn Backend>, _, _) = match self.counters {
            CounterSource::Backend(backend, seed) => (backend, seed, None),
            CounterSource::Memory(options) => {
                let store = Arc::new(MemoryStore::new(options));
                let sweeper = Sweeper::start(&store, Arc::clone(&self.clock), SWEEP_INTERVAL)?;
                (Box::new(LocalBackend::new(store)), KeySeed::random(), Some(sweeper))
            }
        };
        let active = ActiveLimits::new(&self.limits, &seed)?;
        warn_capped_limits(&active.effective, &[]);
        let state = LimiterState {
            limits: ArcSwap::from_pointee(active),
            backend,
            clock: self.clock,
            headers: self.headers,
            log: self.log,
            store_timeout: self.store_timeout,
            sleeper: self.sleeper,
        };
        Ok(RateLimiter(Arc::new(LimiterInner {
            state: Arc::new(state),
            identity: self.identity,
            refusal_body: self.refusal_body,
            peer: self.peer,
            open: OpenConnections::default(),
            fails_closed: self.fails_closed,
            next_warning_at: AtomicU64::default(),
            missing_peer_warned: AtomicBool::default(),
            seed,
            _sweeper: sweeper,
        })))
    }
}

impl RateLimiter {
    /// A limiter with its counters in this process, and the defaults of everything else.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new().platform(PartialLimit::per_second(10).burst(20)))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the limits are invalid, or the thread that removes idle keys cannot be started.
    pub fn new(limits: Limits) -> Result<Self, LimiterError> {
        Self::builder(limits).build()
    }

    /// A builder, for a limiter that needs more than its limits.
    ///
    /// ```
    /// # use hivemind_tower::{Headers, Limits, RateLimiter};
    /// let quiet = RateLimiter::builder(Limits::new()).headers(Headers::Off).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(limits: Limits) -> RateLimiterBuilder {
        RateLimiterBuilder::new(limits)
    }
}

#[expect(clippy::disallowed_methods, reason = "delaying a request is the purpose")]
async fn wait(delay: Duration) {
    tokio::time::sleep(delay).await;
}

impl fmt::Debug for RateLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiterBuilder").field("limits", &self.limits).finish_non_exhaustive()
    }
}
