//! The serving phase, from the first connection to the last response.

use super::drain::ServingComponents;
use super::handover::Predecessor;
use super::limited_listener::LimitedListener;
use super::listeners::{Listeners, Tcp};
use super::shutdown::Shutdown;
use super::signals::Signals;
use super::telemetry::{self, Exports};
use super::upgrade::{drain_after_takeover, notify_supervisor, prepare_handover, wait_for_stop};
use super::{SettingsSource, SharedComponents, follow, gateway, http_server, rate_limit_server};
use crate::settings::Settings;
use hivemind_admin as admin;
use hivemind_admin::Reloads;
use hivemind_admin::{self, About, Admin, Gauge, Guard, Reach, Room};
use hivemind_envoy::rls::RateLimitService;
use hivemind_gateway::Gateway;
use hivemind_tls::acme::Renewal;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Serves on all sockets until a signal or a successor, and then at most for the grace period.
pub(super) async fn serve(
    settings: &Settings,
    origin: SettingsSource,
    (mut listeners, predecessor): (Listeners, Option<Predecessor>),
    shared: SharedComponents,
    (mut signals, exports): (Signals, Exports),
) -> anyhow::Result<()> {
    let shutdown = Shutdown::default();
    let handover = prepare_handover(&mut listeners, shared.mesh.is_some())?;
    let room = room(settings, &listeners);
    let Listeners { grpc, grpc_uds, admin: admin_tcp, admin_uds, metrics, gateway, redirect, .. } = listeners;
    let (health, mesh, log) = (Arc::clone(&shared.health), shared.mesh.clone(), Arc::clone(&shared.log));
    let mut accepting = JoinSet::new();
    let calls =
        rate_limit_server::start(settings, &shared, grpc, grpc_uds, &shutdown, &mut accepting).await?;
    let mut gateway = gateway::start(settings, &shared, gateway, redirect, &shutdown, &mut accepting).await?;
    let renewal = gateway.as_mut().and_then(|of| of.renewal.take());
    let logs = gateway.as_ref().map(|of| Arc::clone(&of.gateway));
    let about = about(settings, &origin);
    let reloads = follow::follow(settings, origin, &shared, gateway);
    let admin = admin_of(&shared, reloads.clone(), logs.clone(), (about, room));
    let mut http_servers = JoinSet::new();
    http_servers.spawn(admin::publish_events(admin.clone(), shutdown.for_http_server().1.closed));
    let admin = admin::router(admin);
    start_http_servers(
        settings,
        shared,
        [admin_tcp, metrics],
        admin_uds,
        &admin,
        &shutdown,
        &mut http_servers,
    )?;
    let supervisor = notify_supervisor(&health, signals.hangup()?, reloads);
    if let Some(predecessor) = predecessor {
        tokio::task::block_in_place(|| predecessor.stop())?;
    }
    if let Some(renewal) = renewal {
        renew(renewal, &shutdown);
    }
    if let Some(process) = wait_for_stop(&mut signals, handover.as_ref(), &supervisor).await {
        drain_after_takeover(settings, logs.as_deref(), &shutdown, &mut signals, process).await;
    } else {
        supervisor.notify_stopping();
        health.stopping();
        shutdown.leave();
        if let Some(calls) = &calls {
            calls.report(&health).await;
        }
    }
    // It holds copies of the sockets: while one is open, the kernel accepts connections that no process serves.
    drop(handover);
    let components = ServingComponents { gateway: logs, calls, accepting, http_servers, shutdown };
    components.stop(settings.server.shutdown_grace, mesh.as_deref(), exports).await;
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
    let open =
        open.filter_map(|(of, listener)| Some((of, Box::new(listener.as_ref()?.open_gauge()) as Gauge)));
    Room {
        max_keys: settings.rate_limiting.max_keys.get(),
        connections: open.collect(),
        merge_domains: settings.rate_limiting.merge_domains,
        simulations: Arc::new(Semaphore::new(Room::MOST_SIMULATIONS)),
    }
}

/// The state of the admin API.
fn admin_of(
    shared: &SharedComponents,
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
        access: shared.port_access.access.clone(),
        room: Arc::new(room),
        live: Arc::default(),
        bounds: Arc::default(),
    }
}

/// Renews certificates while the listener is open: a CA validates its challenge there.
fn renew(renewal: Renewal, shutdown: &Shutdown) {
    let closed = shutdown.for_listener().closed();
    tokio::spawn(async move {
        tokio::select! { () = closed => {} () = Arc::new(renewal).run() => {} }
    });
}

/// Serves the admin port, the admin socket and the metrics port.
fn start_http_servers(
    settings: &Settings,
    shared: SharedComponents,
    [admin_tcp, metrics_tcp]: [Option<LimitedListener<Tcp>>; 2],
    admin_uds: Option<LimitedListener<UnixListener>>,
    admin: &axum::Router,
    shutdown: &Shutdown,
    http_servers: &mut JoinSet<()>,
) -> anyhow::Result<()> {
    let metrics = telemetry::router(settings, &shared);
    let SharedComponents { service, port_access, .. } = shared;
    let refused = Arc::default();
    let guarded = |reach| {
        let (access, service, refused) =
            (port_access.access.clone(), Arc::clone(&service), Arc::clone(&refused));
        admin::guarded(admin.clone(), Guard { access, reach, service, refused })
    };
    if let Some(socket) = admin_tcp {
        let admin_router = guarded(port_access.admin_reach(socket.local_addr()?));
        http_servers.spawn(http_server::serve(
            socket,
            port_access.admin,
            admin_router,
            shutdown.for_http_server(),
        ));
    }
    if let Some(socket) = admin_uds {
        http_servers.spawn(http_server::serve(
            socket,
            None,
            guarded(Reach::Socket),
            shutdown.for_http_server(),
        ));
    }
    if let Some(socket) = metrics_tcp {
        http_servers.spawn(http_server::serve(
            socket,
            port_access.metrics,
            metrics,
            shutdown.for_http_server(),
        ));
    }
    Ok(())
}

fn about(settings: &Settings, origin: &SettingsSource) -> About {
    let storage = match (&settings.mesh, &settings.storage.redis) {
        (Some(_), _) => "mesh",
        (None, Some(_)) => "redis",
        (None, None) => "memory",
    };
    About::new(storage, settings.rate_limiting.config_path.clone(), origin.configuration.path.clone())
}
