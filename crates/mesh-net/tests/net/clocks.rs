//! A node with a wrong clock.

use super::nodes::{Nodes, peer, settings, wait_until};
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_mesh_net::{Mesh, PeerState};
use std::sync::Arc;
use std::time::Duration;

/// A clock that is an hour ahead.
struct Ahead;

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().saturating_add(Duration::from_secs(3_600))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_a_wrong_clock_is_quarantined_and_knows_it() {
    let mut nodes = Nodes::start(2).await;
    let late = settings(nodes.authority.node("ahead"), "ahead", Some(nodes.list[0].address()));
    nodes.list.push(Mesh::start(late, Arc::new(Ahead)).await.unwrap());
    wait_until("the others quarantine it", || {
        nodes.list[..2].iter().all(|node| {
            peer(node, "ahead").is_some_and(|peer| {
                let hours = peer.clock_offset_us.unwrap_or(0) / 3_500_000_000;
                peer.state == PeerState::Quarantined && hours == 1
            })
        })
    })
    .await;
    wait_until("it knows that its clock is off", || nodes.list[2].standing().is_outlier).await;
    nodes.leave().await;
}
