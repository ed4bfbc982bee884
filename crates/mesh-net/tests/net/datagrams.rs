//! Where datagrams do not get through.

use super::authority::Authority;
use super::nodes::{Nodes, Shifted, passes, peer, settings, start, start_by, until};
use super::ways::TcpOnly;
use hivemind_core::{Limit, Period};
use hivemind_mesh_net::{Mesh, PeerState, Transport};
use std::time::Duration;
use tokio::time::timeout;

// Seen failing on: TCP never tried; datagrams never tried again; a connection by datagrams refused beside one by TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_is_reached_by_tcp_where_datagrams_do_not_get_through_and_by_datagrams_again_where_they_do() {
    let nodes = Nodes::started(1).await;
    let first = &nodes.list[0];
    let way = TcpOnly::to(first.address()).await.address;
    let second = start(settings(nodes.authority.node("second"), "second", Some(way))).await;
    until("it is reached by TCP", || {
        peer(&second, "node-0").is_some_and(|peer| peer.transport == Some(Transport::Tcp))
    })
    .await;
    until("both are members", || second.standing().is_member).await;
    let limit = Limit::fixed_window(5, Period::DAY);
    let mut admitted = 0;
    for index in 0..10 {
        admitted += u32::from(passes(if index % 2 == 0 { first } else { &second }, 1, &limit).await);
    }
    assert_eq!(admitted, 5);
    let seen = peer(first, "second").unwrap();
    assert_eq!((seen.state, seen.transport), (PeerState::Alive, Some(Transport::Tcp)));
    assert!(seen.round_trip.is_some_and(|trip| trip < Duration::from_secs(1)), "{seen:?}");

    // Each of them gives its real address, at which datagrams get through.
    until("both are reached by datagrams", || {
        [(first, "second"), (&second, "node-0")]
            .iter()
            .all(|(node, name)| peer(node, name).is_some_and(|peer| peer.transport == Some(Transport::Quic)))
    })
    .await;
    assert!(!passes(&second, 1, &limit).await, "the counter is the same");
    second.leave(Duration::ZERO).await;
    nodes.leave().await;
}

fn is_by_tcp(node: &Mesh, name: &str) -> bool {
    peer(node, name).is_some_and(|peer| peer.transport == Some(Transport::Tcp))
}

// Seen failing on: one wait for calls and for datagrams: after three tries nobody called for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_datagrams_never_get_through_a_connection_that_breaks_is_soon_made_anew() {
    let (authority, clock) = (Authority::new(), Shifted::default());
    let ways = [TcpOnly::new().await, TcpOnly::new().await];
    let mut list = Vec::new();
    for (name, way, known) in [("a", &ways[0], None), ("b", &ways[1], Some(ways[0].address))] {
        let mut settings = settings(authority.node(name), name, known);
        way.is_the_way_to(&mut settings);
        let node = start_by(settings, &clock).await;
        way.lead_to(Some(node.address()));
        list.push(node);
    }
    let are_connected = || is_by_tcp(&list[0], "b") && is_by_tcp(&list[1], "a");
    until("they are connected by TCP", are_connected).await;
    // Each try is begun once the one before has failed.
    for tries in 1..=3 {
        let before: Vec<usize> = ways.iter().map(TcpOnly::calls).collect();
        clock.advance(Duration::from_secs(90));
        until("both have tried datagrams once more", || {
            ways.iter().zip(&before).all(|(way, before)| way.calls() > *before)
        })
        .await;
        assert!(are_connected(), "at the try {tries}");
    }
    for (way, node) in ways.iter().zip(&list) {
        way.lead_to(None);
        way.lead_to(Some(node.address()));
    }
    let connections = |index: usize, name| peer(&list[index], name).map(|peer| peer.connections);
    let again = until("they are connected anew", || {
        connections(0, "b") >= Some(2) && connections(1, "a") >= Some(2) && are_connected()
    });
    assert!(timeout(Duration::from_secs(15), again).await.is_ok(), "not for minutes");
    for node in list {
        node.leave(Duration::ZERO).await;
    }
}
