//! Trace spans of mesh rounds, in which a node sends updates to its peers. Rounds run twenty times per second; only the
//! last one of each kind is sampled, once per second.

use super::RunningMesh;
use hivemind_mesh_net::Round;
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
            let rounds = self.rounds();
            export(&tracer, "ratelimit.mesh.sync", rounds.sync, &mut sync);
            export(&tracer, "ratelimit.mesh.gossip", rounds.gossip, &mut gossip);
        }
    }
}

/// Exports a round, unless it was exported before.
fn export(tracer: &Tracer, name: &'static str, round: Option<Round>, exported: &mut u64) {
    let Some(round) = round.filter(|round| round.number != *exported) else { return };
    *exported = round.number;
    let attributes = vec![
        ("peer_count", AttributeValue::count(round.peers as u64)),
        ("bytes_transferred", AttributeValue::count(round.bytes as u64)),
        ("duration_us", AttributeValue::count(u64::try_from(round.took.as_micros()).unwrap_or(u64::MAX))),
    ];
    tracer.record_round(name, (round.began, round.took), attributes);
}
