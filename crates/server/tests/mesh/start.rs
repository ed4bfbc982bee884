//! Starting a node: required settings, readiness, and warnings about certificates, names and peers.

use hivemind_testkit::mesh::{MeshAuthority, Node, RULES, all_are_members, peers, run_ok, until, with_files};
use hivemind_testkit::{Setup, get};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tokio::net::UdpSocket;

#[tokio::test]
async fn invalid_certificates_prevent_the_start_with_a_remedy() {
    let (authority, other) = (MeshAuthority::new(), MeshAuthority::new());
    let (own, foreign) = (authority.certificate_folder("a", &[]), other.certificate_folder("a", &[]));
    let several = tempfile::tempdir().unwrap();
    let ca = own.parent().unwrap().join("ca");
    let (ca, out) = (ca.to_str().unwrap(), several.path().join("b"));
    run_ok(&["certs", "node", "--ca", ca, "--name", "b", "--name", "c", "--out", out.to_str().unwrap()]);
    let file = |name: &str| own.join(name).to_str().unwrap().to_owned();
    let setup = |files| with_files(Setup::rules(RULES), files, &[]);
    for (setup, words) in [
        (
            setup(&own).with("mesh.tls.ca", "nowhere.crt"),
            &["nowhere.crt", "cannot be read", "hivemind certs"][..],
        ),
        (setup(&own).with("mesh.tls.key", &file("ca.crt")), &["private key", "hivemind certs"]),
        (setup(&own).with("mesh.tls.cert", &file("node.key")), &["node.key", "contains no PEM certificate"]),
        (setup(&own).with("mesh.node_id", "b"), &["not for the name `b`", "--name b"]),
        (setup(&own).with("MESH_NODE_ID", "b"), &["not for the name `b`", "--name b"]),
        (setup(&own).with("MESH_NODE_ID", "b c"), &["MESH_NODE_ID", "`b c` cannot be the name"]),
        (setup(&own).with("POD_NAMESPACE", "n").with("POD_NAME", "p"), &["`p.n.pod`"]),
        (setup(&own).with("mesh.tls.ca", foreign.join("ca.crt").to_str().unwrap()), &["peers would reject"]),
        (setup(&out), &["is valid for b, c", "MESH_NODE_ID"]),
        (setup(&own).with("mesh.bind", "192.0.2.1:0"), &["cannot listen on 192.0.2.1:0", "mesh.bind"]),
        (
            Setup::rules(RULES).with("storage.kind", "mesh"),
            &["a mesh needs certificates", "hivemind certs ca --out ca"],
        ),
    ] {
        let (status, _, error) = setup.fail().await;
        assert_eq!(status.code(), Some(1), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{words:?} in {error}");
    }
}

#[tokio::test]
async fn node_name_comes_from_certificate_or_pod() {
    let authority = MeshAuthority::new();
    let files = authority.certificate_folder("shop/api-0", &[]);
    let mut nodes = vec![Node::start(authority.node("node-0", &[])).await];
    let first = [nodes[0].mesh];
    let pod = with_files(Setup::rules(RULES), &files, &first);
    nodes.push(Node::start(pod.with("POD_NAMESPACE", "shop").with("POD_NAME", "api-0")).await);
    all_are_members(&nodes).await;
    assert_eq!(peers(&nodes[0]).await[0]["name"], "api-0.shop.pod");
    assert_eq!(peers(&nodes[1]).await[0]["name"], "node-0");
}

#[tokio::test]
async fn node_is_alive_at_once_and_ready_once_in_a_mesh() {
    let authority = MeshAuthority::new();
    // A peer address that never answers: the node looks for a mesh before it founds one.
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let node = authority.node("a", &[silent.local_addr().unwrap()]).start().await;
    assert_eq!(get(node.admin, "/healthz").await.code, 200);
    let page = get(node.admin, "/readyz").await;
    assert_eq!(page.code, 503, "{}", page.body);
    assert!(page.body.contains("not a member of the mesh yet"), "{}", page.body);
    let report: serde_json::Value =
        serde_json::from_str(&get(node.admin, "/readyz?verbose").await.body).unwrap();
    assert_eq!(report["components"]["mesh"]["state"], "failed", "{report}");
    until("a mesh of its own", async || get(node.admin, "/readyz").await.code == 200).await;
}

#[tokio::test]
async fn expiring_certificate_is_reported_until_replaced() {
    let authority = MeshAuthority::new();
    let files = authority.certificate_folder("a", &["--days", "1"]);
    // In the last third of its validity.
    let late = with_files(Setup::rules(RULES), &files, &[]).with("HIVEMIND_TEST_CLOCK_OFFSET_MS", "72000000");
    let mut node = late.start().await;
    node.log.next("expires soon").await;
    let warns =
        |body: &str| body.contains("the mesh certificate expires") && body.contains("hivemind certs node");
    until("a line of the certificate", async || warns(&get(node.admin, "/readyz").await.body)).await;
    let expiry = "hivemind_mesh_certificate_expiry_seconds";
    let before = node.metrics().await.metric(expiry).unwrap();
    authority.certificate_folder("a", &["--force"]);
    until("the new certificate", async || !warns(&get(node.admin, "/readyz").await.body)).await;
    let after = node.metrics().await.metric(expiry).unwrap();
    assert!(after - before > Duration::from_secs(300 * 24 * 3_600).as_secs(), "{before} {after}");
}

// Seen failing on: a key file that is read without a check of its mode.
#[tokio::test]
async fn world_readable_key_is_warned_about_once() {
    let authority = MeshAuthority::new();
    let key = authority.certificate_folder("a", &[]).join("node.key");
    let open = |mode| std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
    open(0o644);
    let mut node = authority.node("a", &[]).start().await;
    let line = node.log.next("all users of this machine can read").await;
    assert!(line.contains("mesh.tls.key") && line.contains("chmod 600"), "{line}");
    open(0o600);
    until("the node to be ready", async || get(node.admin, "/readyz").await.code == 200).await;
    node.signal("TERM").await;
    node.ended().await;
    let log = node.log.rest().await;
    assert_eq!(log.matches("all users of this machine can read").count(), 1, "{log}");
}

// Seen failing on: the CA's end reported as if a new certificate of the same CA would help.
#[tokio::test]
async fn expiring_ca_is_reported_in_log_readyz_and_metrics() {
    let authority = MeshAuthority::with_validity_days("1");
    let mut node = authority.node("a", &[]).start().await;
    let line = node.log.next("the mesh CA and all its certificates expire").await;
    assert!(line.contains("hivemind certs ca") && line.contains("WARN"), "{line}");
    until("a line of the CA", async || {
        let body = get(node.admin, "/readyz").await.body;
        body.contains("the mesh CA and all its certificates expire") && body.contains("hivemind certs ca")
    })
    .await;
    let page = node.metrics().await;
    let of = |name: &str| page.metric(&format!("hivemind_mesh_{name}_expiry_seconds")).unwrap();
    assert!(of("ca") >= of("certificate") && of("ca") - of("certificate") < 3_600, "{}", page.body);
}

/// Waits until `/readyz` and the log, at `warn`, report that a node founded a mesh without its configured peer.
async fn assert_isolated(node: &mut Node, words: &[&str]) {
    until("the report in /readyz", async || {
        let page = get(node.admin, "/readyz").await;
        page.code == 200 && page.body.contains("degraded: no peer of") && page.body.contains("counts alone")
    })
    .await;
    let line = node.log.next("peer unreachable").await;
    assert!(line.contains("WARN"), "{line}");
    assert!(words.iter().all(|word| line.contains(word)), "{words:?} in {line}");
}

// Guards against: failed connections logged at `debug` and missing in `/readyz`: N meshes of one node, each
// with the whole limit.
#[tokio::test]
async fn isolated_node_is_degraded_and_logs_the_reason() {
    let (authority, other) = (MeshAuthority::new(), MeshAuthority::new());
    let mut first = Node::start(authority.node("first", &[])).await;

    let mut foreign = Node::start(other.node("foreign", &[first.mesh])).await;
    assert_isolated(&mut foreign, &["certificate", "mesh.tls.ca"]).await;

    let elsewhere = authority.node("elsewhere", &[first.mesh]).with("mesh.cluster_id", "another");
    let mut elsewhere = Node::start(elsewhere).await;
    assert_isolated(&mut elsewhere, &["closed the connection", "mesh.cluster_id"]).await;
    // The node that was called knows the reason.
    let line = first.log.next("inbound connection rejected").await;
    let words = ["WARN", "another", "mesh.cluster_id"];
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
    assert_eq!(get(first.admin, "/readyz").await.body.trim(), "ready", "no peer is configured here");

    let unused_address = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut lonely = Node::start(authority.node("lonely", &[unused_address])).await;
    assert_isolated(&mut lonely, &["by UDP and by TCP"]).await;
}

// Guards against: names compared without generations (each node takes the other for itself), and an older
// process that is excluded without a log line (it founds a mesh of its own).
#[tokio::test]
async fn duplicate_node_name_is_logged_by_both_and_unready_at_one() {
    let authority = MeshAuthority::new();
    let mut nodes = authority.nodes(2).await;
    let bootstrap = [nodes[0].mesh, nodes[1].mesh];
    let mut twin = Node::start(authority.node("node-1", &bootstrap)).await;
    let older = &mut nodes[1];
    older.log.next("another process uses this node's name").await;
    until("the report in /readyz", async || {
        let page = get(older.admin, "/readyz").await;
        page.code == 503 && page.body.contains("another node uses this name")
    })
    .await;
    let line = twin.log.next("another process uses this node's name").await;
    assert!(line.contains("WARN") && line.contains("MESH_NODE_ID"), "{line}");
}
