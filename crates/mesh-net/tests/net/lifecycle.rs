//! Nodes that join, leave, crash and restart.

use super::nodes::{Nodes, is_admitted, peer, settings, start, start_when_free, wait_until};
use hivemind_core::{Limit, Period};
use hivemind_mesh_net::{Mesh, PeerState, Transport};
use std::time::Duration;

// Five per day: the first five requests pass on any node, and no sixth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_with_one_seed_share_a_small_limit_exactly() {
    let nodes = Nodes::start(3).await;
    let limit = Limit::fixed_window(5, Period::DAY);
    for index in 0..20 {
        let passed = is_admitted(&nodes.list[index % 3], 7, &limit).await;
        assert_eq!(passed, index < 5, "request {index}");
    }
    let seen = peer(&nodes.list[0], "node-2").unwrap();
    assert_eq!((seen.state, seen.transport), (PeerState::Alive, Some(Transport::Quic)));
    assert!(seen.is_member && seen.bytes_in > 0 && seen.bytes_out > 0 && seen.round_trip.is_some());
    assert_eq!((seen.frames_lost, seen.connections), (0, 1));
    nodes.leave().await;
}

// Fails when a node that has just joined considers itself removed while the latest view is not effective yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_node_is_removed_from_view_and_peer_list() {
    let mut nodes = Nodes::start(3).await;
    let leaver = nodes.list.remove(1);
    leaver.leave(Duration::from_secs(60)).await;
    nodes.wait_for_members().await;
    wait_until("no node knows it", || nodes.list.iter().all(|node| peer(node, "node-1").is_none())).await;
    nodes.leave().await;
}

// Fails when dead peers are not dialed again, or when a new generation is a member because the last one was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_node_is_reported_dead_and_rejoins_after_restart() {
    let mut nodes = Nodes::start(3).await;
    let crashed = nodes.list.remove(2);
    let before = peer(&nodes.list[0], "node-2").unwrap();
    let address = crashed.address();
    drop(crashed);
    wait_until("it is dead", || {
        nodes.list.iter().all(|node| peer(node, "node-2").is_some_and(|peer| peer.state == PeerState::Dead))
    })
    .await;
    assert!(
        nodes.list.iter().all(|node| node.standing().members.len() == 3),
        "silence alone removes no member"
    );
    wait_until("its old connections have ended", || {
        let silence = peer(&nodes.list[0], "node-2").and_then(|peer| peer.silence);
        silence.is_some_and(|silence| silence > Duration::from_secs(9))
    })
    .await;
    // It has no seeds: the others dial its previous address.
    let mut again = settings(nodes.authority.node("node-2"), "node-2", None);
    again.bind = address;
    nodes.list.push(start_when_free(again).await);
    wait_until("its new generation is in the view", || {
        is_member_after(&nodes.list[0], "node-2", before.generation)
    })
    .await;
    nodes.wait_for_members().await;
    let after = peer(&nodes.list[0], "node-2").unwrap();
    assert!(after.state == PeerState::Alive && after.generation > before.generation, "{after:?}");
    nodes.leave().await;
}

/// Whether a later generation is a member. A peer shown as a member has to be in the view with that generation.
fn is_member_after(node: &Mesh, name: &str, before: u64) -> bool {
    let (first, seen, last) = (node.standing(), peer(node, name).unwrap(), node.standing());
    let is_in_view = first
        .members
        .iter()
        .any(|member| member.id.as_str() == name && member.generation.0 == seen.generation);
    // The view may change between two calls.
    assert!(first.view != last.view || seen.is_member == is_in_view, "{seen:?} in {:?}", first.members);
    seen.is_member && seen.generation > before
}

// Fails when names are compared without generations, or when an older generation is rejected without the peer table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_of_two_processes_of_one_name_learns_of_the_newer() {
    let nodes = Nodes::start(2).await;
    let older = &nodes.list[1];
    // It knows only the first node, which rejects the older process and sends it the reason.
    let twin = settings(nodes.authority.node("node-1"), "node-1", Some(nodes.list[0].address()));
    let twin = start(twin).await;
    wait_until("the older process knows", || older.standing().outdated_by.is_some()).await;
    wait_until("the newer process is a member", || twin.standing().is_member).await;
    assert_eq!(twin.standing().outdated_by, None);
    twin.leave(Duration::ZERO).await;
    nodes.leave().await;
}

// Fails when connections over the limit are accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_peers_is_limited_by_the_setting() {
    let nodes = Nodes::start(1).await;
    let first = nodes.list[0].address();
    let mut small = settings(nodes.authority.node("small"), "small", Some(first));
    small.max_peers = 1;
    let small = start(small).await;
    let other = start(settings(nodes.authority.node("other"), "other", Some(first))).await;
    wait_until("the others are connected", || {
        peer(&other, "node-0").is_some_and(|peer| peer.transport.is_some())
            && nodes.list[0].peers().len() == 2
    })
    .await;
    wait_until("the small node has one peer and rejected another", || {
        small.peers().len() == 1 && small.callers_refused() > 0
    })
    .await;
    assert_eq!(small.peers()[0].name.as_str(), "node-0");
    small.leave(Duration::ZERO).await;
    other.leave(Duration::ZERO).await;
    nodes.leave().await;
}
