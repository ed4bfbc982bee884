//! Strangers: callers and nodes without a valid certificate get nothing, and the mesh is not disturbed.

use crate::authority::{Authority, Term};
use crate::callers::{ClientCertificate, client_config, over_quic, over_tcp};
use crate::fleet::{Fleet, Plan, write_settings};
use crate::node::Node;
use crate::rules::RULES;
use crate::small_limits::assert_exactly_the_first_pass;
use crate::window_time::until_true;
use hivemind_testkit::within;
use serde_json::json;
use std::collections::BTreeSet;

const REFUSED: &str = "hivemind_mesh_callers_refused_total";

async fn until_refused(fleet: &Fleet, index: usize, more_than: f64) {
    let condition = async || fleet.metric(index, REFUSED).await > more_than;
    within("a caller is refused", until_true(condition)).await;
}

/// Asserts that only the fleet's own nodes are listed, and that limits hold.
async fn assert_undisturbed(fleet: &Fleet, tail: &str) {
    let own: BTreeSet<&str> = fleet.nodes.iter().map(|node| node.name.as_str()).collect();
    for index in 0..fleet.nodes.len() {
        for peer in fleet.nodes[index].peers().await {
            assert!(own.contains(peer["name"].as_str().unwrap()) && peer["state"] == "alive", "{peer}");
        }
        assert!((fleet.metric(index, "hivemind_mesh_members").await - 3.0).abs() < 0.1);
    }
    assert_exactly_the_first_pass(fleet, tail).await;
}

#[tokio::test]
async fn callers_without_valid_certificate_receive_no_bytes() {
    let fleet = Plan::new(3, RULES).with_long_timeouts().start().await.unwrap();
    let (node, name) = (fleet.nodes[0].mesh, "node-0");
    let foreign = Authority::new("The CA of a fleet"); // With the same common name.
    let callers = [
        ("without a certificate", ClientCertificate::Nothing),
        ("of a foreign CA", ClientCertificate::Certificate(&foreign, "node-1", Term::Good)),
        ("expired", ClientCertificate::Certificate(&fleet.authority, "node-1", Term::Expired)),
    ];
    for (caller, certificate) in callers {
        let before = fleet.metric(0, REFUSED).await;
        assert_eq!(
            over_quic(client_config(&fleet.authority, &certificate), node, name).await,
            [0_u8; 0],
            "{caller}, QUIC"
        );
        until_refused(&fleet, 0, before).await;
        let before = fleet.metric(0, REFUSED).await;
        assert_eq!(
            over_tcp(client_config(&fleet.authority, &certificate), node, name).await,
            [0_u8; 0],
            "{caller}, TCP"
        );
        until_refused(&fleet, 0, before).await;
    }
    assert_undisturbed(&fleet, "called").await;
}

/// A node with certificates and a mesh of its own that connects to the fleet.
fn stranger(fleet: &Fleet, folder: &str, name: &str, cluster: &str, authority: &Authority) -> Node {
    let own = fleet.folder.path().join(folder);
    std::fs::create_dir(&own).unwrap();
    let mut at = fleet.nodes[0].mesh;
    let std::net::IpAddr::V4(ip) = at.ip() else { panic!("loopback is IPv4 here") };
    let [a, b, c, _] = ip.octets();
    at.set_ip(std::net::Ipv4Addr::new(a, b, c, 200).into());
    let peers: Vec<String> = fleet.nodes.iter().map(|node| node.mesh.to_string()).collect();
    let mesh = json!({"node_id": name, "cluster_id": cluster, "bind": at, "advertise": at.ip(),
        "bootstrap_peers": peers, "tls": authority.write_node_files(&own, name)});
    write_settings(&own, &mesh, &format!("domain: d\ndescriptors:\n{RULES}"));
    let file = own.join("config.yaml");
    let mut settings: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    settings["observability"] = json!({"log_level": "debug"});
    std::fs::write(file, settings.to_string()).unwrap();
    Node::new(name, own, at)
}

async fn assert_shares_nothing(fleet: &Fleet, mut stranger: Node, tail: &str) {
    let before = fleet.sum(REFUSED).await;
    stranger.start(None).await;
    // It connects to all three in turn, and none accepts it.
    stranger.log().next(r#""message":"peer unreachable"#).await;
    stranger.log().next(r#""message":"peer unreachable"#).await;
    stranger.log().next(r#""message":"peer unreachable"#).await;
    assert!(fleet.sum(REFUSED).await > before);
    for peer in stranger.peers().await {
        assert_ne!(peer["state"], "alive", "{peer}");
        assert!(peer["bytes_in"].as_u64().is_none_or(|bytes| bytes == 0), "{peer}");
    }
    assert_undisturbed(fleet, tail).await;
    assert!(stranger.stop().await.success());
}

#[tokio::test]
async fn node_of_another_cluster_with_same_ca_shares_nothing() {
    let fleet = Plan::new(3, RULES).with_long_timeouts().start().await.unwrap();
    let stranger = stranger(&fleet, "stranger", "node-9", "another", &fleet.authority);
    assert_shares_nothing(&fleet, stranger, "another").await;
}

#[tokio::test]
async fn node_of_a_foreign_ca_with_a_members_name_shares_nothing() {
    let fleet = Plan::new(3, RULES).with_long_timeouts().start().await.unwrap();
    let foreign = Authority::new("The CA of a fleet");
    let stranger = stranger(&fleet, "stranger", "node-1", "fleet", &foreign);
    assert_shares_nothing(&fleet, stranger, "foreign").await;
}
