//! Who watches Redis: it makes the first connection, looks once a second whether there
//! is still an answer, and, when the breaker has opened, tries again and again, with
//! longer and longer pauses that are never quite equal, so that a hundred nodes do
//! not come back at one moment. Requests try nothing out.
//!
//! What is tried is what requests do, a call of the script that writes: an answer to PING
//! says nothing of that. And the pauses get short again only after it went well for a while:
//! so a Redis that is well for a moment each time is not asked again and again.

use crate::breaker::Breaker;
use crate::server::{CONNECT_WITHIN, Connection, Server, told};
use crate::{Prefix, script};
use hivemind_core::{Clock, SystemClock};
use redis::{ConnectionAddr, RedisResult};
use std::hash::{BuildHasher, RandomState};
use std::sync::Weak;
use std::time::Duration;
use tokio::time::timeout;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// What was well for so long is tried again at once.
const STEADY: Duration = Duration::from_secs(10);
/// One late answer is no failure. A cluster is asked at a random node, of which one may be lost.
const LOOKS: usize = 3;

pub(crate) struct Keeper {
    server: Weak<Server>,
    breaker: Weak<Breaker>,
    prefix: Prefix,
    patience: Duration,
}

impl Keeper {
    pub(crate) const fn new(
        server: Weak<Server>,
        breaker: Weak<Breaker>,
        prefix: Prefix,
        patience: Duration,
    ) -> Self {
        Self { server, breaker, prefix, patience }
    }

    /// Runs until the store is gone.
    pub(crate) async fn keep(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let connected = match self.server.upgrade() {
                Some(server) => self.try_out(&server).await,
                None => return,
            };
            let Some(kept) = self.breaker.upgrade() else { return };
            match connected {
                Ok((connection, master)) => {
                    let closed = SystemClock.now();
                    kept.close();
                    drop(kept);
                    self.watch(connection, master).await;
                    if SystemClock.now().since(closed) >= STEADY {
                        pause = FIRST_PAUSE;
                        continue;
                    }
                }
                Err(reason) => {
                    kept.open(&reason);
                    drop(kept);
                }
            }
            let _ = timeout(jittered(pause), std::future::pending::<()>()).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects, lets the script be known, and decides something.
    async fn try_out(&self, server: &Server) -> Result<(Connection, Option<ConnectionAddr>), String> {
        let master = timeout(CONNECT_WITHIN, server.master()).await.unwrap_or_default();
        let connected = timeout(CONNECT_WITHIN, server.connect()).await;
        let mut connection = match connected {
            Ok(connected) => connected.map_err(|error| told(&error))?,
            Err(_) => return Err("no connection within two seconds".to_owned()),
        };
        let patience = self.patience.max(LOOK_EVERY);
        within(patience, connection.load(script::TEXT)).await?;
        within(patience, connection.probe(&self.prefix)).await?;
        within(self.patience, connection.ping()).await?;
        Ok((connection, master))
    }

    /// Looks until there is no answer, the sentinels name another master, or the breaker opens because requests
    /// had no answer.
    async fn watch(&self, mut connection: Connection, master: Option<ConnectionAddr>) {
        loop {
            let Some(watched) = self.breaker.upgrade() else { return };
            let _ = timeout(LOOK_EVERY, watched.opens()).await;
            if !watched.is_closed() {
                return;
            }
            let mut looked = Ok(());
            for _ in 0..LOOKS {
                looked = within(self.patience, connection.ping()).await;
                if looked.is_ok() {
                    break;
                }
            }
            if let Err(reason) = looked {
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

async fn within<T>(patience: Duration, asked: impl Future<Output = RedisResult<T>>) -> Result<T, String> {
    match timeout(patience, asked).await {
        Ok(answer) => answer.map_err(|error| told(&error)),
        Err(_) => Err(format!("no answer within {patience:?}")),
    }
}

/// Between half of a pause and all of it.
fn jittered(pause: Duration) -> Duration {
    let share = u32::try_from(RandomState::new().hash_one(()) % 512).unwrap_or(0);
    pause / 2 + pause * share / 1024
}
