//! Zero-downtime upgrade: supervisor notifications, and the handover to a successor.

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

/// After a takeover, the next response on each connection asks the client to reconnect. This is the time for that
/// response: a client between two requests may already have sent one.
const NOTICE: Duration = Duration::from_millis(2_500);

/// Prepares the socket handover, if it is configured.
pub(super) fn hand_over(listeners: &mut Listeners, is_in_mesh: bool) -> anyhow::Result<Option<Handover>> {
    if listeners.handover.is_none() {
        return Ok(None);
    }
    let sockets = listeners.descriptors().context("`server.handover_socket`")?;
    Ok(listeners.handover.take().map(|listener| Handover::new(listener, sockets, is_in_mesh)))
}

/// Reports readiness to the supervisor, keeps it updated, and handles SIGHUP.
pub(super) fn supervised(health: &Arc<Health>, hangup: Signal, reloads: Reloads) -> Arc<Supervisor> {
    let supervisor = Arc::new(Supervisor::of_environment());
    supervisor.is_ready(&health.details());
    tokio::spawn({
        let (supervisor, health) = (Arc::clone(&supervisor), Arc::clone(health));
        let mut readiness = health.readiness();
        let mut before = *readiness.borrow_and_update();
        async move {
            // Readiness notifies after each loading of rules, also if the value does not change.
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

/// Returns when this process must stop, with the process id of its successor if there is one.
pub(super) async fn followed(
    signals: &mut Signals,
    handover: Option<&Handover>,
    supervisor: &Supervisor,
) -> Option<u32> {
    loop {
        match signals.end(handover).await {
            End::Signal => return None,
            End::FollowedBy(successor) => {
                let process = successor.process;
                if gives_way(supervisor, successor).await {
                    return Some(process);
                }
            }
        }
    }
}

/// Whether this process stops in favor of a successor: the supervisor must follow the successor, and the successor
/// must know.
async fn gives_way(supervisor: &Supervisor, successor: Successor) -> bool {
    let process = successor.process;
    let notified = match supervisor.is_followed_by(process).await {
        Ok(()) => successor.hears_of_the_end().await,
        Err(error) => Err(error),
    };
    if let Err(error) = &notified {
        tracing::error!("process {process} cannot take over, this process continues: {error}");
        supervisor.is_main();
    }
    notified.is_ok()
}

/// Stops accepting, and gives open connections some time to close by themselves.
pub(super) async fn notice(
    settings: &Settings,
    gateway: Option<&Gateway>,
    ending: &Ending,
    signals: &mut Signals,
    process: u32,
) {
    tracing::info!("process {process} has taken over; this process accepts no new connections");
    ending.hand_on();
    // Only now: a client that reconnects earlier would reach this process again.
    ending.leave();
    if let Some(gateway) = gateway {
        gateway.sees_off();
    }
    let given = NOTICE.min(settings.server.shutdown_grace / 4);
    let _ = tokio::time::timeout(given, signals.stop_requested()).await;
}
