//! Discovery by DNS and multicast, and removal of dead nodes by DNS.

use super::authority::Authority;
use super::name_server::{NameServer, SERVICE};
use super::nodes::{Nodes, peer, settings, start, wait_until};
use hivemind_core::{Limit, Period};
use hivemind_mesh_net::{Discovery, Mesh, PeerState};
use std::time::Duration;
use tokio::time::timeout;

async fn start_with_dns(authority: &Authority, name: &str, server: &NameServer) -> Mesh {
    let mut settings = settings(authority.node(name), name, None);
    settings.discovery = Discovery {
        dns: vec![SERVICE.to_owned()],
        nameservers: vec![server.address],
        ..Discovery::default()
    };
    start(settings).await
}

// Fails when truncated answers count as complete, when a failed lookup withdraws all nodes, or when names are not passed
// to the state machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn srv_records_connect_nodes_and_remove_a_silent_unlisted_one() {
    let (authority, server) = (Authority::new(), NameServer::start().await);
    let mut list = Vec::new();
    for name in ["node-0", "node-1", "node-2"] {
        list.push(start_with_dns(&authority, name, &server).await);
    }
    let ports = |list: &[Mesh]| list.iter().map(|node| node.address().port()).collect::<Vec<_>>();
    server.list(Some(ports(&list)));
    let mut nodes = Nodes { list, authority };
    nodes.wait_for_members().await;
    let limit = Limit::fixed_window(5, Period::DAY);
    assert_eq!(nodes.admitted(20, 1, &limit).await, 5);

    // All nodes have seen all names while they knew the owners.
    let answers = server.answers();
    wait_until("all have looked up again", || server.answers() >= answers + 6).await;

    // One node crashes. While it is listed, or while lookups fail, it stays a member.
    let crashed = nodes.list.remove(2);
    drop(crashed);
    server.list(None);
    wait_until("it is dead", || {
        nodes.list.iter().all(|node| peer(node, "node-2").is_some_and(|peer| peer.state == PeerState::Dead))
    })
    .await;
    let failures = server.failures();
    wait_until("lookups have failed for a while", || server.failures() >= failures + 6).await;
    assert!(nodes.list.iter().all(|node| node.standing().members.len() == 3));
    server.list(Some(ports(&nodes.list)));
    nodes.wait_for_members_of(2).await;
    nodes.leave().await;
}

// The name is of the system and may resolve to two loopback addresses of one peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_find_each_other_by_dns_addresses() {
    let mut nodes = Nodes::start(1).await;
    let mut second = settings(nodes.authority.node("second"), "second", None);
    let port = nodes.list[0].address().port();
    second.discovery = Discovery { dns: vec![format!("localhost:{port}")], ..Discovery::default() };
    nodes.list.push(start(second).await);
    nodes.wait_for_members().await;
    nodes.leave().await;
}

// Each node announces itself on the networks of this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_find_each_other_by_multicast() {
    let authority = Authority::new();
    let mut list = Vec::new();
    let cluster = format!("multicast-{}", std::process::id());
    for name in ["mdns-a", "mdns-b"] {
        let mut settings = settings(authority.node(name), name, None);
        settings.cluster.clone_from(&cluster);
        settings.discovery = Discovery { mdns: true, ..Discovery::default() };
        list.push(start(settings).await);
    }
    let nodes = Nodes { list, authority };
    nodes.wait_for_members().await;
    nodes.leave().await;
}

// A cold start: records appear seconds after the nodes. Fails when names are looked up every five seconds only, or when
// meshes are founded after three.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_dns_records_still_lead_to_one_mesh() {
    let (authority, server) = (Authority::new(), NameServer::start().await);
    server.deny();
    let mut list = Vec::new();
    for name in ["node-0", "node-1", "node-2"] {
        list.push(start_with_dns(&authority, name, &server).await);
    }
    // Nothing must happen within this time.
    let nothing = wait_until("a node is in a mesh", || list.iter().any(Mesh::is_ready));
    assert!(timeout(Duration::from_secs(4), nothing).await.is_err(), "no mesh is founded yet");
    assert!(server.failures() > 3 * 4, "all have looked up repeatedly");
    server.list(Some(list.iter().map(|node| node.address().port()).collect()));
    let founder = |node: &Mesh| {
        let standing = node.standing();
        assert_eq!(standing.overlaps, 0);
        // The node with the smallest name founds the mesh, and the others join.
        let is_alone = standing.members.len() == 1;
        assert!(!is_alone || standing.members[0].id.as_str() == "node-0", "{:?}", standing.members);
        standing.members.len() == list.len()
    };
    wait_until("all are in one mesh", || list.iter().filter(|node| founder(node)).count() == list.len())
        .await;
    Nodes { list, authority }.leave().await;
}

// A node may be the only one, whatever its name server answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_failing_lookup_founds_a_mesh_and_reports_isolation() {
    let (authority, server) = (Authority::new(), NameServer::start().await);
    let node = start_with_dns(&authority, "node", &server).await;
    wait_until("it has a mesh of its own", || node.is_ready()).await;
    let isolation = node.isolation().expect("it has no peers");
    assert!(isolation.addresses == 0 && isolation.reason.contains(SERVICE), "{isolation:?}");
    // The name resolves to this node only, so no peer is missing.
    server.list(Some(vec![node.address().port()]));
    wait_until("it is no longer isolated", || node.isolation().is_none()).await;
    node.leave(Duration::ZERO).await;
}
