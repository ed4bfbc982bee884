//! Certificates and the CA are replaced in their files while nodes run.

use super::authority::Authority;
use super::nodes::{Nodes, Shifted, peer, settings, start, start_by, until};
use super::ways::TcpOnly;
use hivemind_core::{Limit, Period};
use hivemind_mesh_net::{Mesh, Transport};
use std::time::Duration;

fn reload(nodes: &Nodes) {
    for node in &nodes.list {
        assert!(node.reload_identity().unwrap(), "there are new files");
    }
}

fn connections(node: &Mesh, name: &str) -> u64 {
    peer(node, name).unwrap().connections
}

// Seen failing on: connections closed at each reload; those made with the old CA closed before there are others; each side
// keeping another of two new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_certificate_and_a_new_ca_take_over_and_no_peer_is_lost() {
    let mut nodes = Nodes::started(3).await;
    let limit = Limit::fixed_window(5, Period::DAY);
    assert_eq!(nodes.admitted(3, 1, &limit).await, 3);
    let before = nodes.list[0].certificates();

    // Both CAs are believed, then certificates are of the new one: no connection notices.
    let old = nodes.authority.replace();
    nodes.authority.write_ca(&old);
    reload(&nodes);
    for index in 0..3 {
        nodes.authority.node(&format!("node-{index}"));
    }
    reload(&nodes);
    assert!(!nodes.list[0].reload_identity().unwrap(), "nothing is new the second time");
    for name in ["node-1", "node-2"] {
        let heard = peer(&nodes.list[0], name).unwrap().bytes_in;
        until("frames go on", || peer(&nodes.list[0], name).unwrap().bytes_in > heard + 500).await;
        assert_eq!(connections(&nodes.list[0], name), 1);
    }
    assert_eq!(nodes.list[0].certificates(), before, "rcgen gives all of them the same time");

    // The old one is believed no longer: what was made with it is made anew before it ends.
    nodes.authority.write_ca("");
    reload(&nodes);
    until("all connections are made with the new CA", || {
        let pairs =
            [(0, "node-1"), (0, "node-2"), (1, "node-2"), (1, "node-0"), (2, "node-0"), (2, "node-1")];
        pairs.iter().all(|(index, name)| {
            let seen = peer(&nodes.list[*index], name).unwrap();
            assert!(seen.transport.is_some(), "{seen:?}");
            seen.connections >= 2
        })
    })
    .await;
    // Few: what is refused waits for the owner to recall what others may hold.
    assert_eq!(nodes.admitted(4, 1, &limit).await, 2, "five in all: nothing of the counter was lost");

    let late = settings(nodes.authority.node("late"), "late", Some(nodes.list[1].address()));
    nodes.list.push(start(late).await);
    nodes.all_are_members().await;
    nodes.leave().await;
}

// Seen failing on: peers of a CA that was withdrawn, which stay connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_stays_with_a_ca_that_is_believed_no_longer_is_shown_out() {
    let mut nodes = Nodes::started(2).await;
    nodes.authority.replace();
    nodes.authority.write_ca("");
    let files = nodes.authority.node("node-0");
    assert!(files.cert.exists());
    assert!(nodes.list[0].reload_identity().unwrap());
    until("it is connected no longer", || peer(&nodes.list[0], "node-1").unwrap().transport.is_none()).await;
    nodes.leave().await;
}

/// A file that is half written, or not for this node, changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_cannot_be_used_leave_everything_as_it_was() {
    let nodes = Nodes::started(2).await;
    let before = nodes.list[0].certificates();
    let files = nodes.authority.expired("node-0");
    assert!(nodes.list[0].reload_identity().is_err());
    std::fs::write(&files.key, "no key").unwrap();
    assert!(nodes.list[0].reload_identity().is_err());
    assert_eq!(nodes.list[0].certificates(), before);
    let limit = Limit::fixed_window(5, Period::DAY);
    assert_eq!(nodes.admitted(20, 1, &limit).await, 5);
    assert_eq!(connections(&nodes.list[0], "node-1"), 1);
    nodes.leave().await;
}

// Seen failing on: connections by TCP that are not due to be called while datagrams wait, and end without a successor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ca_is_replaced_while_peers_speak_tcp_and_no_peer_is_lost() {
    let (mut authority, clock) = (Authority::new(), Shifted::default());
    let ways = [TcpOnly::new().await, TcpOnly::new().await];
    let mut list = Vec::new();
    for (name, way, known) in [("node-0", &ways[0], None), ("node-1", &ways[1], Some(ways[0].address))] {
        let mut settings = settings(authority.node(name), name, known);
        way.is_the_way_to(&mut settings);
        list.push(start_by(settings, &clock).await);
        way.lead_to(list.last().map(Mesh::address));
    }
    let old = authority.replace();
    authority.write_ca(&old);
    let nodes = Nodes { list, authority };
    nodes.all_are_members().await;
    // It is done every few seconds anyway.
    let reload = || {
        for node in &nodes.list {
            node.reload_identity().unwrap();
        }
    };
    reload();
    for name in ["node-0", "node-1"] {
        nodes.authority.node(name);
    }
    reload();
    // Datagrams were in vain, and are not tried again for a while.
    let before: Vec<usize> = ways.iter().map(TcpOnly::calls).collect();
    let all_have_tried =
        |more: usize| ways.iter().zip(&before).all(|(way, before)| way.calls() >= before + more);
    clock.advance(Duration::from_secs(90));
    until("both have tried datagrams", || all_have_tried(1)).await;
    clock.advance(Duration::from_secs(90));
    until("both have tried datagrams again", || all_have_tried(2)).await;

    nodes.authority.write_ca("");
    let connections = [connections(&nodes.list[0], "node-1"), connections(&nodes.list[1], "node-0")];
    reload();
    until("they are connected with the new CA", || {
        let seen = [peer(&nodes.list[0], "node-1").unwrap(), peer(&nodes.list[1], "node-0").unwrap()];
        assert!(seen.iter().all(|peer| peer.transport == Some(Transport::Tcp)), "{seen:?}");
        seen.iter().zip(connections).all(|(peer, before)| peer.connections > before)
    })
    .await;
    nodes.leave().await;
}

// Seen failing on: chains that are looked at only when the CA changes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_does_not_outlive_the_certificate_it_was_made_with() {
    let (authority, clock) = (Authority::new(), Shifted::default());
    let first = start_by(settings(authority.node("node-0"), "node-0", None), &clock).await;
    let known = Some(first.address());
    let files = authority.good_for("short", Duration::from_secs(86_400));
    let list = vec![
        start_by(settings(files, "short", known), &clock).await,
        start_by(settings(authority.node("long"), "long", known), &clock).await,
    ];
    let is_connected = |name: &str| peer(&first, name).is_some_and(|peer| peer.transport.is_some());
    until("both are connected", || is_connected("short") && is_connected("long")).await;
    clock.advance(Duration::from_secs(86_400));
    until("the one whose certificate has expired is shown out", || !is_connected("short")).await;
    assert!(is_connected("long"));
    // With a new one in its file it is back.
    authority.node("short");
    until("it is back", || is_connected("short")).await;
    for node in list {
        node.leave(Duration::ZERO).await;
    }
    first.leave(Duration::ZERO).await;
}
