//! Everything that a limiter can be told beside its limits. What is left out is safe.

use crate::answer::{Answers, Headers, RefusalBody};
use crate::backend::{Backend, Local, Remote};
use crate::decision::Decision;
use crate::identity::Identity;
use crate::limiter::{LimiterError, PeerOf, RateLimiter, Shared, Sleeper, warn_of_capped};
use crate::limits::Limits;
use crate::open_connections::OpenConnections;
use crate::peer::peer_of;
use crate::refusal_log::RefusalLog;
use crate::resolved::Resolved;
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
    counters: Counters,
    clock: Arc<dyn Clock>,
    identity: Identity,
    answers: Answers,
    log: Arc<RefusalLog>,
    peer: PeerOf,
    fails_closed: bool,
    store_timeout: Duration,
    sleeper: Sleeper,
}

enum Counters {
    Own(StoreOptions),
    Given(Box<dyn Backend>, KeySeed),
}

impl RateLimiterBuilder {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            counters: Counters::Own(StoreOptions::default()),
            clock: Arc::new(SystemClock),
            identity: Identity::default(),
            answers: Answers::default(),
            log: Arc::default(),
            peer: Box::new(peer_of),
            fails_closed: false,
            store_timeout: STORE_TIMEOUT,
            sleeper: Box::new(|delay| Box::pin(wait(delay))),
        }
    }

    /// How large the counters of this process may grow.
    ///
    /// ```
    /// # use hivemind_core::store::StoreOptions;
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let small = StoreOptions { max_keys: 10_000, ..StoreOptions::default() };
    /// let limiter = RateLimiter::builder(Limits::new()).memory(small).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory(mut self, options: StoreOptions) -> Self {
        self.counters = Counters::Own(options);
        self
    }

    /// Counts in a memory store that others use too, and that they sweep.
    ///
    /// ```
    /// # use hivemind_core::store::{KeySeed, MemoryStore, StoreOptions};
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # use std::sync::Arc;
    /// let (store, seed) = (Arc::new(MemoryStore::new(StoreOptions::default())), KeySeed::random());
    /// let ours = RateLimiter::builder(Limits::new()).memory_store(Arc::clone(&store), seed).build()?;
    /// let theirs = RateLimiter::builder(Limits::new()).memory_store(store, seed).build()?; // The same counters.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_store(mut self, store: Arc<MemoryStore>, seed: KeySeed) -> Self {
        self.counters = Counters::Given(Box::new(Local::new(store)), seed);
        self
    }

    /// Counts in a memory store that others use too and sweep, by the word of somebody who decides on it at once:
    /// `store` keeps its counters in this very `memory`, which is asked how full it is and how long it remembers.
    ///
    /// ```
    /// # use hivemind_core::store::{KeySeed, MemoryStore, StoreOptions};
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # use std::sync::Arc;
    /// let memory = Arc::new(MemoryStore::new(StoreOptions::default()));
    /// let decides = Arc::clone(&memory); // Or a store of yours that keeps its counters there.
    /// let limiter = RateLimiter::builder(Limits::new()).local_store(decides, memory, KeySeed::random()).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn local_store(
        mut self,
        store: Arc<impl LocalStore + 'static>,
        memory: Arc<MemoryStore>,
        seed: KeySeed,
    ) -> Self {
        self.counters = Counters::Given(Box::new(Local { store, memory }), seed);
        self
    }

    /// Counts in any other store: a mesh, Redis, your own. The seed has to be that of all who share it.
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
        self.counters = Counters::Given(Box::new(Remote(store)), seed);
        self
    }

    /// Takes the time from another clock.
    ///
    /// ```
    /// # use hivemind_core::ManualClock;
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let clock = ManualClock::default(); // A test moves it on instead of sleeping.
    /// let limiter = RateLimiter::builder(Limits::new()).clock(clock.clone()).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Tells clients apart in another way than by session, token, API key and address.
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

    /// Finds the peer's address elsewhere than in [`Peer`](crate::Peer) and, with their features, where
    /// axum and tonic put it.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # use std::net::IpAddr;
    /// #[derive(Clone, Copy)]
    /// struct Caller(IpAddr); // What your server notes in each request's extensions.
    ///
    /// let caller = |extensions: &http::Extensions| extensions.get::<Caller>().map(|caller| caller.0);
    /// let limiter = RateLimiter::builder(Limits::new()).peer(caller).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peer(mut self, peer: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        self.peer = Box::new(peer);
        self
    }

    /// Which headers tell clients of their limits.
    pub fn headers(mut self, headers: Headers) -> Self {
        self.answers.headers = headers;
        self
    }

    /// `reset: delta`: `X-RateLimit-Reset` in seconds from now, as Envoy and Kong have it, not of the epoch.
    pub fn reset_delta(mut self) -> Self {
        self.answers.reset_is_delta = true;
        self
    }

    /// `body: text`: refuses with `Too Many Requests`, whatever the client accepts.
    pub fn text_body(mut self) -> Self {
        self.answers.body = RefusalBody::Text;
        self
    }

    /// Refuses with an answer of your own. Its headers are completed by `Retry-After`,
    /// `Cache-Control` and those of the limit.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, Admission, PartialLimit, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limits = Limits::new().platform(PartialLimit::new().requests(1).burst(1));
    /// let sorry = |_: &_| http::Response::builder().status(503).body("busy".into()).unwrap_or_default();
    /// let limiter = RateLimiter::builder(limits).custom_body(sorry).build()?.service_limiter("shop");
    /// let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// let answers = [0; 2].map(|_| runtime.block_on(limiter.admit(&request, None)));
    /// assert!(matches!(&answers[1], Admission::Refused(_, answer) if answer.status() == 503));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn custom_body(
        mut self,
        answer: impl Fn(&Decision) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.answers.body = RefusalBody::Custom(Arc::new(answer));
        self
    }

    /// Tells of refusals here: to a file beside the events, sampled otherwise, or in one log with
    /// other limiters (an `Arc`). Without a word, as [events](RefusalLog::events) alone.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter, RefusalLog};
    /// # use std::sync::Arc;
    /// let log = Arc::new(RefusalLog::events());
    /// let ours = RateLimiter::builder(Limits::new()).refusal_log(Arc::clone(&log)).build()?;
    /// let theirs = RateLimiter::builder(Limits::new()).refusal_log(log).build()?; // Clients are counted once.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn refusal_log(mut self, log: impl Into<Arc<RefusalLog>>) -> Self {
        self.log = log.into();
        self
    }

    /// `on_error: closed`: answers 503 while the store fails. Without it, requests pass uncounted.
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

    /// How long a store that is not in this process may take, 50 ms if nothing is said: long for a store
    /// nearby, and little to who waits for a page. Then it has failed for this request, which passes
    /// uncounted, or gets 503 with [`fail_closed`](Self::fail_closed). The store is told of it as its deadline.
    pub fn store_timeout(mut self, timeout: Duration) -> Self {
        self.store_timeout = timeout;
        self
    }

    /// Holds delayed requests back and ends the wait for a store by another timer than tokio's.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// // A test in which nobody is held back.
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

    /// The limiter.
    ///
    /// # Errors
    /// If the limits make no sense, or the thread that removes idle keys cannot be started.
    pub fn build(self) -> Result<RateLimiter, LimiterError> {
        self.clock.now(); // A clock may calibrate itself when it is first read: no request shall wait for that.
        let (backend, seed, sweeper): (Box<dyn Backend>, _, _) = match self.counters {
            Counters::Given(backend, seed) => (backend, seed, None),
            Counters::Own(options) => {
                let store = Arc::new(MemoryStore::new(options));
                let sweeper = Sweeper::start(&store, Arc::clone(&self.clock), SWEEP_INTERVAL)?;
                (Box::new(Local::new(store)), KeySeed::random(), Some(sweeper))
            }
        };
        let resolved = Resolved::new(&self.limits, &seed)?;
        warn_of_capped(&resolved.effective, &[]);
        Ok(RateLimiter(Arc::new(Shared {
            limits: ArcSwap::from_pointee(resolved),
            backend,
            clock: self.clock,
            identity: self.identity,
            answers: self.answers,
            log: self.log,
            peer: self.peer,
            open: OpenConnections::default(),
            fails_closed: self.fails_closed,
            store_timeout: self.store_timeout,
            warns_again_at: AtomicU64::default(),
            warned_of_peer: AtomicBool::default(),
            sleeper: self.sleeper,
            seed,
            _sweeper: sweeper,
        })))
    }
}

#[expect(clippy::disallowed_methods, reason = "to hold a request back is what delaying is")]
async fn wait(delay: Duration) {
    tokio::time::sleep(delay).await;
}

impl fmt::Debug for RateLimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiterBuilder").field("limits", &self.limits).finish_non_exhaustive()
    }
}
