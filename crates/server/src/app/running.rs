//! The serving phase, from the first connection to the last response.

use super::bounded::Bounded;
use super::ending::Ending;
use super::handover::Predecessor;
use super::listeners::{Listeners, Tcp};
use super::serving::Serving;
use super::signals::Signals;
use super::succession::{followed, hand_over, notice, supervised};
use super::telemetry::{self, Exports};
use super::{Origin, Shared, calls, follow, gateway, pages};
use crate::admin::{self, About, Admin, Gauge, Guard, Reach, Room};
use crate::config::Settings;
use crate::front::gateway::Gateway;
use crate::front::rls::RateLimitService;
use crate::reload::Reloads;
use hivemind_tls::acme::Renewal;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Serves on all sockets until a signal or a successor, and then at most for the grace period.
pub(super) async fn serve(
    settings: &Settings,
    origin: Origin,
    (mut listeners, predecessor): (Listeners, Option<Predecessor>),
    shared: Shared,
    (mut signals, exports): (Signals, Exports),
) -> anyhow::Result<()> {
    let ending = Ending::default();
    let handover = hand_over(&mut listeners, shared.mesh.is_some())?;
    let room = room(settings, &listeners);
    let Listeners { grpc, grpc_uds, admin: admin_tcp, admin_uds, metrics, gateway, redirect, .. } = listeners;
    let (health, mesh, log) = (Arc::clone(&shared.health), shared.mesh.clone(), Arc::clone(&shared.log));
    let mut accepting = JoinSet::new();
    let calls = calls::start(settings, &shared, grpc, grpc_uds, &ending, &mut accepting).await?;
    let mut gateway = gateway::start(settings, &shared, gateway, redirect, &ending, &mut accepting).await?;
    let renewal = gateway.as_mut().and_then(|of| of.renewal.take());
    let logs = gateway.as_ref().map(|of| Arc::clone(&of.gateway));
    let about = About::new(settings, origin.configuration.path.as_deref());
    let reloads = follow::follow(settings, origin, &shared, gateway);
    let admin = admin_of(&shared, reloads.clone(), logs.clone(), (about, room));
    let mut pages = JoinSet::new();
    pages.spawn(admin::tell_events(admin.clone(), ending.of_pages().1.closed));
    let admin = admin::router(admin);
    serve_pages(settings, shared, [admin_tcp, metrics], admin_uds, &admin, &ending, &mut pages)?;
    let supervisor = supervised(&health, signals.hangup()?, reloads);
    if let Some(predecessor) = predecessor {
        tokio::task::block_in_place(|| predecessor.ends())?;
    }
    if let Some(renewal) = renewal {
        renew(renewal, &ending);
    }
    if let Some(process) = followed(&mut signals, handover.as_ref(), &supervisor).await {
        notice(settings, logs.as_deref(), &ending, &mut signals, process).await;
    } else {
        supervisor.is_stopping();
        health.stopping();
        ending.leave();
        if let Some(calls) = &calls {
            calls.report(&health).await;
        }
    }
    // It holds copies of the sockets: while one is open, the kernel accepts connections that no process serves.
    drop(handover);
    let serving = Serving { gateway: logs, calls, accepting, pages, ending };
    serving.stop(settings.server.shutdown_grace, mesh.as_deref(), exports).await;
    if let Some(mesh) = mesh {
        mesh.close().await;
    }
    log.decisions().log_omitted();
    Ok(())
}

/// Capacities, and gauges of their use.
fn room(settings: &Settings, listeners: &Listeners) -> Room {
    let Listeners { grpc, gateway, admin, .. } = listeners;
    let open = [("calls", grpc), ("gateway", gateway), ("admin", admin)].into_iter();
    let open = open.filter_map(|(of, listener)| Some((of, Box::new(listener.as_ref()?.open()) as Gauge)));
    Room {
        max_keys: settings.rate_limiting.max_keys.get(),
        connections: open.collect(),
        merge_domains: settings.rate_limiting.merge_domains,
        simulations: Arc::new(Semaphore::new(Room::MOST_SIMULATIONS)),
    }
}

/// The state of the admin API.
fn admin_of(
    shared: &Shared,
    reloads: Reloads,
    gateway: Option<Arc<Gateway>>,
    (about, room): (About, Room),
) -> Admin {
    Admin {
        service: RateLimitService(Arc::clone(&shared.service)),
        health: Arc::clone(&shared.health),
        reloads,
        mesh: shared.mesh.clone(),
        log: Arc::clone(&shared.log),
        gateway,
        about: Arc::new(about),
        storage: Arc::clone(&shared.storage),
        access: shared.doors.access.clone(),
        room: Arc::new(room),
        live: Arc::default(),
        bounds: Arc::default(),
    }
}

/// Renews certificates while the listener is open: a CA validates its challenge there.
fn renew(renewal: Renewal, ending: &Ending) {
    let shut = ending.of_door().shuts();
    tokio::spawn(async move {
        tokio::select! { () = shut => {} () = Arc::new(renewal).run() => {} }
    });
}

/// Serves the admin port, the admin socket and the metrics port.
fn serve_pages(
    settings: &Settings,
    shared: Shared,
    [admin_tcp, metrics_tcp]: [Option<Bounded<Tcp>>; 2],
    admin_uds: Option<Bounded<UnixListener>>,
    admin: &axum::Router,
    ending: &Ending,
    pages: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let metrics = telemetry::page(settings, &shared);
    let Shared { service, doors, .. } = shared;
    let refused = Arc::default();
    let guarded = |reach| {
        let (access, service, refused) = (doors.access.clone(), Arc::clone(&service), Arc::clone(&refused));
        admin::guarded(admin.clone(), Guard { access, reach, service, refused })
    };
    if let Some(socket) = admin_tcp {
        let pages_of_admin = guarded(doors.reach_of_admin(socket.local_addr()?));
        pages.spawn(pages::serve(socket, doors.admin, pages_of_admin, ending.of_pages()));
    }
    if let Some(socket) = admin_uds {
        pages.spawn(pages::serve(socket, None, guarded(Reach::Socket), ending.of_pages()));
    }
    if let Some(socket) = metrics_tcp {
        pages.spawn(pages::serve(socket, doors.metrics, metrics, ending.of_pages()));
    }
    Ok(())
}
