//! Reconnection to a peer after its connection broke.

use super::nodes::{Nodes, wait_until};
use super::untrusted_client::{hello, hello_with_generation};
use hivemind_mesh_net::MeshTlsFiles;
use quinn::{Connection, Endpoint};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A peer with a certificate, whose messages the test sends.
fn peer(files: &MeshTlsFiles) -> Endpoint {
    let certificate = CertificateDer::from_pem_file(&files.cert).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"hivemind-mesh/1".to_vec()];
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(config).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    Endpoint::server(config, SocketAddr::from(([127, 0, 0, 1], 0))).unwrap()
}

/// Reads the next message of a stream: its type and its body.
async fn message(reads: &mut quinn::RecvStream) -> (u8, Vec<u8>) {
    let mut head = [0; 5];
    reads.read_exact(&mut head).await.unwrap();
    let [kind, length @ ..] = head;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    reads.read_exact(&mut body).await.unwrap();
    (kind, body)
}

async fn accept_dial(peer: &Endpoint) -> Connection {
    let waiting = async { peer.accept().await.unwrap().await.unwrap() };
    timeout(TIMEOUT, waiting).await.expect("the node dials")
}

// Fails when frames wait for the hello of a known peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_wait_for_the_first_hello_only() {
    let mut nodes = Nodes::start(1).await;
    let peer = peer(&nodes.authority.node("peer"));
    let mut settings =
        super::nodes::settings(nodes.authority.node("node"), "node", Some(peer.local_addr().unwrap()));
    settings.max_peers = 1;
    nodes.list.push(super::nodes::start(settings).await);

    let first = accept_dial(&peer).await;
    let (mut writes, mut reads) = timeout(TIMEOUT, first.accept_bi()).await.unwrap().unwrap();
    assert_eq!(message(&mut reads).await.0, 0, "it sends its hello");
    let silence = timeout(Duration::from_millis(500), message(&mut reads)).await;
    assert!(silence.is_err(), "nothing else before the hello of the peer");
    writes.write_all(&hello("test", "peer")).await.unwrap();
    assert_ne!(timeout(TIMEOUT, message(&mut reads)).await.unwrap().0, 0, "frames follow");
    wait_until("the node knows it", || super::nodes::peer(&nodes.list[1], "peer").is_some()).await;
    // A short connection counts as a failed dial; heartbeats arrive six times per second.
    for _ in 0..6 {
        timeout(TIMEOUT, message(&mut reads)).await.unwrap();
    }
    first.close(0_u32.into(), b"");

    // Now the peer sends nothing.
    let second = accept_dial(&peer).await;
    let (_writes, mut reads) = timeout(TIMEOUT, second.accept_bi()).await.unwrap().unwrap();
    assert_eq!(timeout(TIMEOUT, message(&mut reads)).await.unwrap().0, 0);
    assert_ne!(
        timeout(TIMEOUT, message(&mut reads)).await.unwrap().0,
        0,
        "frames, without a hello of the peer"
    );
    nodes.leave().await;
}

// Fails when only the name of the hello is checked: the node would continue with the previous generation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_generation_or_mesh_forces_a_new_handshake() {
    let nodes = Nodes::start(1).await;
    let peer = peer(&nodes.authority.node("peer"));
    let settings =
        super::nodes::settings(nodes.authority.node("node"), "node", Some(peer.local_addr().unwrap()));
    let node = super::nodes::start(settings).await;
    let generation = || super::nodes::peer(&node, "peer").map(|peer| peer.generation);

    let (first, mut writes, mut reads) = accept_hello(&peer).await;
    writes.write_all(&hello("test", "peer")).await.unwrap();
    for _ in 0..6 {
        timeout(TIMEOUT, message(&mut reads)).await.unwrap();
    }
    assert_eq!(generation(), Some(1));
    first.close(0_u32.into(), b"");

    // The peer restarted: the node closes the connection, and waits for its hello the next time.
    let (second, mut writes, _reads) = accept_hello(&peer).await;
    writes.write_all(&hello_with_generation("test", "peer", 2)).await.unwrap();
    timeout(TIMEOUT, second.closed()).await.expect("it closes the connection");
    let (third, mut writes, mut reads) = accept_hello(&peer).await;
    writes.write_all(&hello_with_generation("test", "peer", 2)).await.unwrap();
    for _ in 0..6 {
        timeout(TIMEOUT, message(&mut reads)).await.unwrap();
    }
    assert_eq!(generation(), Some(2));
    third.close(0_u32.into(), b"");

    // The peer moved to another mesh: it receives nothing more.
    let (fourth, mut writes, _reads) = accept_hello(&peer).await;
    writes.write_all(&hello_with_generation("other", "peer", 2)).await.unwrap();
    timeout(TIMEOUT, fourth.closed()).await.expect("it closes the connection");
    let (_fifth, mut writes, mut reads) = accept_hello(&peer).await;
    writes.write_all(&hello_with_generation("other", "peer", 2)).await.unwrap();
    assert!(
        timeout(TIMEOUT, reads.read_to_end(1 << 16)).await.unwrap().is_err(),
        "it closes the connection without a frame"
    );
    node.leave(Duration::ZERO).await;
    nodes.leave().await;
}

/// Accepts a dial and its hello.
async fn accept_hello(peer: &Endpoint) -> (Connection, quinn::SendStream, quinn::RecvStream) {
    let connection = accept_dial(peer).await;
    let (writes, mut reads) = timeout(TIMEOUT, connection.accept_bi()).await.unwrap().unwrap();
    assert_eq!(timeout(TIMEOUT, message(&mut reads)).await.unwrap().0, 0, "it sends its hello");
    (connection, writes, reads)
}
