//! A peer that dies, seen from another.

use crate::nodes::{Authority, Node, all_are_members};
use crate::page::Dashboard;
use crate::support::Setup;

// Seen failing on: a view that does not hear of peers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_dies_is_seen_on_the_map_in_the_table_and_in_the_overview() {
    let authority = Authority::new();
    let quick = |setup: Setup| setup.with("rate_limiting.staleness_threshold_ms", "1000");
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["ada", "bob", "eve"] {
        let known: Vec<_> = nodes.first().map(|node| node.mesh).into_iter().collect();
        nodes.push(Node::start(quick(authority.node(name, &known))).await);
    }
    all_are_members(&nodes).await;
    let mut page = Dashboard::live(nodes[0].admin).await;
    page.view("mesh").await;
    page.says("All 2 peers are alive.").await;
    page.until("document.querySelectorAll('.map .peer.alive').length === 2").await;
    // Killed by its handle: nobody says goodbye.
    nodes.truncate(2);
    page.until("document.querySelectorAll('.map .peer.dead').length === 1").await;
    page.says("1 of 2 peers is not alive: eve (dead).").await;
    let rows = "[...document.querySelectorAll('tbody tr')].map(row => row.innerText)";
    page.until(&format!(
        "{rows}.some(row => row.includes('eve') && row.includes('dead') && row.includes('Forget'))"
    ))
    .await;
    assert_eq!(page.value("document.querySelectorAll('.map .peer.alive').length").await, 1);
    page.view("overview").await;
    page.says("The peer eve is dead.").await;
    page.is_clean().await;
}
