//! Strangers get nothing in and nothing out, and the mesh goes on as if they were not there.

use crate::authority::{Authority, Term};
use crate::callers::{Shows, over_quic, over_tcp, speaks};
use crate::fleet::{Fleet, Plan, write_settings};
use crate::moment::until_so;
use crate::node::Node;
use crate::rules::RULES;
use crate::small_limits::exactly_the_first_pass;
use hivemind_testkit::within;
use serde_json::json;
use std::collections::BTreeSet;

const REFUSED: &str = "hivemind_mesh_callers_refused_total";

async fn until_refused(fleet: &Fleet, index: usize, more_than: f64) {
    let is_so = async || fleet.metric(index, REFUSED).await > more_than;
    within("a caller is refused", until_so(is_so)).await;
}

/// Nobody is known but the fleet itself, and limits hold.
async fn is_undisturbed(fleet: &Fleet, tail: &str) {
    let own: BTreeSet<&str> = fleet.nodes.iter().map(|node| node.name.as_str()).collect();
    for index in 0..fleet.nodes.len() {
        for peer in fleet.nodes[index].peers().await {
            assert!(own.contains(peer["name"].as_str().unwrap()) && peer["state"] == "alive", "{peer}");
        }
        assert!((fleet.metric(index, "hivemind_mesh_members").await - 3.0).abs() < 0.1);
    }
    exactly_the_first_pass(fleet, tail).await;
}

#[tokio::test]
async fn whoever_has_no_certificate_a_foreign_one_or_an_expired_one_is_told_nothing() {
    let fleet = Plan::new(3, RULES).patient().start().await.unwrap();
    let (node, name) = (fleet.nodes[0].mesh, "node-0");
    let foreign = Authority::new("The CA of a fleet"); // Even if it calls itself the same.
    let callers = [
        ("without a certificate", Shows::Nothing),
        ("of a foreign CA", Shows::Certificate(&foreign, "node-1", Term::Good)),
        ("expired", Shows::Certificate(&fleet.authority, "node-1", Term::Expired)),
    ];
    for (who, shows) in callers {
        let before = fleet.metric(0, REFUSED).await;
        assert_eq!(over_quic(speaks(&fleet.authority, &shows), node, name).await, [0_u8; 0], "{who}, QUIC");
        until_refused(&fleet, 0, before).await;
        let before = fleet.metric(0, REFUSED).await;
        assert_eq!(over_tcp(speaks(&fleet.authority, &shows), node, name).await, [0_u8; 0], "{who}, TCP");
        until_refused(&fleet, 0, before).await;
    }
    is_undisturbed(&fleet, "called").await;
}

/// A node with certificates and a mesh of its own, that calls the fleet.
fn stranger(fleet: &Fleet, folder: &str, name: &str, cluster: &str, authority: &Authority) -> Node {
    let own = fleet.folder.path().join(folder);
    std::fs::create_dir(&own).unwrap();
    let mut at = fleet.nodes[0].mesh;
    let std::net::IpAddr::V4(ip) = at.ip() else { panic!("loopback is IPv4 here") };
    let [a, b, c, _] = ip.octets();
    at.set_ip(std::net::Ipv4Addr::new(a, b, c, 200).into());
    let peers: Vec<String> = fleet.nodes.iter().map(|node| node.mesh.to_string()).collect();
    let mesh = json!({"node_id": name, "cluster_id": cluster, "bind": at, "advertise": at.ip(),
        "bootstrap_peers": peers, "tls": authority.equip(&own, name)});
    write_settings(&own, &mesh, &format!("domain: d\ndescriptors:\n{RULES}"));
    let file = own.join("config.yaml");
    let mut settings: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    settings["observability"] = json!({"log_level": "debug"});
    std::fs::write(file, settings.to_string()).unwrap();
    Node::new(name, own, at)
}

async fn shares_nothing(fleet: &Fleet, mut stranger: Node, tail: &str) {
    let before = fleet.sum(REFUSED).await;
    stranger.start(None).await;
    // It calls all three in turn, and none speaks to it.
    stranger.log().next(r#""message":"a peer cannot be reached"#).await;
    stranger.log().next(r#""message":"a peer cannot be reached"#).await;
    stranger.log().next(r#""message":"a peer cannot be reached"#).await;
    assert!(fleet.sum(REFUSED).await > before);
    for peer in stranger.peers().await {
        assert_ne!(peer["state"], "alive", "{peer}");
        assert!(peer["bytes_in"].as_u64().is_none_or(|bytes| bytes == 0), "{peer}");
    }
    is_undisturbed(fleet, tail).await;
    assert!(stranger.stop().await.success());
}

#[tokio::test]
async fn a_node_of_the_right_ca_and_another_mesh_shares_nothing() {
    let fleet = Plan::new(3, RULES).patient().start().await.unwrap();
    let stranger = stranger(&fleet, "stranger", "node-9", "another", &fleet.authority);
    shares_nothing(&fleet, stranger, "another").await;
}

#[tokio::test]
async fn a_node_of_a_foreign_ca_shares_nothing_even_under_a_members_name() {
    let fleet = Plan::new(3, RULES).patient().start().await.unwrap();
    let foreign = Authority::new("The CA of a fleet");
    let stranger = stranger(&fleet, "stranger", "node-1", "fleet", &foreign);
    shares_nothing(&fleet, stranger, "foreign").await;
}
