//! The running service: starts the configured components, and stops them in order.

mod beginning;
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
mod running;
mod screen;
mod serving;
mod signals;
mod succession;
mod telemetry;
mod traces;

use crate::config::{Loaded, Settings};
use crate::health::{self, Health};
use crate::mesh::RunningMesh;
use crate::reload::Configuration;
use crate::ruleset::Ruleset;
use crate::service::Service;
use crate::storage::{self, Opened, Storage};
use anyhow::Context;
use beginning::{load_first, options};
use doors::Doors;
pub(crate) use handed::{Handed, HandedSocket, Place};
pub(crate) use handover::{Predecessor, take_over};
use hivemind_core::store::KeySeed;
use hivemind_core::{Clock, SystemClock};
use hivemind_telemetry::Stats;
use hivemind_telemetry::logging::RunningLog;
use hivemind_telemetry::otlp;
use hivemind_tls::secrets;
use listeners::Listeners;
use opentelemetry_proto::tonic::resource::v1::Resource;
use running::serve;
use signals::Signals;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Exports;
use traces::Traced;

/// Where the settings come from, and their values at startup.
pub(crate) struct Origin {
    pub(crate) configuration: Configuration,
    pub(crate) loaded: Loaded,
}

/// What this process inherits at startup.
#[derive(Default)]
pub(crate) struct Heritage {
    /// Sockets that are already open.
    pub(crate) handed: Handed,
    /// The process that serves on them until this one does.
    pub(crate) predecessor: Option<Predecessor>,
}

/// State that all components share.
struct Shared {
    service: Arc<Service>,
    stats: Arc<Stats>,
    storage: Arc<Storage>,
    mesh: Option<Arc<RunningMesh>>,
    /// The resource attributes of exported telemetry.
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
    // First of all, so that a signal during startup, or right after the banner, is handled.
    let signals = Signals::listen().context("listening for signals")?;
    let stats = Stats::new(SystemClock.now()).with_decision_ring(settings.observability.decision_ring);
    let stats = Arc::new(stats);
    let health = Arc::new(Health::default());
    let limiting = &settings.rate_limiting;
    let seed = match (&settings.security.key_seed_file, &settings.mesh) {
        (Some(path), _) => secrets::key_seed(path)?,
        // All nodes of a mesh must derive the same key for a counter.
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
        async move { decisions.report_omitted().await }
    });
    screen::show(&listeners, settings, mesh.as_deref());
    let port = listeners.grpc.as_ref().and_then(|grpc| grpc.local_addr().ok()).map(|at| at.port());
    let node = mesh.as_ref().map(|mesh| mesh.name());
    let resource = Arc::new(otlp::resource(&settings.observability.otel.service, node, port));
    let shared = Shared { service, stats, storage, mesh, resource, seed, doors, health, log, rules };
    let exports = Exports::start(settings, &shared, traced)?;
    serve(settings, origin, (listeners, predecessor), shared, (signals, exports)).await
}

async fn sweep(storage: Arc<Storage>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        storage.blocks().sweep(SystemClock.now());
        tokio::task::block_in_place(|| storage.memory().sweep(SystemClock.now()));
    }
}
