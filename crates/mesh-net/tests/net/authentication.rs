//! Authentication: callers without a certificate of the CA, of another mesh, or with another node's name are rejected
//! over both transports.

use super::authority::Authority;
use super::nodes::{Nodes, is_admitted, peer, settings, start, wait_until};
use super::untrusted_client::{UntrustedClient, hello};
use hivemind_core::{Limit, Period, SystemClock};
use hivemind_mesh_net::Mesh;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// Connects to a node over both transports and checks that it receives nothing and does not become a peer.
async fn assert_rejected(node: &Mesh, client: &UntrustedClient, sent: &[u8]) {
    let before = node.callers_refused();
    let over_quic = client.exchange_over_quic(node.address(), sent).await;
    let over_tcp = client.exchange_over_tcp(node.address(), sent).await;
    assert_eq!((over_quic.len(), over_tcp.len()), (0, 0), "received {over_quic:?} {over_tcp:?}");
    wait_until("both connections are rejected", || node.callers_refused() >= before + 2).await;
    assert!(peer(node, "intruder").is_none());
    assert_eq!(node.standing().unreadable, 0, "no frame reached the state machine");
}

// Fails when clients without certificates are accepted, any CA is trusted, the clock stands still in 1998, or names or
// meshes are not compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_without_a_certificate_of_the_ca_gets_nothing() {
    let nodes = Nodes::start(2).await;
    let node = &nodes.list[0];
    let (foreign, files) = (Authority::new(), nodes.authority.node("intruder"));
    let sent = hello("test", "intruder");
    assert_rejected(node, &UntrustedClient::with(None, &files), &sent).await;
    assert_rejected(node, &UntrustedClient::with(Some(&foreign.node("intruder")), &files), &sent).await;
    assert_rejected(node, &UntrustedClient::with(Some(&nodes.authority.expired("intruder")), &files), &sent)
        .await;
    nodes.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_mesh_or_name_is_rejected_despite_a_valid_certificate() {
    let nodes = Nodes::start(2).await;
    let node = &nodes.list[0];
    let files = nodes.authority.node("intruder");
    let client = UntrustedClient::with(Some(&files), &files);
    assert_rejected(node, &client, &hello("other", "intruder")).await;
    assert_rejected(node, &client, &hello("test", "node-1")).await;
    assert_rejected(node, &client, &hello("test", "Intruder")).await;
    assert_rejected(node, &client, &hello("test", "node-0")).await;
    assert_rejected(node, &client, b"GET / HTTP/1.1\r\n\r\n").await;
    assert_rejected(node, &client, &[2, 0, 0, 0, 1, 0]).await;
    // A valid hello is accepted, so the hello caused the rejections above.
    let received = client.exchange_over_tcp(node.address(), &hello("test", "intruder")).await;
    assert!(!received.is_empty());
    nodes.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_meshes_of_one_ca_never_merge() {
    let nodes = Nodes::start(2).await;
    let mut other = settings(nodes.authority.node("other"), "other", Some(nodes.list[0].address()));
    other.cluster = "another".to_owned();
    let other = start(other).await;
    wait_until("its dial was rejected", || nodes.list[0].callers_refused() > 0).await;
    wait_until("it has founded its own mesh", || other.standing().is_member).await;
    let limit = Limit::fixed_window(5, Period::DAY);
    // Few requests, because each refusal waits for a recall.
    assert_eq!(nodes.admitted(7, 1, &limit).await, 5);
    let mut alone = 0;
    for _ in 0..10 {
        alone += u32::from(is_admitted(&other, 1, &limit).await);
    }
    assert_eq!(alone, 5, "it has its own counters");
    assert!(other.peers().is_empty() && nodes.list.iter().all(|node| node.peers().len() == 1));
    other.leave(Duration::ZERO).await;
    nodes.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_with_an_unacceptable_certificate_does_not_start() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let other_ca = hivemind_mesh_net::MeshTlsFiles { ca: foreign.node("a").ca, ..authority.node("a") };
    for (files, name, message) in [
        (authority.expired("a"), "a", "peers would reject this certificate"),
        (other_ca, "a", "peers would reject this certificate"),
        (authority.node("b"), "a", "is not for the name `a`"),
        (authority.node("c"), "C", "is not for the name `C`"),
    ] {
        let error = Mesh::start(settings(files, name, None), Arc::new(SystemClock)).await.unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

// Fails when the handshake has no timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_caller_is_disconnected() {
    let nodes = Nodes::start(1).await;
    let mut silent = tokio::net::TcpStream::connect(nodes.list[0].address()).await.unwrap();
    let closed = timeout(Duration::from_secs(60), silent.read(&mut [0])).await;
    assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{closed:?}");
    nodes.leave().await;
}
