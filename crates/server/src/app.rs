//! The running service: starts the configured components, and stops them in order.

mod banner;
mod drain;
mod file_limit;
mod follow;
mod gateway;
mod handover;
mod http_server;
mod limited_listener;
mod listeners;
mod port_access;
mod rate_limit_server;
mod serve;
mod shutdown;
mod signals;
mod startup;
mod telemetry;
mod traces;
mod upgrade;

use crate::inherited_sockets::InheritedSockets;
use crate::reload::Configuration;
use crate::settings::LoadedSettings;
use crate::settings::Settings;
use anyhow::Context;
pub(crate) use handover::{Predecessor, take_over};
use hivemind_core::store::KeySeed;
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::health::{self, Health};
use hivemind_engine::mesh::RunningMesh;
use hivemind_engine::ruleset::Ruleset;
use hivemind_engine::service::Service;
use hivemind_engine::storage::{self, OpenedStorage, Storage};
use hivemind_telemetry::Stats;
use hivemind_telemetry::logging::RunningLog;
use hivemind_telemetry::otlp;
use hivemind_tls::secrets;
use listeners::Listeners;
use opentelemetry_proto::tonic::resource::v1::Resource;
use port_access::PortAccess;
use serve::serve;
use signals::Signals;
use startup::{load_initial_rules, options};
use std::sync::Arc;
use std::time::Duration;
use telemetry::Exports;
use traces::TracePipeline;

/// Where the settings come from, and their values at startup.
pub(crate) struct SettingsSource {
    pub(crate) configuration: Configuration,
    pub(crate) loaded: LoadedSettings,
}

/// What this process inherits at startup.
#[derive(Default)]
pub(crate) struct Inheritance {
    /// Sockets that are already open.
    pub(crate) sockets: InheritedSockets,
    /// The process that serves on them until this one does.
    pub(crate) predecessor: Option<Predecessor>,
}

/// State that all components share.
struct SharedComponents {
    service: Arc<Service>,
    stats: Arc<Stats>,
    storage: Arc<Storage>,
    mesh: Option<Arc<RunningMesh>>,
    /// The resource attributes of exported telemetry.
    resource: Arc<Resource>,
    seed: KeySeed,
    port_access: PortAccess,
    health: Arc<Health>,
    log: Arc<RunningLog>,
    /// The fingerprint of the rules that were loaded first.
    rules: Option<u64>,
}

/// Runs until SIGTERM or SIGINT, or until another process serves in its place.
pub(crate) async fn run(
    settings: &Settings,
    origin: SettingsSource,
    Inheritance { sockets, predecessor }: Inheritance,
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
    let port_access = PortAccess::open(&settings.security)?;
    port_access::warn_if_readable_by_others(origin.configuration.path.as_deref());
    health.set_components(port_access.parts(settings));
    if origin.configuration.path.is_some() {
        health.configuration_loaded(Vec::new());
    }
    tokio::spawn(health::watch_clock(Arc::clone(&health)));
    let OpenedStorage { storage, mesh } =
        storage::open(&settings.rate_limiting, &settings.storage, settings.mesh.as_ref(), &health).await?;
    let trace_pipeline = TracePipeline::create(settings, &stats)?;
    let (kept_in, counted_in) = (Arc::clone(&storage), Arc::clone(&stats));
    let service = Service::new(Ruleset::default(), kept_in, seed, options(settings), counted_in)
        .traced_by(trace_pipeline.as_ref().map(|of| Arc::clone(&of.tracer)))
        .with_log(Arc::clone(log.decisions()));
    let service = Arc::new(service);
    let rules = load_initial_rules(settings, &service, &health)?;
    if let Some(mesh) = &mesh {
        service.with_rules(|rules| mesh.rules_are(rules));
        settings.gateway.iter().for_each(|gateway| mesh.gateway_is(gateway.routing.limits_text()));
    }
    file_limit::raise(settings);
    let listeners = Listeners::open(settings, sockets).await?;
    port_access.warn_about_unprotected_ports(&listeners);
    tokio::spawn(sweep(Arc::clone(&storage), limiting.sweep_interval));
    tokio::spawn({
        let decisions = Arc::clone(log.decisions());
        async move { decisions.report_omitted().await }
    });
    banner::print(&listeners, settings, mesh.as_deref());
    let port = listeners.grpc.as_ref().and_then(|grpc| grpc.local_addr().ok()).map(|at| at.port());
    let node = mesh.as_ref().map(|mesh| mesh.name());
    let resource = Arc::new(otlp::resource(&settings.observability.otel.service, node, port));
    let shared =
        SharedComponents { service, stats, storage, mesh, resource, seed, port_access, health, log, rules };
    let exports = Exports::start(settings, &shared, trace_pipeline)?;
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
