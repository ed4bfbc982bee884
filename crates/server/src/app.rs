//! The running service: what is configured is started, told, and stopped in order.

mod bounded;
mod gateway;
mod listeners;
mod screen;

use crate::admin::{self, Admin};
use crate::config::{RuleTexts, Settings, demo_rules};
use crate::front::grpc::{self, Patience};
use crate::front::rls::RateLimitService;
use crate::front::socket::Socket;
use crate::front::workers::{Ended, Workers};
use crate::health::Health;
use crate::proto::DESCRIPTORS;
use crate::reload::{Reloader, accepted, refused};
use crate::ruleset::Ruleset;
use crate::service::{HeaderNames, Options, Service};
use crate::telemetry::{Stats, exposition};
use anyhow::Context;
use axum::http::header;
use axum::routing::get;
use axum::serve::Listener;
use bounded::Bounded;
use hivemind_core::store::{KeySeed, MemoryStore, StoreOptions};
use hivemind_core::{Clock, SystemClock};
use listeners::Listeners;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::HealthReporter;

/// A silent connection is asked whether its peer is there, and closed where it is not.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What is served beside the admin port and the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fronts {
    /// Envoy's rate limit service, and the gateway if it is configured.
    All,
    /// The gateway alone.
    Gateway,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) async fn run(settings: &Settings, fronts: Fronts) -> anyhow::Result<()> {
    // Before anything else: a signal that comes during the start, or right after the screen, is heeded too.
    let signals = Signals::listen().context("listening for signals")?;
    let stats = Arc::new(Stats::default());
    let health = Arc::new(Health::default());
    let limiting = &settings.rate_limiting;
    let store = Arc::new(MemoryStore::new(StoreOptions {
        max_keys: limiting.max_keys.get(),
        idle_ttl: limiting.idle_ttl,
    }));
    let seed = KeySeed::random();
    let service = Service::new(Ruleset::default(), Arc::clone(&store), seed, options(settings), stats);
    let service = Arc::new(service);
    let loaded = load_first(settings, &service, &health)?;
    let mut listeners = Listeners::bind(settings, fronts).await?;
    let (stop, stopped) = watch::channel(false);
    let gateway = match (&settings.gateway, listeners.gateway.take()) {
        (Some(gateway), Some(listener)) => {
            Some(gateway::Running::start(gateway, listener, (&store, seed), &stopped).await?)
        }
        _ => None,
    };
    tokio::spawn(sweep(Arc::clone(&store), limiting.sweep_interval));
    if let Some(path) = limiting.config_path.clone() {
        let reloader = Reloader {
            path,
            loaded,
            merge_domains: limiting.merge_domains,
            interval: limiting.config_reload_interval,
            service: Arc::clone(&service),
            health: Arc::clone(&health),
        };
        tokio::spawn(reloader.run(signals.hangup));
    }
    screen::show(&listeners, gateway.as_ref(), settings);
    let terminated = terminated(signals.terminate, signals.interrupt);
    serve(settings, (listeners, gateway), service, store, health, (stop, stopped), terminated).await
}

/// The signals that the service knows. From here on none of them ends the process by itself, SIGHUP
/// without rules to load anew included.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

fn options(settings: &Settings) -> Options {
    let limiting = &settings.rate_limiting;
    let names = limiting.response_headers.as_ref().map(|names| HeaderNames {
        limit: names.limit.as_str().to_owned(),
        remaining: names.remaining.as_str().to_owned(),
        reset: names.reset.as_str().to_owned(),
    });
    #[expect(clippy::cast_possible_truncation, reason = "the reference reckons in single precision")]
    let near_limit_ratio = limiting.near_limit_ratio as f32;
    Options {
        enabled: limiting.enabled,
        on_refusal: limiting.on_refusal,
        shadow_mode: limiting.shadow_mode,
        quota_mode: limiting.quota_mode,
        near_limit_ratio,
        response_headers: names,
        dynamic_metadata: limiting.dynamic_metadata,
    }
}

/// The rules to begin with, and the fingerprint of their files. Wrong ones end the start, unless it was forced.
fn load_first(settings: &Settings, service: &Service, health: &Health) -> anyhow::Result<Option<u64>> {
    let limiting = &settings.rate_limiting;
    let Some(path) = &limiting.config_path else {
        accepted(service, health, demo_rules()?);
        return Ok(None);
    };
    let texts = RuleTexts::read(path);
    let fingerprint = texts.as_ref().ok().map(RuleTexts::fingerprint);
    match texts.and_then(|texts| texts.parse(limiting.merge_domains)) {
        Ok(loaded) => accepted(service, health, loaded),
        Err(problems) if limiting.force_start_without_initial_config => refused(service, health, &problems),
        Err(problems) => return Err(problems.into()),
    }
    Ok(fingerprint)
}

async fn sweep(store: Arc<MemoryStore>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        tokio::task::block_in_place(|| store.sweep(SystemClock.now()));
    }
}

/// Serves on all sockets until told to stop, and then no longer than the grace period.
async fn serve(
    settings: &Settings,
    (listeners, gateway): (Listeners, Option<gateway::Running>),
    service: Arc<Service>,
    store: Arc<MemoryStore>,
    health: Arc<Health>,
    (stop, stopped): (watch::Sender<bool>, watch::Receiver<bool>),
    terminated: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let (close, closed) = watch::channel(false);
    let rls = RateLimitService(Arc::clone(&service));
    let (reporter, health_service) = tonic_health::server::health_reporter();
    report(&reporter, &health).await;
    tokio::spawn(keep_reporting(reporter.clone(), Arc::clone(&health)));
    let routes = routes(health_service)?;
    let (workers, ended) = start_workers(settings, &rls, &routes, &stopped).await?;
    let admin = admin::router(Admin { service: rls, health: Arc::clone(&health) });
    let metrics = metrics(settings, service, store);
    let Listeners { grpc, grpc_uds, admin: admin_tcp, admin_uds, metrics: metrics_tcp, gateway: _, redirect } =
        listeners;
    let mut accepting = JoinSet::new();
    if let Some(socket) = grpc {
        accepting.spawn(accept(socket, Arc::clone(&workers), stopped.clone()));
    }
    if let Some(socket) = grpc_uds {
        accepting.spawn(accept(socket, Arc::clone(&workers), stopped.clone()));
    }
    if let Some(gateway) = gateway {
        if let Some(redirect) = redirect {
            accepting.spawn(gateway::redirect(redirect, gateway.address()?.port(), stopped.clone()));
        }
        accepting.spawn(gateway.serve(stopped.clone()));
    }
    drop(workers); // The threads end once nobody deals any more.
    let mut pages = JoinSet::new();
    let closing = || until(closed.clone());
    pages.spawn(axum::serve(admin_tcp, admin.clone()).with_graceful_shutdown(closing()).into_future());
    pages.spawn(axum::serve(metrics_tcp, metrics).with_graceful_shutdown(closing()).into_future());
    if let Some(socket) = admin_uds {
        pages.spawn(axum::serve(socket, admin).with_graceful_shutdown(closing()).into_future());
    }
    terminated.await;
    health.stopping();
    report(&reporter, &health).await;
    tracing::info!("stopping: calls in flight are answered, no new connections are taken");
    let _ = stop.send(true); // Nobody listens any more only if everything has ended already.
    let all = async {
        while accepting.join_next().await.is_some() {}
        ended.wait().await;
        // Until the last call is answered, the pages tell that it is stopping.
        let _ = close.send(true);
        while pages.join_next().await.is_some() {}
    };
    if tokio::time::timeout(settings.server.shutdown_grace, all).await.is_err() {
        tracing::warn!("some connections were still open after the grace period");
    }
    Ok(())
}

/// Tells who asks for health, by the protocol's name, the reference's, and with none.
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

/// What is served beside the calls for decisions, on the same connections.
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
    rls: &RateLimitService,
    routes: &Routes,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<(Arc<Workers<Socket>>, Ended)> {
    let calls = &settings.server.calls;
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let patience = Patience {
        handshake: calls.handshake_timeout,
        call: calls.call_timeout,
        idle: calls.idle_timeout,
        age: calls.max_connection_age,
        ping: KEEPALIVE,
        pong: KEEPALIVE_TIMEOUT,
    };
    let started = grpc::start_workers(calls.workers.unwrap_or(cores), rls, routes, patience, stopped).await;
    let (workers, ended) = started.context("starting the threads that answer calls")?;
    Ok((Arc::new(workers), ended))
}

/// Deals out all connections that come, until told to stop.
async fn accept<L: Listener>(
    mut listener: Bounded<L>,
    workers: Arc<Workers<Socket>>,
    stopped: watch::Receiver<bool>,
) where
    Socket: TryFrom<L::Io, Error = std::io::Error>,
{
    let mut stopped = pin!(until(stopped));
    loop {
        tokio::select! { biased;
            () = &mut stopped => return,
            Some((io, place, _)) = listener.next() => match Socket::try_from(io) {
                Ok(socket) => workers.deal(socket, place),
                Err(error) => tracing::warn!("a connection could not be dealt out: {error}"),
            },
        }
    }
}

fn metrics(settings: &Settings, service: Arc<Service>, store: Arc<MemoryStore>) -> axum::Router {
    let Some(path) = &settings.observability.prometheus_path else { return axum::Router::new() };
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let page = async move || (kind, exposition(service.stats(), store.occupancy()));
    axum::Router::new().route(path.as_str(), get(page))
}

async fn until(mut stopped: watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stopped| *stopped).await; // A sender that is gone has stopped everything too.
}

async fn terminated(mut terminate: Signal, mut interrupt: Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
