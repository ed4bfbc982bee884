//! The rate limit service: worker threads, listeners and gRPC health.

use super::SharedComponents;
use super::limited_listener::{LimitedListener, PeerAddress};
use super::listeners::Tcp;
use super::shutdown::{AcceptGate, Shutdown};
use crate::settings::Settings;
use anyhow::Context;
use axum::serve::Listener;
use hivemind_engine::health::Health;
use hivemind_envoy::grpc::{self, CallerAuth, GrpcConnection, GrpcTimeouts};
use hivemind_envoy::proto::DESCRIPTORS;
use hivemind_envoy::rls::RateLimitService;
use hivemind_tls::socket::Socket;
use hivemind_tls::workers::{WorkerExit, Workers};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::HealthReporter;

/// A silent connection is pinged, and closed if no answer arrives.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The running rate limit service.
pub(super) struct RateLimitServer {
    reporter: HealthReporter,
    ended: WorkerExit,
}

/// Starts to answer calls on these sockets; returns `None` without a socket.
pub(super) async fn start(
    settings: &Settings,
    shared: &SharedComponents,
    tcp: Option<LimitedListener<Tcp>>,
    unix: Option<LimitedListener<UnixListener>>,
    shutdown: &Shutdown,
    accepting: &mut JoinSet<()>,
) -> anyhow::Result<Option<RateLimitServer>> {
    if tcp.is_none() && unix.is_none() {
        return Ok(None);
    }
    let health = &shared.health;
    let (reporter, health_service) = tonic_health::server::health_reporter();
    report(&reporter, health).await;
    tokio::spawn(keep_reporting(reporter.clone(), Arc::clone(health)));
    let routes = routes(health_service)?;
    // The worker threads end when the last sender is dropped.
    let (workers, ended) = start_workers(settings, shared, &routes, &shutdown.for_connections()).await?;
    if let Some(socket) = tcp {
        accepting.spawn(accept(socket, Arc::clone(&workers), shutdown.for_listener()));
    }
    if let Some(socket) = unix {
        accepting.spawn(accept(socket, workers, shutdown.for_listener()));
    }
    Ok(Some(RateLimitServer { reporter, ended }))
}

impl RateLimitServer {
    /// Updates the gRPC health status.
    pub(super) async fn report(&self, health: &Health) {
        report(&self.reporter, health).await;
    }

    /// Returns when the last call is answered.
    pub(super) async fn ended(self) {
        self.ended.wait().await;
    }
}

/// Sets the status under the protocol's service name, the reference's, and the empty name.
async fn report(reporter: &HealthReporter, health: &Health) {
    let status = if health.is_ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
    for name in ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"] {
        reporter.set_service_status(name, status).await;
    }
}

async fn keep_reporting(reporter: HealthReporter, health: Arc<Health>) {
    let mut readiness = health.readiness();
    while readiness.changed().await.is_ok() {
        report(&reporter, &health).await;
    }
}

/// The gRPC services that share the connections with the rate limit service.
fn routes(health: HealthServer<impl tonic_health::pb::health_server::Health>) -> anyhow::Result<Routes> {
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .context("describing the services")?;
    Ok(Routes::new(health).add_service(reflection))
}

async fn start_workers(
    settings: &Settings,
    shared: &SharedComponents,
    routes: &Routes,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<(Arc<Workers<GrpcConnection>>, WorkerExit)> {
    let calls = &settings.server.calls;
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let timeouts = GrpcTimeouts {
        handshake: calls.handshake_timeout,
        first_call: calls.first_call_timeout,
        call: calls.call_timeout,
        idle: calls.idle_timeout,
        age: calls.max_connection_age,
        ping: KEEPALIVE,
        pong: KEEPALIVE_TIMEOUT,
    };
    let (rls, port_access) = (RateLimitService(Arc::clone(&shared.service)), &shared.port_access);
    let auth = CallerAuth { tls: port_access.grpc.clone(), keys: port_access.access.keys.clone() };
    let workers = calls.workers.unwrap_or(cores);
    let started = grpc::start_workers(workers, &rls, routes, &auth, timeouts, stopped).await;
    let (workers, ended) = started.context("starting the threads that answer calls")?;
    Ok((Arc::new(workers), ended))
}

/// Passes new connections to the workers until the listener closes.
async fn accept<L: Listener<Addr: PeerAddress>>(
    mut listener: LimitedListener<L>,
    workers: Arc<Workers<GrpcConnection>>,
    gate: AcceptGate,
) where
    Socket: TryFrom<L::Io, Error = std::io::Error>,
{
    let mut closed = pin!(gate.closed());
    loop {
        tokio::select! { biased;
            () = &mut closed => return,
            (io, permit, _) = listener.next() => match Socket::try_from(io) {
                Ok(socket) => workers.deal(GrpcConnection { socket, permit }),
                Err(error) => tracing::warn!("a connection could not be passed to a worker: {error}"),
            },
        }
    }
}
