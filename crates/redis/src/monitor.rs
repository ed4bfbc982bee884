//! Redis monitor: creates the first connection, pings once a second, and retries with backoff and jitter while the
//! breaker is open, so that many nodes do not reconnect at the same time. Requests never probe Redis themselves.
//!
//! The probe is a call of the script that writes, because a response to `PING` does not prove that Redis decides.
//! The backoff restarts only after a stable period, so a Redis that fails repeatedly is not probed too often.

use crate::breaker::Breaker;
use crate::server::{CONNECT_WITHIN, RedisConnection, RedisServer, describe};
use crate::{Prefix, script};
use hivemind_core::{Clock, SystemClock};
use redis::{ConnectionAddr, RedisResult};
use std::hash::{BuildHasher, RandomState};
use std::sync::Weak;
use std::time::Duration;
use tokio::time::timeout;

const PING_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// After this time without a failure the backoff restarts.
const STEADY: Duration = Duration::from_secs(10);
/// Attempts before a failure: one response may be late, and a cluster pings a random node, which may be lost.
const PINGS: usize = 3;

pub(crate) struct Monitor {
    server: Weak<RedisServer>,
    breaker: Weak<Breaker>,
    prefix: Prefix,
    patience: Duration,
}

impl Monitor {
    pub(crate) const fn new(
        server: Weak<RedisServer>,
        breaker: Weak<Breaker>,
        prefix: Prefix,
        patience: Duration,
    ) -> Self {
        Self { server, breaker, prefix, patience }
    }

    /// Runs until the store is dropped.
    pub(crate) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let connected = match self.server.upgrade() {
                Some(server) => self.probe(&server).await,
                None => return,
            };
            let Some(breaker) = self.breaker.upgrade() else { return };
            match connected {
                Ok((connection, master)) => {
                    let closed = SystemClock.now();
                    breaker.close();
                    drop(breaker);
                    self.watch(connection, master).await;
                    if SystemClock.now().since(closed) >= STEADY {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                }
                Err(reason) => {
                    breaker.open(&reason);
                    drop(breaker);
                }
            }
            let _ = timeout(jittered(pause), std::future::pending::<()>()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects, loads the script and probes it.
    async fn probe(&self, server: &RedisServer) -> Result<(RedisConnection, Option<ConnectionAddr>), String> {
        let master = timeout(CONNECT_WITHIN, server.master()).await.unwrap_or_default();
        let connected = timeout(CONNECT_WITHIN, server.connect()).await;
        let mut connection = match connected {
            Ok(connected) => connected.map_err(|error| describe(&error))?,
            Err(_) => return Err("no connection within two seconds".to_owned()),
        };
        let patience = self.patience.max(PING_INTERVAL);
        within(patience, connection.load(script::TEXT)).await?;
        within(patience, connection.probe(&self.prefix)).await?;
        within(self.patience, connection.ping()).await?;
        Ok((connection, master))
    }

    /// Pings until a response is missing, the sentinels report another master, or the breaker opens because requests
    /// failed.
    async fn watch(&self, mut connection: RedisConnection, master: Option<ConnectionAddr>) {
        loop {
            let Some(watched) = self.breaker.upgrade() else { return };
            let _ = timeout(PING_INTERVAL, watched.opens()).await;
            if !watched.is_closed() {
                return;
            }
            let mut pinged = Ok(());
            for _ in 0..PINGS {
                pinged = within(self.patience, connection.ping()).await;
                if pinged.is_ok() {
                    break;
                }
            }
            if let Err(reason) = pinged {
                watched.open(&reason);
                return;
            }
            let Some(server) = self.server.upgrade() else { return };
            let named = timeout(CONNECT_WITHIN, server.master()).await.unwrap_or_default();
            if master.is_some() && named.is_some() && named != master {
                watched.open("the sentinels name another master");
                return;
            }
        }
    }
}

async fn within<T>(patience: Duration, request: impl Future<Output = RedisResult<T>>) -> Result<T, String> {
    match timeout(patience, request).await {
        Ok(answer) => answer.map_err(|error| describe(&error)),
        Err(_) => Err(format!("no answer within {patience:?}")),
    }
}

/// A random time between half of a pause and all of it.
fn jittered(pause: Duration) -> Duration {
    let share = u32::try_from(RandomState::new().hash_one(()) % 512).unwrap_or(0);
    pause / 2 + pause * share / 1024
}
