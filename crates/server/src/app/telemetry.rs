//! Metrics and trace export: the Prometheus endpoint, and OTLP.

use super::SharedComponents;
use super::traces::TracePipeline;
use crate::settings::Settings;
use anyhow::Context;
use axum::http::header;
use axum::routing::get;
use hivemind_engine::storage;
use hivemind_telemetry::metrics_exporter::MetricsExporter;
use hivemind_telemetry::otlp::{Sender, Signal};
use hivemind_telemetry::{BackendMetrics, Instruments, exposition};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The endpoint that Prometheus scrapes.
pub(super) fn router(settings: &Settings, shared: &SharedComponents) -> axum::Router {
    let Some(path) = &settings.observability.prometheus_path else { return axum::Router::new() };
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    let instruments = instruments(shared);
    let page = async move || (kind, exposition(&instruments.families()));
    axum::Router::new().route(path.as_str(), get(page))
}

fn instruments(shared: &SharedComponents) -> Instruments {
    let (storage, mesh) = (Arc::clone(&shared.storage), shared.mesh.clone());
    let backend = move || BackendMetrics {
        occupancy: storage.memory().occupancy(),
        store: storage::metrics(&storage),
        mesh: mesh.as_ref().map(|mesh| mesh.metrics()).unwrap_or_default(),
    };
    Instruments { stats: Arc::clone(&shared.stats), backend: Arc::new(backend) }
}

/// The OTLP exporters, one task for each signal.
pub(super) struct Exports {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Exports {
    pub(super) fn start(
        settings: &Settings,
        shared: &SharedComponents,
        trace_pipeline: Option<TracePipeline>,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        let otel = &settings.observability.otel;
        if let Some(destination) = &otel.metrics {
            let metrics = Arc::clone(&shared.stats.exports.metrics);
            let sender = Sender::new(Signal::Metrics, destination, metrics);
            let exporter = MetricsExporter {
                sender: sender.context("`observability.otel.metrics.endpoint`")?,
                instruments: instruments(shared),
                resource: Arc::clone(&shared.resource),
                interval: otel.metrics_interval,
            };
            tasks.spawn(exporter.run(stopped.clone()));
        }
        if let Some(trace_pipeline) = trace_pipeline {
            tasks.spawn(trace_pipeline.exporter(shared).run(stopped));
        }
        Ok(Self { stop, tasks })
    }

    /// Sends pending data, with a time limit.
    pub(super) async fn flush(mut self, within: Duration) {
        let _ = self.stop.send(true); // Fails without exporters.
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(within, all).await.is_err() {
            tracing::warn!("the last telemetry could not be sent within {within:?}");
        }
    }
}
