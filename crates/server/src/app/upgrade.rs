//! Zero-downtime upgrade: supervisor notifications, and the handover to a successor.

use super::handover::{Handover, Successor};
use super::listeners::Listeners;
use super::shutdown::Shutdown;
use super::signals::{self, ShutdownReason, Signals};
use crate::settings::Settings;
use crate::systemd::Supervisor;
use anyhow::Context;
use hivemind_admin::Reloads;
use hivemind_engine::health::Health;
use hivemind_gateway::Gateway;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::Signal;

/// After a takeover, the next response on each connection asks the client to reconnect. This is the time for that
/// response: a client between two requests may already have sent one.
const DRAIN_TIME: Duration = Duration::from_millis(2_500);

/// Prepares the socket handover, if it is configured.
pub(super) fn prepare_handover(
    listeners: &mut Listeners,
    is_in_mesh: bool,
) -> anyhow::Result<Option<Handover>> {
    if listeners.handover.is_none() {
        return Ok(None);
    }
    let sockets = listeners.descriptors().context("`server.handover_socket`")?;
    Ok(listeners.handover.take().map(|listener| Handover::new(listener, sockets, is_in_mesh)))
}

/// Reports readiness to the supervisor, keeps it updated, and handles SIGHUP.
pub(super) fn notify_supervisor(health: &Arc<Health>, hangup: Signal, reloads: Reloads) -> Arc<Supervisor> {
    let supervisor = Arc::new(Supervisor::from_environment());
    supervisor.notify_ready(&health.details());
    tokio::spawn({
        let (supervisor, health) = (Arc::clone(&supervisor), Arc::clone(health));
        let mut readiness = health.readiness();
        let mut before = *readiness.borrow_and_update();
        async move {
            // Readiness notifies after each loading of rules, also if the value does not change.
            while readiness.changed().await.is_ok() && !health.is_stopping() {
                let now = *readiness.borrow_and_update();
                if std::mem::replace(&mut before, now) != now {
                    supervisor.notify_status(&health.details());
                }
            }
        }
    });
    tokio::spawn({
        let supervisor = Arc::clone(&supervisor);
        async move { supervisor.feed_watchdog().await }
    });
    tokio::spawn(signals::reload_on_hangup(hangup, reloads, Arc::clone(&supervisor), Arc::clone(health)));
    supervisor
}

/// Returns when this process must stop, with the process id of its successor if there is one.
pub(super) async fn wait_for_stop(
    signals: &mut Signals,
    handover: Option<&Handover>,
    supervisor: &Supervisor,
) -> Option<u32> {
    loop {
        match signals.wait_for_stop(handover).await {
            ShutdownReason::Signal => return None,
            ShutdownReason::Successor(successor) => {
                let process = successor.process;
                if yield_to(supervisor, successor).await {
                    return Some(process);
                }
            }
        }
    }
}

/// Whether this process stops in favor of a successor: the supervisor must follow the successor, and the successor
/// must know.
async fn yield_to(supervisor: &Supervisor, successor: Successor) -> bool {
    let process = successor.process;
    let notified = match supervisor.notify_successor(process).await {
        Ok(()) => successor.confirm_stop().await,
        Err(error) => Err(error),
    };
    if let Err(error) = &notified {
        tracing::error!("process {process} cannot take over, this process continues: {error}");
        supervisor.notify_main();
    }
    notified.is_ok()
}

/// Stops accepting, and gives open connections some time to close by themselves.
pub(super) async fn drain_after_takeover(
    settings: &Settings,
    gateway: Option<&Gateway>,
    shutdown: &Shutdown,
    signals: &mut Signals,
    process: u32,
) {
    tracing::info!("process {process} has taken over; this process accepts no new connections");
    shutdown.mark_handed_over();
    // Only now: a client that reconnects earlier would reach this process again.
    shutdown.leave();
    if let Some(gateway) = gateway {
        gateway.request_reconnect();
    }
    let given = DRAIN_TIME.min(settings.server.shutdown_grace / 4);
    let _ = tokio::time::timeout(given, signals.stop_requested()).await;
}
