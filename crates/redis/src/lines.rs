//! The connections: one for each runtime that asks, so that those who wait for an
//! answer and what reads it are on one thread and wake each other without the system.
//! All requests of a runtime share its connection's pipeline: what is asked in one turn
//! of its loop leaves in one write, and what has come is read in one read.
//!
//! A connection is made in the background when the first request needs it, and anew
//! after it broke; requests wait for it no longer than for an answer.

use crate::breaker::Breaker;
use crate::metrics::Counts;
use crate::server::{CONNECT_WITHIN, Connection, Server, told};
use hivemind_core::{Clock, SystemClock, Timestamp};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;

pub(crate) struct Lines {
    server: Arc<Server>,
    breaker: Arc<Breaker>,
    counts: Arc<Counts>,
    /// For callers that are on no runtime.
    fallback: Handle,
    by_runtime: RwLock<HashMap<Id, Arc<Line>>>,
}

/// The connection of one runtime.
pub(crate) struct Line {
    runtime: Handle,
    held: Mutex<Held>,
    changed: Notify,
    /// Time-outs in a row, and when the first of them was, in nanoseconds.
    timeouts: AtomicU32,
    timing_out_since: AtomicU64,
}

/// So many time-outs in a row that span a time-out, and the connection is made anew: it may be one
/// of which the other end knows nothing any more, while those of other runtimes are well.
const TIMEOUTS: u32 = 3;

#[derive(Default)]
struct Held {
    connection: Option<Connection>,
    /// Which of the connections it is, and how often the breaker had opened when it was made.
    number: u64,
    generation: u64,
    is_connecting: bool,
}

/// A connection, and what it is called when it breaks.
pub(crate) struct Taken {
    pub(crate) connection: Connection,
    pub(crate) number: u64,
}

impl Lines {
    pub(crate) fn new(
        server: Arc<Server>,
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

    /// The line of a runtime.
    pub(crate) fn of(&self, runtime: &Handle) -> Arc<Line> {
        let id = runtime.id();
        let lines = self.by_runtime.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = lines.get(&id) {
            return Arc::clone(line);
        }
        drop(lines);
        let mut lines = self.by_runtime.write().unwrap_or_else(PoisonError::into_inner);
        let line = lines.entry(id).or_insert_with(|| {
            Arc::new(Line {
                runtime: runtime.clone(),
                held: Mutex::default(),
                changed: Notify::new(),
                timeouts: AtomicU32::new(0),
                timing_out_since: AtomicU64::new(0),
            })
        });
        Arc::clone(line)
    }

    /// The connection of a line, if there is one by now or soon; `None` if making it failed.
    pub(crate) async fn take(&self, line: &Arc<Line>) -> Option<Taken> {
        let changed = line.changed.notified();
        let mut changed = std::pin::pin!(changed);
        // Told from here on: nothing is missed between the look and the wait.
        changed.as_mut().enable();
        if let Some(taken) = self.look(line) {
            return Some(taken);
        }
        changed.await;
        let held = line.hold();
        held.connection.clone().map(|connection| Taken { connection, number: held.number })
    }

    fn look(&self, line: &Arc<Line>) -> Option<Taken> {
        let mut held = line.hold();
        let generation = self.breaker.generation();
        if held.generation != generation {
            held.connection = None; // Of a time before the breaker opened.
        }
        if let Some(connection) = &held.connection {
            return Some(Taken { connection: connection.clone(), number: held.number });
        }
        if !held.is_connecting {
            held.is_connecting = true;
            drop(held);
            self.connect(line, generation);
        }
        None
    }

    fn connect(&self, line: &Arc<Line>, generation: u64) {
        let (server, breaker) = (Arc::clone(&self.server), Arc::clone(&self.breaker));
        let (counts, on) = (Arc::clone(&self.counts), Arc::clone(line));
        line.runtime.spawn(async move {
            let connected = tokio::time::timeout(CONNECT_WITHIN, server.connect()).await;
            let connection = match connected {
                Ok(Ok(connection)) => Some(connection),
                Ok(Err(error)) => {
                    breaker.open(&told(&error));
                    None
                }
                Err(_) => {
                    breaker.open("no connection within two seconds");
                    None
                }
            };
            counts.connections.add(u64::from(connection.is_some()));
            let mut held = on.hold();
            held.connection = connection;
            held.number += 1;
            held.generation = generation;
            held.is_connecting = false;
            drop(held);
            on.answered();
            on.changed.notify_waiters();
        });
    }
}

impl Line {
    /// The connection of this number broke: the next request lets another be made.
    pub(crate) fn broke(&self, number: u64) {
        let mut held = self.hold();
        if held.number == number {
            held.connection = None;
        }
    }

    /// A command was answered.
    pub(crate) fn answered(&self) {
        if self.timeouts.load(Ordering::Relaxed) != 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
    }

    /// A command was not answered in time: after some of them the next request lets another connection be made.
    pub(crate) fn timed_out(&self, patience: Duration) {
        let (earlier, now) = (self.timeouts.fetch_add(1, Ordering::Relaxed), SystemClock.now());
        if earlier == 0 {
            self.timing_out_since.store(now.as_nanos(), Ordering::Relaxed);
            return;
        }
        let since = Timestamp::from_nanos(self.timing_out_since.load(Ordering::Relaxed));
        let mut held = self.hold();
        // One to a cluster leads to many nodes: what is half open there is found by the system.
        let is_single = matches!(held.connection, Some(Connection::Single(_)));
        if is_single && earlier + 1 >= TIMEOUTS && now.since(since) >= patience {
            held.connection = None;
            self.answered();
        }
    }

    fn hold(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
