//! A node whose clock is wrong.

use super::nodes::{Nodes, peer, settings, until};
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_mesh_net::{Mesh, PeerState};
use std::sync::Arc;
use std::time::Duration;

/// The machine's clock, an hour ahead.
struct Ahead;

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        SystemClock.now().saturating_add(Duration::from_secs(3_600))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_clock_is_an_hour_off_is_seen_in_quarantine_and_knows_that_it_is_the_one() {
    let mut nodes = Nodes::started(2).await;
    let late = settings(nodes.authority.node("ahead"), "ahead", Some(nodes.list[0].address()));
    nodes.list.push(Mesh::start(late, Arc::new(Ahead)).await.unwrap());
    until("the others see it", || {
        nodes.list[..2].iter().all(|node| {
            peer(node, "ahead").is_some_and(|peer| {
                let hours = peer.clock_offset_us.unwrap_or(0) / 3_500_000_000;
                peer.state == PeerState::Quarantined && hours == 1
            })
        })
    })
    .await;
    until("it knows", || nodes.list[2].standing().is_outlier).await;
    nodes.leave().await;
}
