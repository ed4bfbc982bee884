//! What a node of a mesh answers is of the form that `/api/v1/openapi.json` promises: most of it has members that a single
//! node's answers do not have.

use crate::gone::until_dead;
use crate::keys::until_one_is_moved;
use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members};
use hivemind_testkit::openapi::{schema_violations, schemathesis};
use serde_json::json;

/// A question that is to be answered with 200.
fn line(method: &str, path: &str, template: &str, body: &str) -> String {
    format!("{method}\t/api/v1/{path}\t/api/v1/{template}\t{body}\t200\n")
}

/// What is asked of one key.
fn about(value: usize) -> String {
    let mut body = json!({"domain": "d", "entries": [{"key": "day", "value": value.to_string()}]});
    let asked = |what: &str, body: &serde_json::Value| {
        let path = format!("keys/{what}");
        line("POST", &path, &path, &body.to_string())
    };
    let plain = ["lookup", "reset", "unblock"].map(|what| asked(what, &body)).concat();
    body["extra"] = 1.into();
    let grant = asked("grant", &body);
    body.as_object_mut().unwrap().remove("extra");
    body["for_ms"] = 60_000.into();
    // Looked up once more when it is blocked.
    [grant, plain.clone(), asked("block", &body), line("GET", "blocks", "blocks", ""), plain].concat()
}

async fn are_as_described(program: &std::path::Path, node: &Node, lines: &str) {
    // No token is set, and so any is as good as none.
    if let Some(said) = schema_violations(program, node.admin, "none", lines).await {
        panic!("{said}");
    }
}

// Guards against: a member that only a mesh has, and that is not described, or in another form.
#[tokio::test]
async fn what_a_node_of_a_mesh_answers_is_of_the_form_that_is_described() {
    let Some(program) = schemathesis() else { return };
    let authority = MeshAuthority::new();
    let mut nodes = authority.nodes(1).await;
    // Some of these will have another owner, which cannot know of all of them.
    for value in 0..8 {
        nodes[0].ask("d", &format!("day={value}")).await;
    }
    let first = [nodes[0].mesh];
    for name in ["node-1", "node-2"] {
        nodes.push(Node::start(authority.node(name, &first)).await);
    }
    all_are_members(&nodes).await;
    let values: Vec<String> = (0..8).map(|value: usize| value.to_string()).collect();
    until_one_is_moved(&nodes[0], "day", &values).await;
    let pages = ["peers", "stats", "config", "version", "top", "decisions"];
    let pages = pages.map(|path| line("GET", path, path, "")).concat();
    // All events that there are.
    let events = line("GET", "events", "events", "config,peers,stats,top,version");
    let keys: String = (0..8).map(about).collect();
    for node in &nodes {
        are_as_described(&program, node, &[&pages, &keys, &pages].map(String::as_str).concat()).await;
    }
    are_as_described(&program, &nodes[0], &events).await;
    nodes[2].signal("KILL").await;
    nodes[2].ended().await;
    until_dead(&nodes[0], "node-2").await;
    let forget = line("POST", "peers/node-2/forget", "peers/{name}/forget", "");
    are_as_described(&program, &nodes[0], &[pages.as_str(), &forget, &forget, &pages].concat()).await;
}
