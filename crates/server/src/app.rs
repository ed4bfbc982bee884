//! The running service: what is configured is started, told, and stopped in order.

mod bounded;
mod calls;
mod descriptors;
mod doors;
mod ending;
mod follow;
mod gateway;
mod handed;
mod handover;
mod listeners;
mod pages;
mod screen;
mod serving;
mod signals;
mod succession;
mod telemetry;
mod traces;

use crate::admin::{self, About, Admin, Gauge, Guard, Reach, Room};
use crate::config::{Loaded, RuleTexts, Settings, demo_rules};
use crate::front::rls::RateLimitService;
use crate::health::{self, Health};
use crate::logging::RunningLog;
use crate::mesh::RunningMesh;
use crate::reload::{Configuration, accepted, refused};
use crate::ruleset::Ruleset;
use crate::secrets;
use crate::service::{HeaderNames, Options, Service};
use crate::storage::{self, Opened, Storage};
use crate::telemetry::Stats;
use crate::telemetry::otlp;
use anyhow::Context;
use bounded::Bounded;
use doors::Doors;
use ending::Ending;
pub(crate) use handed::{Handed, HandedSocket, Place};
pub(crate) use handover::{Predecessor, take_over};
use hivemind_core::store::KeySeed;
use hivemind_core::{Clock, SystemClock};
use listeners::{Listeners, Tcp};
use opentelemetry_proto::tonic::resource::v1::Resource;
use serving::Serving;
use signals::Signals;
use std::sync::Arc;
use std::time::Duration;
use succession::{followed, hand_over, notice, supervised};
use telemetry::Exports;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use traces::Traced;

/// Where the settings come from, and what they were at the start.
pub(crate) struct Origin {
    pub(crate) configuration: Configuration,
    pub(crate) loaded: Loaded,
}

/// What was there before this process.
#[derive(Default)]
pub(crate) struct Heritage {
    /// Sockets that are open.
    pub(crate) handed: Handed,
    /// Who serves on them until this process does.
    pub(crate) predecessor: Option<Predecessor>,
}

/// What all that runs has in common.
struct Shared {
    service: Arc<Service>,
    stats: Arc<Stats>,
    storage: Arc<Storage>,
    mesh: Option<Arc<RunningMesh>>,
    /// Whom receivers of telemetry take this process for.
    resource: Arc<Resource>,
    seed: KeySeed,
    doors: Doors,
    health: Arc<Health>,
    log: Arc<RunningLog>,
    /// The fingerprint of the rules that were loaded first.
    rules: Option<u64>,
}

/// Runs until SIGTERM or SIGINT, or until another process serves in its place.
pub(crate) async fn run(
    settings: &Settings,
    origin: Origin,
    Heritage { handed, predecessor }: Heritage,
    log: Arc<RunningLog>,
) -> anyhow::Result<()> {
    // Before anything else: a signal that comes during the start, or right after the screen, is heeded too.
    let signals = Signals::listen().context("listening for signals")?;
    let stats = Stats::new(SystemClock.now()).remembering(settings.observability.decision_ring);
    let stats = Arc::new(stats);
    let health = Arc::new(Health::default());
    let limiting = &settings.rate_limiting;
    let seed = match (&settings.security.key_seed_file, &settings.mesh) {
        (Some(path), _) => secrets::key_seed(path)?,
        // All nodes of a mesh give one counter one key.
        (None, Some(mesh)) => secrets::seed_of_cluster(&mesh.cluster_id),
        (None, None) => KeySeed::random(),
    };
    let doors = Doors::open(&settings.security)?;
    doors::warn_of_readers(origin.configuration.path.as_deref());
    health.has(doors.parts(settings));
    if origin.configuration.path.is_some() {
        health.configuration_loaded(Vec::new());
    }
    tokio::spawn(health::watch_clock(Arc::clone(&health)));
    let Opened { storage, mesh } = storage::open(settings, &health).await?;
    let traced = Traced::begin(settings, &stats)?;
    let (kept_in, counted_in) = (Arc::clone(&storage), Arc::clone(&stats));
    let service = Service::new(Ruleset::default(), kept_in, seed, options(settings), counted_in)
        .traced_by(traced.as_ref().map(|of| Arc::clone(&of.tracer)))
        .with_log(Arc::clone(log.decisions()));
    let service = Arc::new(service);
    let rules = load_first(settings, &service, &health)?;
    if let Some(mesh) = &mesh {
        service.with_rules(|rules| mesh.rules_are(rules));
        settings.gateway.iter().for_each(|gateway| mesh.gateway_is(&gateway.routing));
    }
    descriptors::provide(settings);
    let listeners = Listeners::open(settings, handed).await?;
    doors.warn_of_open_ones(&listeners);
    tokio::spawn(sweep(Arc::clone(&storage), limiting.sweep_interval));
    tokio::spawn({
        let decisions = Arc::clone(log.decisions());
        async move { decisions.keep_telling().await }
    });
    screen::show(&listeners, settings, mesh.as_deref());
    let port = listeners.grpc.as_ref().and_then(|grpc| grpc.local_addr().ok()).map(|at| at.port());
    let node = mesh.as_ref().map(|mesh| mesh.name());
    let resource = Arc::new(otlp::resource(&settings.observability.otel.service, node, port));
    let shared = Shared { service, stats, storage, mesh, resource, seed, doors, health, log, rules };
    let exports = Exports::start(settings, &shared, traced)?;
    serve(settings, origin, (listeners, predecessor), shared, (signals, exports)).await
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
        counts: settings.observability.are_metrics_read(),
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

async fn sweep(storage: Arc<Storage>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        storage.blocks().sweep(SystemClock.now());
        tokio::task::block_in_place(|| storage.memory().sweep(SystemClock.now()));
    }
}

/// Serves on all sockets until told to stop, and then no longer than the grace period.
async fn serve(
    settings: &Settings,
    origin: Origin,
    (mut listeners, predecessor): (Listeners, Option<Predecessor>),
    shared: Shared,
    (mut signals, exports): (Signals, Exports),
) -> anyhow::Result<()> {
    let ending = Ending::default();
    let handover = hand_over(&mut listeners, shared.mesh.is_some())?;
    let Listeners {
        grpc,
        grpc_uds,
        admin: admin_tcp,
        admin_uds,
        metrics: metrics_tcp,
        gateway,
        redirect,
        ..
    } = listeners;
    let room = Arc::new(Room {
        max_keys: settings.rate_limiting.max_keys.get(),
        connections: [("calls", &grpc), ("gateway", &gateway), ("admin", &admin_tcp)]
            .into_iter()
            .filter_map(|(of, listener)| Some((of, Box::new(listener.as_ref()?.open()) as Gauge)))
            .collect(),
        merge_domains: settings.rate_limiting.merge_domains,
        simulations: Arc::new(Semaphore::new(Room::MOST_SIMULATIONS)),
    });
    let rls = RateLimitService(Arc::clone(&shared.service));
    let health = Arc::clone(&shared.health);
    let mut accepting = JoinSet::new();
    let calls = calls::start(settings, &shared, grpc, grpc_uds, &ending, &mut accepting).await?;
    let mut gateway = gateway::start(settings, &shared, gateway, redirect, &ending, &mut accepting).await?;
    let renewal = gateway.as_mut().and_then(|of| of.renewal.take());
    let logs = gateway.as_ref().map(|of| Arc::clone(&of.gateway));
    let about = Arc::new(About::new(settings, origin.configuration.path.as_deref()));
    let reloads = follow::follow(settings, origin, &shared, gateway);
    let (mesh, log) = (shared.mesh.clone(), Arc::clone(&shared.log));
    let admin = Admin {
        service: rls,
        health: Arc::clone(&health),
        reloads: reloads.clone(),
        mesh: mesh.clone(),
        log: Arc::clone(&log),
        gateway: logs.clone(),
        about,
        storage: Arc::clone(&shared.storage),
        access: shared.doors.access.clone(),
        room,
        live: Arc::default(),
        bounds: Arc::default(),
    };
    let mut pages = JoinSet::new();
    pages.spawn(admin::tell_events(admin.clone(), ending.of_pages().1));
    let admin = admin::router(admin);
    serve_pages(settings, shared, [admin_tcp, metrics_tcp], admin_uds, &admin, &ending, &mut pages)?;
    let supervisor = supervised(&health, signals.hangup()?, reloads);
    if let Some(predecessor) = predecessor {
        tokio::task::block_in_place(|| predecessor.ends())?;
    }
    if let Some(renewal) = renewal {
        // A CA looks for its challenge at whoever accepts.
        let shut = ending.of_door().shuts();
        tokio::spawn(async move {
            tokio::select! { () = shut => {} () = Arc::new(renewal).run() => {} }
        });
    }
    if let Some(process) = followed(&mut signals, handover.as_ref(), &supervisor).await {
        notice(settings, logs.as_deref(), &ending, &mut signals, process).await;
    } else {
        supervisor.is_stopping();
        health.stopping();
        if let Some(calls) = &calls {
            calls.report(&health).await;
        }
    }
    // What it has are copies: as long as one is open, the kernel takes connections that nobody serves.
    drop(handover);
    let serving = Serving { gateway: logs, calls, accepting, pages, ending };
    serving.stop(settings.server.shutdown_grace, mesh.as_deref(), exports).await;
    if let Some(mesh) = mesh {
        mesh.close().await;
    }
    log.decisions().tell_left_out();
    Ok(())
}

/// Serves the admin port and its socket, and the metrics port.
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
