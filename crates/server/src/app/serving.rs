//! All that serves, and its end, step by step.

use super::calls::Calls;
use super::ending::Ending;
use super::telemetry::Exports;
use crate::front::gateway::Gateway;
use crate::mesh::RunningMesh;
use hivemind_core::{Clock, MonotonicClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long it takes at most to close what is still open when the grace period is over.
const CUT_WITHIN: Duration = Duration::from_secs(1);

/// What serves until it is stopped.
pub(super) struct Serving {
    pub(super) gateway: Option<Arc<Gateway>>,
    pub(super) calls: Option<Calls>,
    pub(super) accepting: JoinSet<()>,
    pub(super) pages: JoinSet<()>,
    pub(super) ending: Ending,
}

impl Serving {
    /// Takes nobody in any more, answers what is under way, and returns no later than the grace period and a moment.
    pub(super) async fn stop(self, grace: Duration, mesh: Option<&RunningMesh>, exports: Exports) {
        let Self { gateway, calls, mut accepting, mut pages, ending } = self;
        let ends = MonotonicClock.now().saturating_add(grace);
        leave(mesh, grace).await;
        tracing::info!("stopping: calls in flight are answered, no new connections are taken");
        ending.stop();
        let all = async {
            while accepting.join_next().await.is_some() {}
            if let Some(calls) = calls {
                calls.ended().await;
            }
            // Until the last call is answered, the pages tell that it is stopping.
            ending.close();
            while pages.join_next().await.is_some() {}
        };
        if tokio::time::timeout(ends.since(MonotonicClock.now()), all).await.is_err() {
            tracing::warn!("some connections were still open after the grace period");
        }
        if let Some(gateway) = gateway {
            // Whoever is cut off has a line in the log, too.
            gateway.cut();
            let cut = async { while accepting.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(CUT_WITHIN, cut).await;
            gateway.flush().await;
        }
        if !grace.is_zero() {
            exports.flush(ends.since(MonotonicClock.now()).max(CUT_WITHIN)).await;
        }
    }
}

/// Leaves the mesh, while everything is served as before: rights go back to those who stay, and what comes until
/// the last connection is closed is asked of them. Some of the time is left for that.
async fn leave(mesh: Option<&RunningMesh>, grace: Duration) {
    let Some(mesh) = mesh else { return };
    tracing::info!("leaving the mesh; calls are answered until then");
    if mesh.withdraw(grace * 4 / 5).await {
        tracing::info!("left the mesh");
    }
}
