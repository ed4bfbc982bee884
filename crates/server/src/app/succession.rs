//! Who is told that this process serves, and how another one comes after it.

use super::ending::Ending;
use super::handover::{Handover, Successor};
use super::listeners::Listeners;
use super::signals::{self, End, Signals};
use crate::config::Settings;
use crate::front::gateway::Gateway;
use crate::health::Health;
use crate::reload::Reloads;
use crate::systemd::Supervisor;
use anyhow::Context;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::Signal;

/// Once another process has taken over, whoever is connected here is told with the next answer to come anew, and has so
/// long to ask: who is shown out between two requests may have sent one already.
const NOTICE: Duration = Duration::from_millis(2_500);

/// What is handed to whoever takes over, where that is configured.
pub(super) fn hand_over(listeners: &mut Listeners, is_in_mesh: bool) -> anyhow::Result<Option<Handover>> {
    if listeners.handover.is_none() {
        return Ok(None);
    }
    let sockets = listeners.descriptors().context("`server.handover_socket`")?;
    Ok(listeners.handover.take().map(|listener| Handover::new(listener, sockets, is_in_mesh)))
}

/// Whoever started this process is told how it is from now on, and SIGHUP is heeded.
pub(super) fn supervised(health: &Arc<Health>, hangup: Signal, reloads: Reloads) -> Arc<Supervisor> {
    let supervisor = Arc::new(Supervisor::of_environment());
    supervisor.is_ready(&health.details());
    tokio::spawn({
        let (supervisor, health) = (Arc::clone(&supervisor), Arc::clone(health));
        let mut readiness = health.readiness();
        let mut before = *readiness.borrow_and_update();
        async move {
            // It is told each time that rules are loaded, whether that changes it or not.
            while readiness.changed().await.is_ok() && !health.is_stopping() {
                let now = *readiness.borrow_and_update();
                if std::mem::replace(&mut before, now) != now {
                    supervisor.status_is(&health.details());
                }
            }
        }
    });
    tokio::spawn({
        let supervisor = Arc::clone(&supervisor);
        async move { supervisor.keep_telling().await }
    });
    tokio::spawn(signals::heed_hangups(hangup, reloads, Arc::clone(&supervisor), Arc::clone(health)));
    supervisor
}

/// Returns when this process has to end; with the one that goes on in its place, if one does.
pub(super) async fn followed(
    signals: &mut Signals,
    handover: Option<&Handover>,
    supervisor: &Supervisor,
) -> Option<u32> {
    loop {
        match signals.end(handover).await {
            End::Told => return None,
            End::FollowedBy(successor) => {
                let process = successor.process;
                if gives_way(supervisor, successor).await {
                    return Some(process);
                }
            }
        }
    }
}

/// Whether this process ends in favour of another one: whoever supervises it has to follow that one, and it has to know.
async fn gives_way(supervisor: &Supervisor, successor: Successor) -> bool {
    let process = successor.process;
    let told = match supervisor.is_followed_by(process).await {
        Ok(()) => successor.hears_of_the_end().await,
        Err(error) => Err(error),
    };
    if let Err(error) = &told {
        tracing::error!("process {process} cannot take over, and this one goes on: {error}");
        supervisor.is_main();
    }
    told.is_ok()
}

/// Takes no new connections any more, and lets those that are open come to their end by themselves for a while.
pub(super) async fn notice(
    settings: &Settings,
    gateway: Option<&Gateway>,
    ending: &Ending,
    signals: &mut Signals,
    process: u32,
) {
    tracing::info!("process {process} serves in the place of this one, which takes no new connections");
    ending.hand_on();
    // Not before: whoever comes anew would find this process again.
    ending.leave();
    if let Some(gateway) = gateway {
        gateway.sees_off();
    }
    let given = NOTICE.min(settings.server.shutdown_grace / 4);
    let _ = tokio::time::timeout(given, signals.told()).await;
}
