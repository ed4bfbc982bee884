//! Rounds of the mesh as traces: what a node tells its peers by itself. There are twenty of them in a second; the last
//! of each kind is looked at once a second, so there are never more spans than that.

use super::RunningMesh;
use hivemind_mesh_net::Round;
use hivemind_telemetry::trace::{AttributeValue, Tracer};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// How often a round of each kind may be told.
const LOOK: Duration = Duration::from_secs(1);

impl RunningMesh {
    /// Tells of rounds, for ever.
    pub(crate) async fn keep_tracing(self: Arc<Self>, tracer: Arc<Tracer>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut sync, mut gossip) = (0, 0);
        loop {
            looks.tick().await;
            let rounds = self.rounds();
            tell(&tracer, "ratelimit.mesh.sync", rounds.sync, &mut sync);
            tell(&tracer, "ratelimit.mesh.gossip", rounds.gossip, &mut gossip);
        }
    }
}

/// Tells of a round, unless it was the last one already.
fn tell(tracer: &Tracer, name: &'static str, round: Option<Round>, told: &mut u64) {
    let Some(round) = round.filter(|round| round.number != *told) else { return };
    *told = round.number;
    let attributes = vec![
        ("peer_count", AttributeValue::count(round.peers as u64)),
        ("bytes_transferred", AttributeValue::count(round.bytes as u64)),
        ("duration_us", AttributeValue::count(u64::try_from(round.took.as_micros()).unwrap_or(u64::MAX))),
    ];
    tracer.record_round(name, (round.began, round.took), attributes);
}
