//! Reported status of peers and of the node's clock.

use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members, until};
use hivemind_testkit::{get, post};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

/// The report of one component in `/readyz`.
async fn component(node: &Node, name: &str) -> Value {
    let page = get(node.admin, "/readyz?verbose").await;
    let report: Value = serde_json::from_str(&page.body).unwrap();
    report["components"][name].clone()
}

// Seen failing on: peer changes without a log line.
#[tokio::test]
async fn peer_join_and_death_are_logged_with_its_name() {
    let authority = MeshAuthority::new();
    let mut nodes = authority.nodes(2).await;
    let line: Value = serde_json::from_str(&nodes[0].log.next("peer joined").await).unwrap();
    assert_eq!((&line["level"], &line["fields"]["peer"]), (&"INFO".into(), &"node-1".into()), "{line}");
    assert_eq!(line["fields"]["address"], nodes[1].mesh.to_string());
    assert_eq!(component(&nodes[0], "mesh").await["state"], "ok");
    // Killed by its handle, without a goodbye.
    nodes.truncate(1);
    let line = nodes[0].log.next("peer is dead").await;
    assert!(line.contains("WARN") && line.contains("node-1"), "{line}");
    let is_reported = async || component(&nodes[0], "mesh").await["reason"].to_string().contains("node-1");
    until("a reason", is_reported).await;
    assert_eq!(get(nodes[0].admin, "/healthz").await.code, 200);
}

// Seen failing on: a clock outlier that is not reported.
#[tokio::test]
async fn clock_outlier_is_reported_by_itself_and_its_peers() {
    let authority = MeshAuthority::new();
    // The default interval: clocks are compared with every heartbeat, three times per interval.
    let node = |name: &str, peers: &[SocketAddr]| {
        authority.node(name, peers).with("rate_limiting.staleness_threshold_ms", "500")
    };
    let mut nodes = vec![Node::start(node("node-0", &[])).await];
    let bootstrap = [nodes[0].mesh];
    nodes.push(Node::start(node("node-1", &bootstrap)).await);
    all_are_members(&nodes).await;
    let early = node("early", &bootstrap).with("HIVEMIND_TEST_CLOCK_OFFSET_MS", "10000");
    nodes.push(Node::start(early).await);
    let is_off = async || component(&nodes[2], "clock").await["state"] == "degraded";
    // Usually within two seconds; ten times as long if one peer's clock was not measured at once.
    let it_knows = async {
        while !is_off().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(100), it_knows).await.expect("the node reports its own clock");
    let reason = component(&nodes[2], "clock").await["reason"].to_string();
    assert!(reason.contains("peers agree that this node's clock is wrong"), "{reason}");
    let of_peer = async || {
        component(&nodes[0], "mesh").await["reason"].to_string().contains("with a wrong clock: early")
    };
    until("the peer's clock", of_peer).await;
    assert_eq!(component(&nodes[0], "clock").await["state"], "ok");
    // Peers might reject what this node dates: it refuses, and names other nodes.
    let key = r#""domain": "d", "entries": [{"key": "k", "value": "v"}]"#;
    for (path, body) in [
        ("/api/v1/keys/block", format!(r#"{{{key}, "for_ms": 60000}}"#)),
        ("/api/v1/keys/unblock", format!("{{{key}}}")),
    ] {
        let page = post(nodes[2].admin, path, &body).await;
        assert!(
            page.code == 503 && page.body.contains("set the clock, or use another node"),
            "{path}: {page:?}"
        );
        assert_eq!(post(nodes[0].admin, path, &body).await.code, 200, "{path}");
    }
}
