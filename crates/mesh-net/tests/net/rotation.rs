//! Rotation of certificates and of the CA while nodes run.

use super::authority::Authority;
use super::nodes::{Nodes, ShiftedClock, peer, settings, start, start_by, wait_until};
use super::tcp_proxy::TcpProxy;
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

// Fails when a reload closes connections, when those made with the old CA close before they are replaced, or when each
// side keeps a different one of two new connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_and_ca_rotation_loses_no_peer() {
    let mut nodes = Nodes::start(3).await;
    let limit = Limit::fixed_window(5, Period::DAY);
    assert_eq!(nodes.admitted(3, 1, &limit).await, 3);
    let before = nodes.list[0].certificates();

    // Both CAs are trusted, then certificates are of the new one: no connection changes.
    let old = nodes.authority.replace();
    nodes.authority.write_ca(&old);
    reload(&nodes);
    for index in 0..3 {
        nodes.authority.node(&format!("node-{index}"));
    }
    reload(&nodes);
    assert!(!nodes.list[0].reload_identity().unwrap(), "nothing is new the second time");
    for name in ["node-1", "node-2"] {
        let before = peer(&nodes.list[0], name).unwrap().bytes_in;
        wait_until("frames go on", || peer(&nodes.list[0], name).unwrap().bytes_in > before + 500).await;
        assert_eq!(connections(&nodes.list[0], name), 1);
    }
    assert_eq!(nodes.list[0].certificates(), before, "rcgen gives all certificates the same validity");

    // The old CA is no longer trusted: connections made with it are renewed before they close.
    nodes.authority.write_ca("");
    reload(&nodes);
    wait_until("all connections are made with the new CA", || {
        let pairs =
            [(0, "node-1"), (0, "node-2"), (1, "node-2"), (1, "node-0"), (2, "node-0"), (2, "node-1")];
        pairs.iter().all(|(index, name)| {
            let seen = peer(&nodes.list[*index], name).unwrap();
            assert!(seen.transport.is_some(), "{seen:?}");
            seen.connections >= 2
        })
    })
    .await;
    // Few requests, because each refusal waits for a recall.
    assert_eq!(nodes.admitted(4, 1, &limit).await, 2, "five in total: the counter is complete");

    let late = settings(nodes.authority.node("late"), "late", Some(nodes.list[1].address()));
    nodes.list.push(start(late).await);
    nodes.wait_for_members().await;
    nodes.leave().await;
}

// Fails when peers with a certificate of a removed CA stay connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_with_an_untrusted_ca_is_disconnected() {
    let mut nodes = Nodes::start(2).await;
    nodes.authority.replace();
    nodes.authority.write_ca("");
    let files = nodes.authority.node("node-0");
    assert!(files.cert.exists());
    assert!(nodes.list[0].reload_identity().unwrap());
    wait_until("it is disconnected", || peer(&nodes.list[0], "node-1").unwrap().transport.is_none()).await;
    nodes.leave().await;
}

// An incomplete file, or one of another node, changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_files_change_nothing() {
    let nodes = Nodes::start(2).await;
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

// Fails when TCP connections are not renewed while QUIC retries are delayed, and close without a replacement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ca_rotation_over_tcp_loses_no_peer() {
    let (mut authority, clock) = (Authority::new(), ShiftedClock::default());
    let proxies = [TcpProxy::new().await, TcpProxy::new().await];
    let mut list = Vec::new();
    for (name, proxy, known) in
        [("node-0", &proxies[0], None), ("node-1", &proxies[1], Some(proxies[0].address))]
    {
        let mut settings = settings(authority.node(name), name, known);
        proxy.advertise_in(&mut settings);
        list.push(start_by(settings, &clock).await);
        proxy.set_target(list.last().map(Mesh::address));
    }
    let old = authority.replace();
    authority.write_ca(&old);
    let nodes = Nodes { list, authority };
    nodes.wait_for_members().await;
    // The background task may have reloaded already.
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
    // QUIC has failed and is retried after a delay.
    let before: Vec<usize> = proxies.iter().map(TcpProxy::quic_dials).collect();
    let all_have_tried =
        |more: usize| proxies.iter().zip(&before).all(|(proxy, before)| proxy.quic_dials() >= before + more);
    clock.advance(Duration::from_secs(90));
    wait_until("both have tried QUIC", || all_have_tried(1)).await;
    clock.advance(Duration::from_secs(90));
    wait_until("both have tried QUIC again", || all_have_tried(2)).await;

    nodes.authority.write_ca("");
    let connections = [connections(&nodes.list[0], "node-1"), connections(&nodes.list[1], "node-0")];
    reload();
    wait_until("they are connected with the new CA", || {
        let seen = [peer(&nodes.list[0], "node-1").unwrap(), peer(&nodes.list[1], "node-0").unwrap()];
        assert!(seen.iter().all(|peer| peer.transport == Some(Transport::Tcp)), "{seen:?}");
        seen.iter().zip(connections).all(|(peer, before)| peer.connections > before)
    })
    .await;
    nodes.leave().await;
}

// Fails when chains are checked only after a change of the CA.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_closes_when_its_certificate_expires() {
    let (authority, clock) = (Authority::new(), ShiftedClock::default());
    let first = start_by(settings(authority.node("node-0"), "node-0", None), &clock).await;
    let known = Some(first.address());
    let files = authority.good_for("short", Duration::from_secs(86_400));
    let list = vec![
        start_by(settings(files, "short", known), &clock).await,
        start_by(settings(authority.node("long"), "long", known), &clock).await,
    ];
    let is_connected = |name: &str| peer(&first, name).is_some_and(|peer| peer.transport.is_some());
    wait_until("both are connected", || is_connected("short") && is_connected("long")).await;
    clock.advance(Duration::from_secs(86_400));
    wait_until("the node with the expired certificate is disconnected", || !is_connected("short")).await;
    assert!(is_connected("long"));
    // It reconnects with a new certificate.
    authority.node("short");
    wait_until("it is reconnected", || is_connected("short")).await;
    for node in list {
        node.leave(Duration::ZERO).await;
    }
    first.leave(Duration::ZERO).await;
}
