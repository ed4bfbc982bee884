//! Fallback to TCP where UDP is blocked.

use super::authority::Authority;
use super::nodes::{Nodes, ShiftedClock, is_admitted, peer, settings, start, start_by, wait_until};
use super::tcp_proxy::TcpProxy;
use hivemind_core::{Limit, Period};
use hivemind_mesh_net::{Mesh, PeerState, Transport};
use std::time::Duration;
use tokio::time::timeout;

// Fails when TCP is never tried, when QUIC is never retried, or when a QUIC connection does not replace one over TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peer_falls_back_to_tcp_and_returns_to_quic() {
    let nodes = Nodes::start(1).await;
    let first = &nodes.list[0];
    let proxy = TcpProxy::to(first.address()).await.address;
    let second = start(settings(nodes.authority.node("second"), "second", Some(proxy))).await;
    wait_until("it is connected over TCP", || {
        peer(&second, "node-0").is_some_and(|peer| peer.transport == Some(Transport::Tcp))
    })
    .await;
    wait_until("both are members", || second.standing().is_member).await;
    let limit = Limit::fixed_window(5, Period::DAY);
    let mut admitted = 0;
    for index in 0..10 {
        admitted += u32::from(is_admitted(if index % 2 == 0 { first } else { &second }, 1, &limit).await);
    }
    assert_eq!(admitted, 5);
    let seen = peer(first, "second").unwrap();
    assert_eq!((seen.state, seen.transport), (PeerState::Alive, Some(Transport::Tcp)));
    assert!(seen.round_trip.is_some_and(|trip| trip < Duration::from_secs(1)), "{seen:?}");

    // Each advertises its real address, where QUIC works.
    wait_until("both are connected over QUIC", || {
        [(first, "second"), (&second, "node-0")]
            .iter()
            .all(|(node, name)| peer(node, name).is_some_and(|peer| peer.transport == Some(Transport::Quic)))
    })
    .await;
    assert!(!is_admitted(&second, 1, &limit).await, "the counter is the same");
    second.leave(Duration::ZERO).await;
    nodes.leave().await;
}

fn is_over_tcp(node: &Mesh, name: &str) -> bool {
    peer(node, name).is_some_and(|peer| peer.transport == Some(Transport::Tcp))
}

// Fails when dials share the backoff of QUIC retries: after three retries no dial follows for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_tcp_connection_is_soon_replaced_where_quic_fails() {
    let (authority, clock) = (Authority::new(), ShiftedClock::default());
    let proxies = [TcpProxy::new().await, TcpProxy::new().await];
    let mut list = Vec::new();
    for (name, proxy, known) in [("a", &proxies[0], None), ("b", &proxies[1], Some(proxies[0].address))] {
        let mut settings = settings(authority.node(name), name, known);
        proxy.advertise_in(&mut settings);
        let node = start_by(settings, &clock).await;
        proxy.set_target(Some(node.address()));
        list.push(node);
    }
    let are_connected = || is_over_tcp(&list[0], "b") && is_over_tcp(&list[1], "a");
    wait_until("they are connected over TCP", are_connected).await;
    // Each QUIC retry starts after the previous one has failed.
    for tries in 1..=3 {
        let before: Vec<usize> = proxies.iter().map(TcpProxy::quic_dials).collect();
        clock.advance(Duration::from_secs(90));
        wait_until("both have retried QUIC", || {
            proxies.iter().zip(&before).all(|(proxy, before)| proxy.quic_dials() > *before)
        })
        .await;
        assert!(are_connected(), "after retry {tries}");
    }
    for (proxy, node) in proxies.iter().zip(&list) {
        proxy.set_target(None);
        proxy.set_target(Some(node.address()));
    }
    let connections = |index: usize, name| peer(&list[index], name).map(|peer| peer.connections);
    let again = wait_until("they are reconnected", || {
        connections(0, "b") >= Some(2) && connections(1, "a") >= Some(2) && are_connected()
    });
    assert!(timeout(Duration::from_secs(15), again).await.is_ok(), "within seconds");
    for node in list {
        node.leave(Duration::ZERO).await;
    }
}
