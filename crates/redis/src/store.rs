//! The store: decides a request's batch by one call of the script.

use crate::breaker::{Availability, Breaker};
use crate::keeper::Keeper;
use crate::lines::Lines;
use crate::locally::{self, Known};
use crate::metrics::{Counts, StoreMetrics};
use crate::options::{ClockSource, OptionsError, RedisOptions};
use crate::script::{self, Answer, Call, Manner};
use crate::server::{Server, is, told};
use crate::slots;
use crate::wait::Wait;
use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::store::{Charge, Context, OnRefusal, Store, StoreError, Verdicts};
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Counters in Redis or Valkey. Shared by threads that each run a runtime of their own:
/// each of these has a connection, made when it first asks.
///
/// ```no_run
/// use hivemind_core::store::{Charge, Context, Key, KeySeed, Parts, Store};
/// use hivemind_core::{Clock, Limit, Period, SystemClock};
/// use hivemind_redis::{RedisOptions, RedisStore};
///
/// # async fn asked() -> Result<(), Box<dyn std::error::Error>> {
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
    pub(crate) shared: Arc<Shared>,
}

/// What calls in the background need of the store.
pub(crate) struct Shared {
    pub(crate) options: RedisOptions,
    pub(crate) counts: Arc<Counts>,
    breaker: Arc<Breaker>,
    pub(crate) lines: Lines,
    server: Arc<Server>,
    sha: String,
    pub(crate) known: Known,
}

impl RedisStore {
    /// A store that connects in the background, on `runtime`, and again whenever it has to.
    /// It never waits: until there is an answer, it is not available.
    ///
    /// ```
    /// # use hivemind_redis::{RedisOptions, RedisStore};
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let store = RedisStore::start(RedisOptions::new("redis+unix:///nowhere.sock"), runtime.handle())?;
    /// assert!(!store.is_available()); // It has started, and nobody has answered.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the options cannot work, whatever Redis says.
    pub fn start(options: RedisOptions, runtime: &Handle) -> Result<Self, OptionsError> {
        let server = Arc::new(Server::new(&options)?);
        let counts = Arc::new(Counts::default());
        let breaker = Arc::new(Breaker::new(Arc::clone(&counts), options.timeout));
        let lines =
            Lines::new(Arc::clone(&server), Arc::clone(&breaker), Arc::clone(&counts), runtime.clone());
        let (prefix, patience) = (options.prefix.clone(), options.timeout);
        let keeper = Keeper::new(Arc::downgrade(&server), Arc::downgrade(&breaker), prefix, patience);
        runtime.spawn(keeper.keep());
        let sha = script::hash();
        let known = Known::new(&options);
        let shared = Arc::new(Shared { options, counts, breaker, lines, server, sha, known });
        if let Some(lease) = shared.options.lease {
            runtime.spawn(locally::return_leases(Arc::downgrade(&shared), lease.longest));
        }
        Ok(Self { shared })
    }

    /// Whether Redis is asked: not before its first answer, and not while the breaker is open.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.shared.breaker.is_closed()
    }

    /// Whether Redis answers, and when that changes.
    #[must_use]
    pub fn availability(&self) -> watch::Receiver<Availability> {
        self.shared.breaker.availability()
    }

    /// What it has done since it was started.
    #[must_use]
    pub fn metrics(&self) -> StoreMetrics {
        self.shared.counts.snapshot()
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        if batch.is_empty() {
            return Ok(Verdicts::new(true, []));
        }
        let shared = &self.shared;
        if let Some(verdicts) = locally::decide(shared, batch, context) {
            return Ok(verdicts);
        }
        shared.is_asked()?;
        let wait = Wait::of(context, shared.options.timeout)?;
        if shared.server.is_cluster() && slots::spans(&shared.options.prefix, batch) {
            shared.known.put_aside(batch);
            return slots::decide(shared, batch, context, &wait).await;
        }
        let mut call = Call::new(shared.manner(context, false));
        let asides = shared.known.ask(&shared.options.prefix, &mut call, batch, context);
        let answer = shared.call(&call, &wait).await?;
        let verdicts = shared.known.learn(shared, batch, context, (&answer, &asides));
        if verdicts.committed != answer.committed {
            // Another version's script, or a state that somebody else wrote: neither is believed.
            shared.counts.errors.one();
            let reason = "its script decides otherwise than this node; run one version of both".to_owned();
            return Err(StoreError::Unreachable { reason });
        }
        Ok(verdicts)
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        locally::decide(&self.shared, batch, context)
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let name = script::name(&self.shared.options.prefix, charge);
        let mut delete = redis::cmd("DEL");
        delete.arg(name.as_str());
        let deleted = self.shared.ask((&delete, false), &Wait::new(self.shared.options.timeout)).await;
        self.shared.known.forget(charge);
        deleted.map(|_| ()).map_err(StoreError::from)
    }
}

/// Why a command has no answer.
enum Failure {
    /// Redis answered with an error.
    Answered(RedisError),
    Other(StoreError),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Answered(error) => Self::Unreachable { reason: told(&error) },
            Failure::Other(error) => error,
        }
    }
}

impl Shared {
    /// How a call for a request of this context is made.
    pub(crate) fn manner(&self, context: Context, reserve: bool) -> Manner {
        let on_refusal: OnRefusal = context.on_refusal;
        match self.options.clock {
            ClockSource::Server => Manner { now: None, on_refusal, reserve, grace_ms: 1_000 },
            // Another node's clock may be as far behind as a counter bears.
            ClockSource::Caller => {
                let grace_ms = u32::try_from(STEP_BACK.as_millis()).unwrap_or(u32::MAX);
                Manner { now: Some(context.now), on_refusal, reserve, grace_ms }
            }
        }
    }

    /// Whether Redis is asked at all.
    fn is_asked(&self) -> Result<(), StoreError> {
        if self.breaker.is_closed() {
            return Ok(());
        }
        self.counts.short_circuited.one();
        Err(StoreError::Unreachable { reason: self.breaker.reason() })
    }

    /// Calls the script, and lets Redis have its text where it does not know it.
    pub(crate) async fn call(&self, call: &Call, wait: &Wait) -> Result<Answer, StoreError> {
        self.counts.script_calls.one();
        let once = call.gives_back();
        let mut answer = self.ask((&call.command("EVALSHA", &self.sha), once), wait).await;
        if matches!(&answer, Err(Failure::Answered(error)) if is(error, ServerErrorKind::NoScript)) {
            answer = self.ask((&call.command("EVAL", script::TEXT), once), wait).await;
        }
        let answered = match answer? {
            Value::BulkString(bytes) => call.answer(&bytes),
            _ => None,
        };
        let unreadable = || StoreError::Unreachable { reason: "its answer cannot be read".to_owned() };
        answered.ok_or_else(unreadable)
    }

    /// Sends one command, `once` where it must not be repeated, and waits no longer than it may.
    async fn ask(&self, (command, once): (&redis::Cmd, bool), wait: &Wait) -> Result<Value, Failure> {
        self.is_asked().map_err(Failure::Other)?;
        let runtime = self.lines.runtime();
        let line = self.lines.of(&runtime);
        let asked = async {
            let Some(mut taken) = self.lines.take(&line).await else {
                return Err((None, self.breaker.reason()));
            };
            self.counts.round_trips.one();
            let answer = if once {
                taken.connection.ask_once(command).await
            } else {
                taken.connection.ask(command).await
            };
            answer.map_err(|error| {
                if taken.connection.is_broken_by(&error) {
                    line.broke(taken.number);
                }
                (Some(error), String::new())
            })
        };
        let timed = {
            let _on = runtime.enter(); // The timer is the caller's runtime's, or ours where it has none.
            tokio::time::timeout(wait.left(), asked)
        };
        match timed.await {
            Ok(Ok(value)) => {
                line.answered();
                self.breaker.answered();
                Ok(value)
            }
            Ok(Err((Some(error), _))) => Err(self.judge(error)),
            Ok(Err((None, reason))) => {
                self.counts.errors.one();
                Err(Failure::Other(StoreError::Unreachable { reason }))
            }
            Err(_) => {
                line.timed_out(self.options.timeout);
                Err(Failure::Other(self.timed_out(wait)))
            }
        }
    }

    /// There was no answer in time. A caller with hardly any time left says nothing of Redis.
    fn timed_out(&self, wait: &Wait) -> StoreError {
        self.counts.timeouts.one();
        let reason = format!("no answer within {:?}", wait.at_most());
        if wait.at_most() * 2 >= self.options.timeout {
            self.breaker.failed(&reason);
        }
        if wait.is_the_callers() {
            return StoreError::DeadlinePassed;
        }
        StoreError::Unreachable { reason }
    }

    /// What an error says of Redis: one that is alive and does not like a script is not down.
    fn judge(&self, error: RedisError) -> Failure {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => self.breaker.answered(),
            ErrorKind::Server(ServerErrorKind::ResponseError) | ErrorKind::Extension => {
                self.breaker.answered();
                self.counts.errors.one();
            }
            _ => {
                self.counts.errors.one();
                self.breaker.failed(&told(&error));
            }
        }
        Failure::Answered(error)
    }
}
