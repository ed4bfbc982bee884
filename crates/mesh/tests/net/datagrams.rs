//! Where datagrams do not get through.

use super::nodes::{Nodes, passes, peer, settings, start, until};
use hivemind_core::{Limit, Period};
use hivemind_mesh::net::{PeerState, Transport};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// A way to a node that carries TCP alone, as many firewalls do.
async fn tcp_only(node: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut here, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut there = TcpStream::connect(node).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut here, &mut there).await;
            });
        }
    });
    address
}

// Seen failing on: TCP never tried; datagrams never tried again; a connection by datagrams refused beside one by TCP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_is_reached_by_tcp_where_datagrams_do_not_get_through_and_by_datagrams_again_where_they_do() {
    let nodes = Nodes::started(1).await;
    let first = &nodes.list[0];
    let way = tcp_only(first.address()).await;
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
