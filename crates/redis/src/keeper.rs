//! Who watches Redis: it makes the first connection, looks once a second whether there
//! is still an answer, and, when the breaker has opened, tries again and again, with
//! longer and longer pauses that are never quite equal, so that a hundred nodes do
//! not come back at one moment. Requests try nothing out.

use crate::breaker::Breaker;
use crate::script;
use crate::server::{CONNECT_WITHIN, Connection, Server, told};
use std::hash::{BuildHasher, RandomState};
use std::sync::Weak;
use std::time::Duration;
use tokio::time::timeout;

const LOOK_EVERY: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs until the store is gone.
pub(crate) async fn keep(server: Weak<Server>, breaker: Weak<Breaker>, patience: Duration) {
    let mut pause = FIRST_PAUSE;
    loop {
        let connected = match server.upgrade() {
            Some(server) => try_out(&server, patience).await,
            None => return,
        };
        let Some(kept) = breaker.upgrade() else { return };
        match connected {
            Ok(connection) => {
                pause = FIRST_PAUSE;
                kept.close();
                drop(kept);
                watch(connection, &breaker, patience).await;
            }
            Err(reason) => {
                kept.open(&reason);
                drop(kept);
                let _ = timeout(jittered(pause), std::future::pending::<()>()).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Connects, and lets the script be known.
async fn try_out(server: &Server, patience: Duration) -> Result<Connection, String> {
    let connected = timeout(CONNECT_WITHIN, server.connect()).await;
    let mut connection = match connected {
        Ok(connected) => connected.map_err(|error| told(&error))?,
        Err(_) => return Err("no connection within two seconds".to_owned()),
    };
    match timeout(patience.max(LOOK_EVERY), connection.load(script::TEXT)).await {
        Ok(Ok(())) => ask(&mut connection, patience).await.map(|()| connection),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err("no answer".to_owned()),
    }
}

/// Looks until there is no answer, or the breaker opens because requests had none.
async fn watch(mut connection: Connection, breaker: &Weak<Breaker>, patience: Duration) {
    loop {
        let Some(watched) = breaker.upgrade() else { return };
        if timeout(LOOK_EVERY, watched.opens()).await.is_ok() {
            return;
        }
        if let Err(reason) = ask(&mut connection, patience).await {
            watched.open(&reason);
            return;
        }
    }
}

async fn ask(connection: &mut Connection, patience: Duration) -> Result<(), String> {
    match timeout(patience, connection.ping()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err(format!("no answer within {patience:?}")),
    }
}

/// Between half of a pause and all of it.
fn jittered(pause: Duration) -> Duration {
    let share = u32::try_from(RandomState::new().hash_one(()) % 512).unwrap_or(0);
    pause / 2 + pause * share / 1024
}
