//! Responses of mesh nodes match the schemas of `/api/v1/openapi.json`: most have members that a single node
//! does not return.

use crate::forget::until_dead;
use crate::keys::until_a_key_is_moved;
use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members};
use hivemind_testkit::openapi::{schema_violations, schemathesis};
use serde_json::json;

/// A request that must be answered with 200.
fn line(method: &str, path: &str, template: &str, body: &str) -> String {
    format!("{method}\t/api/v1/{path}\t/api/v1/{template}\t{body}\t200\n")
}

/// The requests for one key.
fn key_requests(value: usize) -> String {
    let mut body = json!({"domain": "d", "entries": [{"key": "day", "value": value.to_string()}]});
    let key_request = |what: &str, body: &serde_json::Value| {
        let path = format!("keys/{what}");
        line("POST", &path, &path, &body.to_string())
    };
    let plain = ["lookup", "reset", "unblock"].map(|what| key_request(what, &body)).concat();
    body["extra"] = 1.into();
    let grant = key_request("grant", &body);
    body.as_object_mut().unwrap().remove("extra");
    body["for_ms"] = 60_000.into();
    // Looked up once more while it is blocked.
    [grant, plain.clone(), key_request("block", &body), line("GET", "blocks", "blocks", ""), plain].concat()
}

async fn assert_schemas(program: &std::path::Path, node: &Node, lines: &str) {
    // No token is set, so the token is ignored.
    if let Some(violations) = schema_violations(program, node.admin, "none", lines).await {
        panic!("{violations}");
    }
}

// Guards against: a mesh-only member that is not described, or of another type.
#[tokio::test]
async fn mesh_node_responses_match_their_schemas() {
    let Some(program) = schemathesis() else { return };
    let authority = MeshAuthority::new();
    let mut nodes = authority.nodes(1).await;
    // Some of these will have another owner, which does not know all of their hits.
    for value in 0..8 {
        nodes[0].ask("d", &format!("day={value}")).await;
    }
    let first = [nodes[0].mesh];
    for name in ["node-1", "node-2"] {
        nodes.push(Node::start(authority.node(name, &first)).await);
    }
    all_are_members(&nodes).await;
    let values: Vec<String> = (0..8).map(|value: usize| value.to_string()).collect();
    until_a_key_is_moved(&nodes[0], "day", &values).await;
    let pages = ["peers", "stats", "config", "version", "top", "decisions"];
    let pages = pages.map(|path| line("GET", path, path, "")).concat();
    // All event types.
    let events = line("GET", "events", "events", "config,peers,stats,top,version");
    let keys: String = (0..8).map(key_requests).collect();
    for node in &nodes {
        assert_schemas(&program, node, &[&pages, &keys, &pages].map(String::as_str).concat()).await;
    }
    assert_schemas(&program, &nodes[0], &events).await;
    nodes[2].signal("KILL").await;
    nodes[2].ended().await;
    until_dead(&nodes[0], "node-2").await;
    let forget = line("POST", "peers/node-2/forget", "peers/{name}/forget", "");
    assert_schemas(&program, &nodes[0], &[pages.as_str(), &forget, &forget, &pages].concat()).await;
}
