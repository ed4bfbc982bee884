//! Tests of the `mesh` section: values, defaults and warnings.

use super::{SEED, toml, warnings, with_variables, yaml};
use hivemind_core::OnUnreachable;
use hivemind_engine::mesh::MeshSection;
use std::time::Duration;

const LEAST: &str = "{storage: {kind: mesh}, mesh: {tls: {ca: ca.crt, cert: node.crt, key: node.key}}}";

fn mesh(text: &str) -> MeshSection {
    yaml(text).unwrap().settings.mesh.unwrap()
}

#[test]
fn mesh_defaults_match_the_architecture() {
    let mesh = mesh(LEAST);
    assert_eq!(mesh.node_id, None);
    assert_eq!(mesh.cluster_id, "default");
    assert!(mesh.bind.ip().is_unspecified() && mesh.bind.is_ipv4() && mesh.bind.port() == 7946);
    assert_eq!((mesh.advertise.ip, mesh.advertise.port), (None, None));
    assert_eq!((mesh.bootstrap_peers, mesh.dns, mesh.mdns), (Vec::new(), None, false));
    assert_eq!(mesh.sync_interval, Duration::from_millis(50));
    assert_eq!(mesh.max_peers, 100);
    assert_eq!(mesh.ask_timeout, Duration::from_millis(15));
    assert_eq!(mesh.on_unreachable, OnUnreachable::Share);
    assert_eq!(mesh.bandwidth_limit, 10_000_000);
    assert_eq!(mesh.tls.ca.to_str(), Some("ca.crt"));
}

#[test]
fn yaml_toml_and_environment_agree() {
    let in_yaml = "
storage: {kind: mesh}
mesh:
  node_id: shop/API-0
  cluster_id: shop
  bind: '[2001:db8::1]:7000'
  advertise: 192.0.2.7:7001
  bootstrap_peers: [a:7946, 'b.example.org:7946']
  dns: mesh.shop.svc
  mdns: true
  sync_interval_ms: 20
  on_unreachable: refuse
  bandwidth_limit: 1MB
  tls: {ca: ca.crt, cert: node.crt, key: node.key}
";
    let in_toml = r#"
[storage]
kind = "mesh"
[mesh]
node_id = "shop/API-0"
cluster_id = "shop"
bind = "[2001:db8::1]:7000"
advertise = "192.0.2.7:7001"
bootstrap_peers = ["a:7946", "b.example.org:7946"]
dns = "mesh.shop.svc"
mdns = true
sync_interval_ms = 20
on_unreachable = "refuse"
bandwidth_limit = "1MB"
tls = { ca = "ca.crt", cert = "node.crt", key = "node.key" }
"#;
    let variables = [
        ("HIVEMIND_STORAGE__KIND", "mesh"),
        ("HIVEMIND_MESH__NODE_ID", "shop/API-0"),
        ("HIVEMIND_MESH__CLUSTER_ID", "shop"),
        ("HIVEMIND_MESH__BIND", "[2001:db8::1]:7000"),
        ("HIVEMIND_MESH__ADVERTISE", "192.0.2.7:7001"),
        ("HIVEMIND_MESH__BOOTSTRAP_PEERS", "a:7946, b.example.org:7946"),
        ("HIVEMIND_MESH__DNS", "mesh.shop.svc"),
        ("HIVEMIND_MESH__MDNS", "true"),
        ("HIVEMIND_MESH__SYNC_INTERVAL_MS", "20"),
        ("HIVEMIND_MESH__ON_UNREACHABLE", "refuse"),
        ("HIVEMIND_MESH__BANDWIDTH_LIMIT", "1MB"),
        ("HIVEMIND_MESH__TLS__CA", "ca.crt"),
        ("HIVEMIND_MESH__TLS__CERT", "node.crt"),
        ("HIVEMIND_MESH__TLS__KEY", "node.key"),
    ];
    let settings = yaml(in_yaml).unwrap().settings;
    assert_eq!(settings, toml(in_toml).unwrap().settings);
    assert_eq!(settings, with_variables("", &variables).unwrap().settings);
    let mesh = settings.mesh.unwrap();
    assert_eq!(mesh.node_id.unwrap().as_str(), "api-0.shop.pod");
    assert_eq!(
        (mesh.advertise.ip.unwrap().to_string().as_str(), mesh.advertise.port),
        ("192.0.2.7", Some(7001))
    );
    assert_eq!(mesh.bootstrap_peers, ["a:7946", "b.example.org:7946"]);
}

#[test]
fn unused_mesh_section_is_one_warning() {
    let unused = yaml("mesh: {cluster_id: shop}").unwrap();
    assert_eq!(unused.settings.mesh, None);
    let texts = warnings(&unused);
    assert!(texts.len() == 1 && texts[0].contains("set `storage: {kind: mesh}`"), "{texts:?}");
    let also = yaml(&LEAST.replace("kind: mesh", "kind: mesh, on_error: closed, redis: {url: 'redis://a'}"))
        .unwrap();
    let texts = warnings(&also);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(
        texts[0].contains("`mesh.on_unreachable`") && texts[1].contains("`storage.redis` has no effect"),
        "{texts:?}"
    );
}

#[test]
fn seed_sample_with_kind_and_certificates_is_a_mesh() {
    let files = "mesh:\n  tls: {ca: a, cert: b, key: c}";
    let text = format!("storage: {{kind: mesh}}\n{}", SEED.replace("mesh:", files));
    let mesh = mesh(&text);
    assert_eq!(mesh.bootstrap_peers, ["peer1.example.com:7946", "peer2.example.com:7946"]);
    assert_eq!((mesh.sync_interval.as_millis(), mesh.max_peers, mesh.node_id), (1_000, 100, None));
}
