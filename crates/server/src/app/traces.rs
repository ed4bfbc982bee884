//! Trace pipeline: created before the first request, flushed after the last.

use super::SharedComponents;
use crate::settings::Settings;
use anyhow::Context;
use hivemind_telemetry::Stats;
use hivemind_telemetry::otlp::{Sender, Signal};
use hivemind_telemetry::settings::otel::Tracing;
use hivemind_telemetry::trace::{CounterStore, Exporter, TraceReceiver, Tracer};
use std::sync::Arc;

/// The tracer, and where its spans come out.
pub(super) struct TracePipeline {
    pub(super) tracer: Arc<Tracer>,
    receiver: TraceReceiver,
    sender: Sender,
}

impl TracePipeline {
    /// Returns `None` if no endpoint is configured.
    pub(super) fn create(settings: &Settings, stats: &Stats) -> anyhow::Result<Option<Self>> {
        let Some(tracing) = &settings.observability.otel.tracing else { return Ok(None) };
        let Tracing { destination, sample_rate, on_limit } = tracing;
        let store = match (&settings.mesh, &settings.storage.redis) {
            (Some(_), _) => CounterStore::Mesh,
            (None, Some(_)) => CounterStore::Redis,
            (None, None) => CounterStore::Memory,
        };
        let metrics = Arc::clone(&stats.exports.traces);
        let sender = Sender::new(Signal::Traces, destination, metrics);
        let sender = sender.context("`observability.otel.tracing.endpoint`")?;
        let (tracer, receiver) = Tracer::new(*sample_rate, store, *on_limit, Arc::clone(&stats.traces));
        Ok(Some(Self { tracer, receiver, sender }))
    }

    /// The exporter. In a mesh, the ticks of the mesh are traced from here on.
    pub(super) fn exporter(self, shared: &SharedComponents) -> Exporter {
        let Self { tracer, receiver, sender } = self;
        if let Some(mesh) = &shared.mesh {
            tokio::spawn(Arc::clone(mesh).keep_tracing(Arc::clone(&tracer)));
        }
        Exporter::new(tracer, receiver, sender, Arc::clone(&shared.resource))
    }
}
