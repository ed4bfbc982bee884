//! Operator actions on a key at one node of a mesh, and their effect on all nodes.

use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members, peers, until, with_files};
use hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use hivemind_testkit::{Setup, get, hivemind, overall, post, request};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;

fn key(name: &str, value: &str) -> Value {
    json!({"domain": "d", "entries": [{"key": name, "value": value}]})
}

async fn post_ok(node: &Node, what: &str, body: &Value) -> Value {
    let send = async || post(node.admin, &format!("/api/v1/keys/{what}"), &body.to_string()).await;
    let mut page = send().await;
    // On a machine that stalls, an owner may reply too late; a lookup can be repeated.
    if what == "lookup" && page.code == 503 {
        page = send().await;
    }
    assert_eq!(page.code, 200, "{what} {body}: {}", page.body);
    serde_json::from_str(&page.body).unwrap()
}

async fn block(node: &Node, value: &str) -> Value {
    let mut body = key("day", value);
    body["for_ms"] = 3_600_000.into();
    post_ok(node, "block", &body).await
}

/// The blocked values in a node's list, and the node where each was blocked.
async fn blocked(node: &Node) -> Vec<(String, String)> {
    let page: Value = serde_json::from_str(&get(node.admin, "/api/v1/blocks").await.body).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| (text(&item["entries"][0]["value"]), text(&item["by"]))).collect()
}

async fn until_blocked(node: &Node, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(value, by)| ((*value).to_owned(), (*by).to_owned())).collect();
    until("the blocks", async || blocked(node).await == expected).await;
}

// Seen failing on: a block that is not replicated; a node that joins and gets no blocks.
#[tokio::test]
async fn block_at_one_node_applies_to_all_and_to_later_nodes() {
    let authority = MeshAuthority::new();
    let mut nodes = authority.nodes(2).await;
    assert_eq!(block(&nodes[0], "x").await["scope"], "mesh");
    assert_eq!(overall(&nodes[0].ask("d", "day=x").await), "OVER");
    until_blocked(&nodes[1], &[("x", "node-0")]).await;
    assert_eq!(overall(&nodes[1].ask("d", "day=x").await), "OVER");
    assert_eq!(overall(&nodes[1].ask("d", "day=y").await), "OK");
    nodes.push(Node::start(authority.node("node-2", &[nodes[0].mesh])).await);
    all_are_members(&nodes).await;
    until_blocked(&nodes[2], &[("x", "node-0")]).await;
    assert_eq!(overall(&nodes[2].ask("d", "day=x").await), "OVER");
    // Any node that has the block can end it.
    assert_eq!(post_ok(&nodes[2], "unblock", &key("day", "x")).await, json!({"was_blocked": true}));
    for node in &nodes {
        until_blocked(node, &[]).await;
        assert_eq!(overall(&node.ask("d", "day=x").await), "OK");
    }
}

// Seen failing on: an unblocked key that is forgotten at once, so that a node that was disconnected brings its
// block back.
#[tokio::test]
async fn disconnected_node_learns_blocks_and_unblocks_afterwards() {
    let authority = MeshAuthority::new();
    let nodes = authority.nodes(2).await;
    block(&nodes[0], "x").await;
    until_blocked(&nodes[1], &[("x", "node-0")]).await;
    nodes[1].signal("STOP").await;
    until("the connection to be lost", async || peers(&nodes[0]).await[0]["transport"].is_null()).await;
    post_ok(&nodes[0], "unblock", &key("day", "x")).await;
    block(&nodes[0], "y").await;
    nodes[1].signal("CONT").await;
    for node in [&nodes[1], &nodes[0]] {
        until_blocked(node, &[("y", "node-0")]).await;
    }
    // The node may have been declared dead, and has no allowance until it is in a view again.
    until("x to pass", async || overall(&nodes[1].ask("d", "day=x").await) == "OK").await;
    assert_eq!(overall(&nodes[1].ask("d", "day=y").await), "OVER");
}

// Seen failing on: a reset reported as post_ok while the owner is unreachable; a lookup with invented numbers.
#[tokio::test]
async fn unreachable_owner_is_an_error_for_lookup_and_reset() {
    let authority = MeshAuthority::new();
    let nodes = authority.nodes(2).await;
    let theirs = key("day", "x");
    let found = post_ok(&nodes[0], "lookup", &theirs).await;
    let is_first = found["limits"][0]["mesh"]["is_owner"] == true;
    let (owner, other) = if is_first { (&nodes[0], &nodes[1]) } else { (&nodes[1], &nodes[0]) };
    assert_eq!(post_ok(other, "reset", &theirs).await, json!({"reset": 1}));
    owner.signal("STOP").await;
    let mut grant = theirs.clone();
    grant["extra"] = 1.into();
    for (what, body) in [("reset", &theirs), ("lookup", &theirs), ("grant", &grant)] {
        let page = post(other.admin, &format!("/api/v1/keys/{what}"), &body.to_string()).await;
        assert_eq!(page.code, 503, "{what}: {}", page.body);
    }
    owner.signal("CONT").await;
    until("the owner to answer", async || {
        post(other.admin, "/api/v1/keys/lookup", &theirs.to_string()).await.code == 200
    })
    .await;
}

/// The limit of a key as each node reports it.
async fn looked_up(nodes: &[Node], value: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for node in nodes {
        found.push(post_ok(node, "lookup", &key("day", value)).await["limits"][0].clone());
    }
    found
}

/// Whether all nodes report this remaining amount, all of it granted to members.
async fn all_report(nodes: &[Node], value: &str, left: u64) -> bool {
    looked_up(nodes, value).await.iter().all(|limit| {
        let held = limit["mesh"]["held"].as_object().expect("the allowance of each node");
        let sum: u64 = held.values().map(|held| held.as_u64().unwrap()).sum();
        limit["remaining"] == left && sum == left
    })
}

// Seen failing on: a node that is not the owner, which reported the owner's part without the sum.
#[tokio::test]
async fn lookup_at_any_node_shows_total_and_each_allowance() {
    let authority = MeshAuthority::new();
    let nodes = authority.nodes(3).await;
    for index in 0..9 {
        assert_eq!(overall(&nodes[index % 3].ask("d", "day=x").await), "OK");
        nodes[index % 3].ask("d", "day=other").await;
    }
    until("all nodes to report the same", async || all_report(&nodes, "x", 591).await).await;
    let found = looked_up(&nodes, "x").await;
    let owner = &found[0]["mesh"]["owner"];
    for (index, limit) in found.iter().enumerate() {
        let (mesh, name) = (&limit["mesh"], format!("node-{index}"));
        assert_eq!((&mesh["owner"], mesh["is_owner"] == true), (owner, *owner == name), "{mesh}");
        assert_eq!(mesh["held_here"].as_u64(), mesh["held"][&name].as_u64().or(Some(0)), "{mesh}");
        assert_eq!((&mesh["held_by_others"], &mesh["unaccounted"]), (&json!(0), &json!(0)), "{mesh}");
    }
    // The command line prints the same, with a row per node.
    let other = found.iter().position(|limit| limit["mesh"]["is_owner"] == false).unwrap();
    let admin = format!("http://{}", nodes[other].admin);
    let (code, table) = hivemind(&["ctl", "--url", &admin, "key", "get", "d", "day=x"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(code, Some(0), "{table}");
    assert_eq!(rows[1][3], "591", "600 per 1d, with the remaining amount: {table}");
    let held = found[other]["mesh"]["held"].as_object().unwrap();
    for (node, held) in held {
        let held = held.to_string();
        let row = ["600", "per", "1d", node.as_str(), held.as_str()];
        assert!(rows.iter().any(|words| words[..] == row), "{row:?} in {table}");
    }
    // A grant or reset at any node applies to all nodes.
    let mut grant = key("day", "x");
    grant["extra"] = 4.into();
    let given = post_ok(&nodes[other], "grant", &grant).await;
    let limit = &given["limits"][0];
    assert_eq!((&limit["granted"], &limit["remaining"]), (&json!(4), &json!(595)), "{given}");
    assert!(all_report(&nodes, "x", 595).await);
    // A grant returns at most what all nodes have spent.
    grant["extra"] = 100.into();
    let given = post_ok(&nodes[other], "grant", &grant).await;
    let limit = &given["limits"][0];
    assert_eq!((&limit["granted"], &limit["remaining"]), (&json!(5), &json!(600)), "{given}");
    assert!(limit["why"].as_str().is_some_and(|why| why.contains("at most what was spent")), "{given}");
    nodes[other].ask("d", "day=x").await;
    assert_eq!(post_ok(&nodes[other], "reset", &key("day", "x")).await, json!({"reset": 1}));
    until("the reset", async || all_report(&nodes, "x", 600).await).await;
}

/// A new member owns no key before its view is effective.
pub(crate) async fn until_a_key_is_moved(node: &Node, name: &str, values: &[String]) {
    until("a key with another owner", async || {
        for value in values {
            let found = post_ok(node, "lookup", &key(name, value)).await;
            if found["limits"][0]["mesh"]["is_owner"] == false {
                return true;
            }
        }
        false
    })
    .await;
}

// Allowance that was granted before a new member joined stays with its holder, and a reset at the key's new
// owner does not reach it.
#[tokio::test]
async fn reset_that_misses_a_holder_is_reported_in_doubt() {
    let authority = MeshAuthority::new();
    let mut nodes = authority.nodes(1).await;
    let values: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    for value in &values {
        nodes[0].ask("d", &format!("day={value}")).await;
    }
    nodes.push(Node::start(authority.node("node-1", &[nodes[0].mesh])).await);
    all_are_members(&nodes).await;
    until_a_key_is_moved(&nodes[0], "day", &values).await;
    let mut in_doubt = 0;
    for value in &values {
        let before = post_ok(&nodes[0], "lookup", &key("day", value)).await;
        let reset = post_ok(&nodes[0], "reset", &key("day", value)).await;
        if before["limits"][0]["mesh"]["unaccounted"] == 0 {
            assert_eq!(reset, json!({"reset": 1}));
            let after = post_ok(&nodes[1], "lookup", &key("day", value)).await;
            assert_eq!(after["limits"][0]["remaining"], 600, "{after}");
        } else {
            // The allowance of the previous owner is recalled for the lookup.
            assert_eq!(before["limits"][0]["remaining"], 599, "{before}");
            assert_eq!((&reset["reset"], &reset["in_doubt"]), (&json!(0), &json!(1)), "{reset}");
            assert!(reset["why"].as_str().unwrap().contains("until the window ends"), "{reset}");
            in_doubt += 1;
        }
    }
    assert!(in_doubt > 0, "of sixteen keys the new member owns none");
}

const FEW: &str = "
domain: d
descriptors:
- {key: few, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: authorization, rate_limit: {unit: day, requests_per_unit: 10}}
";

/// Starts `count` more nodes with these rules, in one view with the existing ones.
async fn more_with_few(authority: &MeshAuthority, mut nodes: Vec<Node>, count: usize) -> Vec<Node> {
    for index in nodes.len()..nodes.len() + count {
        let first: Vec<_> = nodes.first().map(|node| node.mesh).into_iter().collect();
        let files = authority.certificate_folder(&format!("node-{index}"), &[]);
        nodes.push(Node::start(with_files(Setup::rules(FEW), &files, &first)).await);
    }
    all_are_members(&nodes).await;
    nodes
}

// Guards against: a hash that one node reports and another does not find, or finds for another key.
#[tokio::test]
async fn blocked_credential_is_refused_and_unblocked_at_any_node() {
    let authority = MeshAuthority::new();
    let nodes = more_with_few(&authority, Vec::new(), 2).await;
    let mut body = key("authorization", "of-ada");
    body["for_ms"] = 3_600_000.into();
    post_ok(&nodes[0], "block", &body).await;
    until("the block", async || !blocked(&nodes[1]).await.is_empty()).await;
    let blocked_values = blocked(&nodes[1]).await;
    assert_eq!(blocked_values, blocked(&nodes[0]).await);
    assert!(
        blocked_values[0].0.starts_with("sha256:") && blocked_values[0].0.len() == 23,
        "{blocked_values:?}"
    );
    assert_eq!(overall(&nodes[1].ask("d", "authorization=of-ada").await), "OVER");
    assert_eq!(overall(&nodes[1].ask("d", "authorization=of-bob").await), "OK");
    let unblocked = post_ok(&nodes[1], "unblock", &key("authorization", "of-ada")).await;
    assert_eq!(unblocked, json!({"was_blocked": true}));
    until_blocked(&nodes[0], &[]).await;
    assert_eq!(overall(&nodes[0].ask("d", "authorization=of-ada").await), "OK");
}

/// The most that may remain of a key by its owner's ledger, including the hits in doubt.
fn most_left(limit: &Value) -> u64 {
    limit["remaining"].as_u64().unwrap() + limit["mesh"]["unaccounted"].as_u64().unwrap()
}

// Guards against: hits in doubt counted as spent, so that a node that is not the owner granted 1 again and
// again.
#[tokio::test]
async fn grant_at_any_node_reports_at_most_the_returned_hits() {
    let authority = MeshAuthority::new();
    let nodes = more_with_few(&authority, Vec::new(), 1).await;
    let values: Vec<String> = (0..12).map(|number| number.to_string()).collect();
    for value in &values {
        nodes[0].ask("d", &format!("few={value}")).await;
    }
    let nodes = more_with_few(&authority, nodes, 2).await;
    until_a_key_is_moved(&nodes[0], "few", &values).await;
    let mut in_doubt = 0;
    for value in &values {
        let (body, text) = (key("few", value), format!("few={value}"));
        for node in &nodes {
            node.ask("d", &text).await;
        }
        let found = post_ok(&nodes[0], "lookup", &body).await;
        let owner = found["limits"][0]["mesh"]["owner"].as_str().unwrap().to_owned();
        in_doubt += u64::from(post_ok(&nodes[0], "reset", &body).await["in_doubt"] == 1);
        let before = post_ok(&nodes[0], "lookup", &body).await["limits"][0].clone();
        let (mut grant, mut granted) = (body.clone(), 0);
        grant["extra"] = 1.into();
        let others = nodes.iter().enumerate().filter(|(index, _)| owner != format!("node-{index}"));
        for (_, node) in others {
            for _ in 0..5 {
                let given = post_ok(node, "grant", &grant).await["limits"][0].clone();
                granted += given["granted"].as_u64().unwrap();
                assert_eq!(given["granted"] == 0, given["why"].is_string(), "{given}");
            }
        }
        let after = post_ok(&nodes[0], "lookup", &body).await["limits"][0].clone();
        let rose = most_left(&after).saturating_sub(most_left(&before));
        // Hits at the other two nodes may have been reported after the reset, and then be returned unnoticed.
        assert!(granted <= rose + 2, "{granted} of {value}: {before} {after}");
    }
    assert!(in_doubt > 0, "of twelve keys the owner changed for none");
}

// Seen failing on: the amount left after a grant taken for the granted amount: 0 if the client had spent it by
// then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grant_is_reported_although_the_client_spends_it_at_once() {
    let authority = MeshAuthority::new();
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["node-0", "node-1", "node-2"] {
        let first: Vec<_> = nodes.first().map(|node| node.mesh).into_iter().collect();
        let setup = with_files(Setup::rules(FEW), &authority.certificate_folder(name, &[]), &first);
        // A client that keeps sending would owe its refused hits, and hits that a node admits on its own are
        // made good first.
        let setup = setup.with("rate_limiting.on_refusal", "count_none");
        nodes.push(Node::start(setup.with("mesh.on_unreachable", "refuse")).await);
    }
    all_are_members(&nodes).await;
    let (nodes, passed) = (Arc::new(nodes), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for index in 0..3 {
        let (nodes, passed) = (Arc::clone(&nodes), Arc::clone(&passed));
        clients.spawn(async move {
            loop {
                let is_ok = overall(&nodes[index].ask("d", "few=x").await) == "OK";
                passed.fetch_add(u64::from(is_ok), Ordering::Relaxed);
            }
        });
    }
    let all_pass = async |number: u64| {
        until("what there is to pass", async || passed.load(Ordering::Relaxed) >= number).await;
    };
    all_pass(10).await;
    let (mut grant, mut granted) = (key("few", "x"), 0);
    grant["extra"] = 1.into();
    for number in 0..30 {
        let given = post_ok(&nodes[number % 3], "grant", &grant).await["limits"][0].clone();
        // Nothing is left: all was spent before, so one is returned.
        assert_eq!(given["granted"], 1, "grant {number}: {given}");
        granted += 1;
        all_pass(10 + granted).await;
    }
    clients.shutdown().await;
    assert_eq!(passed.load(Ordering::Relaxed), 10 + granted);
}

// Guards against: a node that stays at its previous limit although its owner was granted hits; seen in the
// state machine.
#[tokio::test]
async fn grant_at_any_node_admits_the_client_at_its_own_node() {
    let authority = MeshAuthority::new();
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["node-0", "node-1", "node-2"] {
        let first: Vec<_> = nodes.first().map(|node| node.mesh).into_iter().collect();
        // A client that keeps sending would owe its refused hits, and a node with a slow owner the hits that it
        // admitted on its own: a grant makes those good first.
        let setup = authority.node(name, &first).with("rate_limiting.on_refusal", "count_none");
        nodes.push(Node::start(setup.with("mesh.on_unreachable", "refuse")).await);
    }
    all_are_members(&nodes).await;
    for (giver, node) in nodes.iter().enumerate() {
        let value = format!("grant-{giver}");
        let text = format!("day={value}");
        // All hits at one node, as behind one Envoy. A remaining amount of 0 is also reported while an owner
        // waits in vain for the allowances of others.
        let mut passed = 0;
        until("all of it to be spent", async || {
            for hits in [50, 1] {
                let asked = RateLimitRequest { hits_addend: hits, ..request("d", &text) };
                while overall(&nodes[0].send(asked.clone()).await) == "OK" {
                    passed += hits;
                    assert!(passed <= 600, "{passed}");
                }
            }
            post_ok(&nodes[0], "lookup", &key("day", &value)).await["limits"][0]["remaining"] == 0
        })
        .await;
        let mut grant = key("day", &value);
        grant["extra"] = 3.into();
        // Then it grants nothing, and reports it.
        until(&format!("a grant at node {giver}"), async || {
            let given = post_ok(node, "grant", &grant).await;
            let granted = given["limits"][0]["granted"].as_u64();
            assert!(
                granted == Some(3) || granted == Some(0) && given["limits"][0]["why"].is_string(),
                "{given}"
            );
            granted == Some(3)
        })
        .await;
        until(&format!("the client to pass after a grant at node {giver}"), async || {
            overall(&nodes[0].ask("d", &text).await) == "OK"
        })
        .await;
        let mut more = 1;
        until(&format!("what node {giver} gave back to be spent"), async || {
            more += u64::from(overall(&nodes[0].ask("d", &text).await) == "OK");
            more == 3
        })
        .await;
        for other in &nodes {
            assert_eq!(overall(&other.ask("d", &text).await), "OVER", "given back at node {giver}");
        }
    }
}
