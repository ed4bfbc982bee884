//! Shutdown sequence of the serving components.

use super::rate_limit_server::RateLimitServer;
use super::shutdown::Shutdown;
use super::telemetry::Exports;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_engine::mesh::RunningMesh;
use hivemind_gateway::Gateway;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Time limit for aborting connections that are still open after the grace period.
const ABORT_WITHIN: Duration = Duration::from_secs(1);

/// The components that serve until shutdown.
pub(super) struct ServingComponents {
    pub(super) gateway: Option<Arc<Gateway>>,
    pub(super) calls: Option<RateLimitServer>,
    pub(super) accepting: JoinSet<()>,
    pub(super) http_servers: JoinSet<()>,
    pub(super) shutdown: Shutdown,
}

impl ServingComponents {
    /// Stops accepting, answers requests in progress, and returns shortly after the grace period at the latest.
    pub(super) async fn stop(self, grace: Duration, mesh: Option<&RunningMesh>, exports: Exports) {
        let Self { gateway, calls, mut accepting, mut http_servers, shutdown } = self;
        let ends = MonotonicClock.now().saturating_add(grace);
        leave(mesh, grace).await;
        tracing::info!("stopping: calls in flight are answered, no new connections are accepted");
        shutdown.stop();
        let all = async {
            while accepting.join_next().await.is_some() {}
            if let Some(calls) = calls {
                calls.ended().await;
            }
            // The admin port reports the shutdown until the last call is answered.
            shutdown.close();
            while http_servers.join_next().await.is_some() {}
        };
        if tokio::time::timeout(ends.since(MonotonicClock.now()), all).await.is_err() {
            tracing::warn!("some connections were still open after the grace period");
        }
        if let Some(gateway) = gateway {
            // Aborted requests are written to the access log too.
            gateway.abort_connections();
            let aborted = async { while accepting.join_next().await.is_some() {} };
            let _ = tokio::time::timeout(ABORT_WITHIN, aborted).await;
            gateway.flush().await;
        }
        if !grace.is_zero() {
            exports.flush(ends.since(MonotonicClock.now()).max(ABORT_WITHIN)).await;
        }
    }
}

/// Leaves the mesh while everything is still served: allowance returns to the remaining members, and later requests
/// ask them. A fifth of the grace period is left for those.
async fn leave(mesh: Option<&RunningMesh>, grace: Duration) {
    let Some(mesh) = mesh else { return };
    tracing::info!("leaving the mesh; calls are still answered");
    if mesh.withdraw(grace * 4 / 5).await {
        tracing::info!("left the mesh");
    }
}
