//! A peer that dies, seen from another.

use crate::axe;
use crate::page::Dashboard;
use hivemind_testkit::Setup;
use hivemind_testkit::mesh::{Authority, Node, all_are_members, until};

// Seen failing on: a view that does not hear of peers; a line to the dead like those to the living; counters of a mesh that were
// counted nowhere; events that never tell what peers hold.
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
    for number in 0..21 {
        nodes[0].ask("d", &format!("day={number}")).await;
    }
    // What a node holds of a counter that another keeps comes with the events, every ten seconds: each has its share of a window.
    // Of windows of a second that is looked at again and again at the same point, where none may have been asked for yet, or
    // all of it been recalled; of these it is neither twice.
    let told = "[...document.querySelectorAll('.map .peer.alive .more')].some(one => /^[1-9].* rights$/.test(one.textContent))";
    until("a peer to hold something", async || {
        for number in 0..21 {
            nodes[0].ask("d", &format!("three_seconds={number}")).await;
        }
        page.value(told).await == true
    })
    .await;
    page.until("[...document.querySelectorAll('.map .edge.alive text')].some(one => /\\d.(µs|ms)$/.test(one.textContent))").await;
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
    page.until("/^silent \\d/.test(document.querySelector('.map .edge.dead text').textContent) && document.querySelector('.map .edge.dead line.stale')").await;
    axe::finds_nothing(&mut page, "a mesh with a dead peer").await;
    page.view("overview").await;
    page.says("The peer eve is dead.").await;
    // Counters that are shared are in memory as well.
    page.until("Number(document.querySelector('.tile:last-child dd').textContent) >= 20").await;
    page.is_clean().await;
}
