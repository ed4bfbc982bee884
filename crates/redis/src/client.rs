//! Redis client: sends the calls of the script with their time limits, and judges the errors.
//!
//! The store, batches that span slots and the return of leases share one client. The breaker decides whether a
//! command is sent at all, and each result is reported to it.

use crate::breaker::Breaker;
use crate::connections::RuntimeConnections;
use crate::metrics::Counts;
use crate::options::{ClockSource, OptionsError, RedisOptions};
use crate::script::{self, CallOptions, ScriptCall, ScriptResponse};
use crate::server::{RedisServer, describe, is};
use crate::wait::Wait;
use hivemind_core::algorithm::STEP_BACK;
use hivemind_core::store::{Context, OnRefusal, StoreError};
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use std::sync::Arc;
use tokio::runtime::Handle;

/// The connections to Redis, and what is needed to call the script.
pub(crate) struct RedisClient {
    pub(crate) options: RedisOptions,
    pub(crate) counts: Arc<Counts>,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) connections: RuntimeConnections,
    pub(crate) server: Arc<RedisServer>,
    sha: String,
}

/// Why a command has no result.
enum CommandError {
    /// Redis returned an error.
    Redis(RedisError),
    Store(StoreError),
}

impl From<CommandError> for StoreError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Redis(error) => Self::Unreachable { reason: describe(&error) },
            CommandError::Store(error) => error,
        }
    }
}

impl RedisClient {
    pub(crate) fn new(options: RedisOptions, runtime: &Handle) -> Result<Self, OptionsError> {
        let server = Arc::new(RedisServer::new(&options)?);
        let counts = Arc::new(Counts::default());
        let breaker = Arc::new(Breaker::new(Arc::clone(&counts), options.timeout));
        let connections = RuntimeConnections::new(
            Arc::clone(&server),
            Arc::clone(&breaker),
            Arc::clone(&counts),
            runtime.clone(),
        );
        Ok(Self { options, counts, breaker, connections, server, sha: script::hash() })
    }

    /// The options of a call for a request with this context.
    pub(crate) fn call_options(&self, context: Context, reserve: bool) -> CallOptions {
        let on_refusal: OnRefusal = context.on_refusal;
        match self.options.clock {
            ClockSource::Server => CallOptions { now: None, on_refusal, reserve, grace_ms: 1_000 },
            // Another node's clock may be behind by as much as a counter tolerates.
            ClockSource::Caller => {
                let grace_ms = u32::try_from(STEP_BACK.as_millis()).unwrap_or(u32::MAX);
                CallOptions { now: Some(context.now), on_refusal, reserve, grace_ms }
            }
        }
    }

    /// # Errors
    /// While the breaker is open: no command is sent.
    pub(crate) fn check_breaker(&self) -> Result<(), StoreError> {
        if self.breaker.is_closed() {
            return Ok(());
        }
        self.counts.short_circuited.one();
        Err(StoreError::Unreachable { reason: self.breaker.reason() })
    }

    /// Calls the script by its hash, or by its text if Redis does not have it.
    pub(crate) async fn call(&self, call: &ScriptCall, wait: &Wait) -> Result<ScriptResponse, StoreError> {
        self.counts.script_calls.one();
        let once = call.gives_back();
        let mut result = self.send((&call.command("EVALSHA", &self.sha), once), wait).await;
        if matches!(&result, Err(CommandError::Redis(error)) if is(error, ServerErrorKind::NoScript)) {
            result = self.send((&call.command("EVAL", script::TEXT), once), wait).await;
        }
        let response = match result? {
            Value::BulkString(bytes) => call.response(&bytes),
            _ => None,
        };
        let unreadable = || StoreError::Unreachable { reason: "the response cannot be parsed".to_owned() };
        response.ok_or_else(unreadable)
    }

    /// Deletes a counter.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), StoreError> {
        let mut delete = redis::cmd("DEL");
        delete.arg(name);
        let deleted = self.send((&delete, false), &Wait::new(self.options.timeout)).await;
        deleted.map(|_| ()).map_err(StoreError::from)
    }

    /// Sends one command within its time limit; `once` if the command must not be repeated.
    async fn send(&self, (command, once): (&redis::Cmd, bool), wait: &Wait) -> Result<Value, CommandError> {
        self.check_breaker().map_err(CommandError::Store)?;
        let runtime = self.connections.runtime();
        let own = self.connections.of(&runtime);
        let sent = async {
            let Some(mut current) = self.connections.current(&own).await else {
                return Err((None, self.breaker.reason()));
            };
            self.counts.round_trips.one();
            let result = if once {
                current.connection.send_once(command).await
            } else {
                current.connection.send(command).await
            };
            result.map_err(|error| {
                if current.connection.is_broken_by(&error) {
                    own.mark_broken(current.number);
                }
                (Some(error), String::new())
            })
        };
        let timed = {
            // The timer belongs to the caller's runtime, or to the store's if the caller has none.
            let _on = runtime.enter();
            tokio::time::timeout(wait.left(), sent)
        };
        match timed.await {
            Ok(Ok(value)) => {
                own.record_response();
                self.breaker.record_response();
                Ok(value)
            }
            Ok(Err((Some(error), _))) => Err(self.judge(error)),
            Ok(Err((None, reason))) => {
                self.counts.errors.one();
                Err(CommandError::Store(StoreError::Unreachable { reason }))
            }
            Err(_) => {
                own.record_timeout(self.options.timeout);
                Err(CommandError::Store(self.record_timeout(wait)))
            }
        }
    }

    /// Records a timeout. A much shorter deadline of the caller proves nothing about Redis.
    fn record_timeout(&self, wait: &Wait) -> StoreError {
        self.counts.timeouts.one();
        let reason = format!("no answer within {:?}", wait.at_most());
        if wait.at_most() * 2 >= self.options.timeout {
            self.breaker.record_failure(&reason);
        }
        if wait.is_the_callers() {
            return StoreError::DeadlinePassed;
        }
        StoreError::Unreachable { reason }
    }

    /// Records an error. A server that rejects a script is alive, so the breaker stays closed.
    fn judge(&self, error: RedisError) -> CommandError {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoScript) => self.breaker.record_response(),
            ErrorKind::Server(ServerErrorKind::ResponseError) | ErrorKind::Extension => {
                self.breaker.record_response();
                self.counts.errors.one();
            }
            _ => {
                self.counts.errors.one();
                self.breaker.record_failure(&describe(&error));
            }
        }
        CommandError::Redis(error)
    }
}
