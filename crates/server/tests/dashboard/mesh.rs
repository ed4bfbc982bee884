//! The display of a peer that dies.

use crate::axe;
use crate::page::Dashboard;
use hivemind_testkit::Setup;
use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members, until};

// Seen failing on: a view without peer events; a map line to a dead peer like one to a live peer; mesh counters
// missing in the memory view; events without the peers' allowances.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_peer_is_shown_on_map_table_and_overview() {
    let authority = MeshAuthority::new();
    let quick = |setup: Setup| setup.with("rate_limiting.staleness_threshold_ms", "1000");
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["ada", "bob", "eve"] {
        let bootstrap: Vec<_> = nodes.first().map(|node| node.mesh).into_iter().collect();
        nodes.push(Node::start(quick(authority.node(name, &bootstrap))).await);
    }
    all_are_members(&nodes).await;
    let mut page = Dashboard::live(nodes[0].admin).await;
    page.view("mesh").await;
    page.wait_for("All 2 peers are alive.").await;
    page.until("document.querySelectorAll('.map .peer.alive').length === 2").await;
    for number in 0..21 {
        nodes[0].ask("d", &format!("day={number}")).await;
    }
    // The allowance of a peer for a counter of another node comes with the events, every ten seconds. For
    // windows of one second it
    // is always sampled at the same point of a window, where none may be granted yet or all of it recalled; the
    // test's windows avoid both.
    let has_allowance = "[...document.querySelectorAll('.map .peer.alive .more')].some(one => /^[1-9].* rights$/.test(one.textContent))";
    until("a peer with an allowance", async || {
        for number in 0..21 {
            nodes[0].ask("d", &format!("three_seconds={number}")).await;
        }
        page.value(has_allowance).await == true
    })
    .await;
    page.until("[...document.querySelectorAll('.map .edge.alive text')].some(one => /\\d.(µs|ms)$/.test(one.textContent))").await;
    // Killed by its handle, without a goodbye.
    nodes.truncate(2);
    page.until("document.querySelectorAll('.map .peer.dead').length === 1").await;
    page.wait_for("1 of 2 peers is not alive: eve (dead).").await;
    let rows = "[...document.querySelectorAll('tbody tr')].map(row => row.innerText)";
    page.until(&format!(
        "{rows}.some(row => row.includes('eve') && row.includes('dead') && row.includes('Forget'))"
    ))
    .await;
    assert_eq!(page.value("document.querySelectorAll('.map .peer.alive').length").await, 1);
    page.until("/^silent \\d/.test(document.querySelector('.map .edge.dead text').textContent) && document.querySelector('.map .edge.dead line.stale')").await;
    axe::assert_no_violations(&mut page, "a mesh with a dead peer").await;
    page.view("overview").await;
    page.wait_for("The peer eve is dead.").await;
    // Shared counters take memory as well.
    page.until("Number(document.querySelector('.tile:last-child dd').textContent) >= 20").await;
    page.assert_clean().await;
}
