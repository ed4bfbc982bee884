//! Trace pipeline: created before the first request, flushed after the last.

use super::Shared;
use crate::config::Settings;
use anyhow::Context;
use hivemind_telemetry::Stats;
use hivemind_telemetry::otlp::{Sender, Signal};
use hivemind_telemetry::settings::otel::Tracing;
use hivemind_telemetry::trace::{Exporter, Keeper, Outlet, Tracer};
use std::sync::Arc;

/// The tracer, and where its spans come out.
pub(super) struct Traced {
    pub(super) tracer: Arc<Tracer>,
    outlet: Outlet,
    sender: Sender,
}

impl Traced {
    /// Returns `None` if no endpoint is configured.
    pub(super) fn begin(settings: &Settings, stats: &Stats) -> anyhow::Result<Option<Self>> {
        let Some(tracing) = &settings.observability.otel.tracing else { return Ok(None) };
        let Tracing { destination, sample_rate, on_limit } = tracing;
        let keeper = match (&settings.mesh, &settings.storage.redis) {
            (Some(_), _) => Keeper::Mesh,
            (None, Some(_)) => Keeper::Redis,
            (None, None) => Keeper::Memory,
        };
        let figures = Arc::clone(&stats.exports.traces);
        let sender = Sender::new(Signal::Traces, destination, figures);
        let sender = sender.context("`observability.otel.tracing.endpoint`")?;
        let (tracer, outlet) = Tracer::new(*sample_rate, keeper, *on_limit, Arc::clone(&stats.traces));
        Ok(Some(Self { tracer, outlet, sender }))
    }

    /// The exporter. In a mesh, the ticks of the mesh are traced from here on.
    pub(super) fn exporter(self, shared: &Shared) -> Exporter {
        let Self { tracer, outlet, sender } = self;
        if let Some(mesh) = &shared.mesh {
            tokio::spawn(Arc::clone(mesh).keep_tracing(Arc::clone(&tracer)));
        }
        Exporter::new(tracer, outlet, sender, Arc::clone(&shared.resource))
    }
}
