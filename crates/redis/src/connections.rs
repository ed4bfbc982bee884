//! Connections to Redis, one per runtime: requests and the reader of responses are on one thread and wake each
//! other without a system call. All requests of a runtime share the pipeline of its connection, so the commands of
//! one turn of the event loop are written together, and their responses are read together.
//!
//! A connection is created in the background when the first request needs it, and again after it broke. Requests
//! wait for it at most as long as for a response.

use crate::breaker::Breaker;
use crate::metrics::Counts;
use crate::server::{CONNECT_WITHIN, RedisConnection, RedisServer, describe};
use hivemind_core::{Clock, SystemClock, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;

pub(crate) struct RuntimeConnections {
    server: Arc<RedisServer>,
    breaker: Arc<Breaker>,
    counts: Arc<Counts>,
    /// For callers outside a runtime.
    fallback: Handle,
    by_runtime: RwLock<HashMap<Id, Arc<RuntimeConnection>>>,
}

/// The connection of one runtime.
pub(crate) struct RuntimeConnection {
    runtime: Handle,
    state: Mutex<PipelineState>,
    changed: Notify,
    /// Consecutive timeouts, and the time of the first one in nanoseconds.
    timeouts: AtomicU32,
    timing_out_since: AtomicU64,
}

/// Consecutive timeouts after which the connection is replaced, if they span at least one timeout: the other end may
/// have forgotten this connection while those of other runtimes work.
const TIMEOUTS: u32 = 3;

#[derive(Default)]
struct PipelineState {
    connection: Option<RedisConnection>,
    /// The number of the connection, and the breaker's generation when it was created.
    number: u64,
    generation: u64,
    is_connecting: bool,
}

/// A connection with its number, which identifies it when it breaks.
pub(crate) struct CurrentConnection {
    pub(crate) connection: RedisConnection,
    pub(crate) number: u64,
}

impl RuntimeConnections {
    pub(crate) fn new(
        server: Arc<RedisServer>,
        breaker: Arc<Breaker>,
        counts: Arc<Counts>,
        fallback: Handle,
    ) -> Self {
        Self { server, breaker, counts, fallback, by_runtime: RwLock::default() }
    }

    /// The runtime that the caller is on.
    pub(crate) fn runtime(&self) -> Handle {
        Handle::try_current().unwrap_or_else(|_| self.fallback.clone())
    }

    /// The connection of a runtime.
    pub(crate) fn of(&self, runtime: &Handle) -> Arc<RuntimeConnection> {
        let id = runtime.id();
        let connections = self.by_runtime.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = connections.get(&id) {
            return Arc::clone(own);
        }
        drop(connections);
        let mut connections = self.by_runtime.write().unwrap_or_else(PoisonError::into_inner);
        let own = connections.entry(id).or_insert_with(|| {
            Arc::new(RuntimeConnection {
                runtime: runtime.clone(),
                state: Mutex::default(),
                changed: Notify::new(),
                timeouts: AtomicU32::new(0),
                timing_out_since: AtomicU64::new(0),
            })
        });
        Arc::clone(own)
    }

    /// Waits until a runtime is connected; `None` if the attempt failed.
    pub(crate) async fn current(&self, own: &Arc<RuntimeConnection>) -> Option<CurrentConnection> {
        let changed = own.changed.notified();
        let mut changed = std::pin::pin!(changed);
        // Enabled before the check: no notification is missed between the check and the wait.
        changed.as_mut().enable();
        if let Some(current) = self.existing(own) {
            return Some(current);
        }
        changed.await;
        let state = own.lock();
        state.connection.clone().map(|connection| CurrentConnection { connection, number: state.number })
    }

    fn existing(&self, own: &Arc<RuntimeConnection>) -> Option<CurrentConnection> {
        let mut state = own.lock();
        let generation = self.breaker.generation();
        if state.generation != generation {
            state.connection = None; // Created before the breaker opened.
        }
        if let Some(connection) = &state.connection {
            return Some(CurrentConnection { connection: connection.clone(), number: state.number });
        }
        if !state.is_connecting {
            state.is_connecting = true;
            drop(state);
            self.connect(own, generation);
        }
        None
    }

    fn connect(&self, own: &Arc<RuntimeConnection>, generation: u64) {
        let (server, breaker) = (Arc::clone(&self.server), Arc::clone(&self.breaker));
        let (counts, own_connection) = (Arc::clone(&self.counts), Arc::clone(own));
        own.runtime.spawn(async move {
            let connected = tokio::time::timeout(CONNECT_WITHIN, server.connect()).await;
            let connection = match connected {
                Ok(Ok(connection)) => Some(connection),
                Ok(Err(error)) => {
                    breaker.open(&describe(&error));
                    None
                }
                Err(_) => {
                    breaker.open("no connection within two seconds");
                    None
                }
            };
            counts.connections.add(u64::from(connection.is_some()));
            let mut state = own_connection.lock();
            state.connection = connection;
            state.number += 1;
            state.generation = generation;
            state.is_connecting = false;
            drop(state);
            own_connection.record_response();
            own_connection.changed.notify_waiters();
        });
    }
}

impl RuntimeConnection {
    /// Drops the connection with this number after it broke: the next request creates another one.
    pub(crate) fn mark_broken(&self, number: u64) {
        let mut state = self.lock();
        if state.number == number {
            state.connection = None;
        }
    }

    /// Records the response of a command.
    pub(crate) fn record_response(&self) {
        if self.timeouts.load(Ordering::Relaxed) != 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
    }

    /// Records a timeout. After several of them the next request creates another connection.
    pub(crate) fn record_timeout(&self, patience: Duration) {
        let (earlier, now) = (self.timeouts.fetch_add(1, Ordering::Relaxed), SystemClock.now());
        if earlier == 0 {
            self.timing_out_since.store(now.as_nanos(), Ordering::Relaxed);
            return;
        }
        let since = Timestamp::from_nanos(self.timing_out_since.load(Ordering::Relaxed));
        let mut state = self.lock();
        // A cluster connection uses many nodes; the system detects their half-open connections.
        let is_single = matches!(state.connection, Some(RedisConnection::Single(_)));
        if is_single && earlier + 1 >= TIMEOUTS && now.since(since) >= patience {
            state.connection = None;
            self.record_response();
        }
    }

    fn lock(&self) -> MutexGuard<'_, PipelineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
