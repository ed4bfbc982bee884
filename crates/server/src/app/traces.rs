//! Traces: begun before the first request, sent until after the last.

use crate::config::{Settings, Tracing};
use crate::mesh::RunningMesh;
use crate::telemetry::Stats;
use crate::telemetry::otlp::{Sender, Signal};
use crate::telemetry::trace::{Exporter, Exporting, Keeper, Outlet, Tracer};
use anyhow::Context;
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::sync::Arc;
use std::time::Duration;

/// How long the end waits for a receiver; what is left of the grace period, where that is less.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Who follows requests, and where what it tells comes out.
pub(super) struct Traced {
    pub(super) tracer: Arc<Tracer>,
    outlet: Outlet,
    sender: Sender,
}

impl Traced {
    /// None where nothing is to be sent anywhere.
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

    /// Sends from now on, as whom the receiver is told.
    pub(super) fn send(self, resource: Arc<Resource>, mesh: Option<&Arc<RunningMesh>>) -> Exporting {
        let Self { tracer, outlet, sender } = self;
        if let Some(mesh) = mesh {
            tokio::spawn(Arc::clone(mesh).keep_tracing(Arc::clone(&tracer)));
        }
        Exporter::new(tracer, outlet, sender, resource).start()
    }
}

/// Sends the last of them, within what is left of the grace period.
pub(super) async fn end(exporting: Option<Exporting>, left: Duration) {
    if let Some(exporting) = exporting {
        exporting.end(left.min(LAST_WAIT)).await;
    }
}
