//! Trace spans of mesh rounds, in which a node sends updates to its peers. Rounds run twenty times per second; only the
//! last one of each kind is sampled, once per second.

use super::RunningMesh;
use hivemind_mesh_net::TickReport;
use hivemind_telemetry::trace::{AttributeValue, Tracer};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// Sampling interval.
const LOOK: Duration = Duration::from_secs(1);

impl RunningMesh {
    /// Exports rounds as spans until the process ends.
    pub async fn keep_tracing(self: Arc<Self>, tracer: Arc<Tracer>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut sync, mut gossip) = (0, 0);
        loop {
            looks.tick().await;
            let reports = self.tick_reports();
            export(&tracer, "ratelimit.mesh.sync", reports.sync, &mut sync);
            export(&tracer, "ratelimit.mesh.gossip", reports.gossip, &mut gossip);
        }
    }
}

/// Exports a round, unless it was exported before.
fn export(tracer: &Tracer, name: &'static str, report: Option<TickReport>, exported: &mut u64) {
    let Some(report) = report.filter(|report| report.number != *exported) else { return };
    *exported = report.number;
    let attributes = vec![
        ("peer_count", AttributeValue::count(report.peers as u64)),
        ("bytes_transferred", AttributeValue::count(report.bytes as u64)),
        ("duration_us", AttributeValue::count(u64::try_from(report.took.as_micros()).unwrap_or(u64::MAX))),
    ];
    tracer.record_round(name, (report.began, report.took), attributes);
}
