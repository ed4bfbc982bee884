//! What is seen of traffic.

use crate::page::Dashboard;
use crate::scene::{RULES, traffic};
use crate::support::Server;

/// The number in a tile, which people may read as 1.2k.
fn tile(name: &str) -> String {
    format!(
        "parseFloat([...document.querySelectorAll('.tile')].find(one => one.textContent.startsWith('{name}')).querySelector('dd').textContent)"
    )
}

// Seen failing on: a page that takes no counts; rates of which the counters were added up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_move_with_traffic_and_come_to_rest_without() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    page.says("No requests come in.").await;
    let requests = traffic(&server).await;
    page.until(&format!("{} > 20 && {} > 10", tile("Requests"), tile("Refused"))).await;
    page.says("of all requests are refused, since").await;
    // Who it is, and why.
    page.until(
        "[...document.querySelectorAll('tbody tr')].some(row => /user=mallory.*shop.*3 per hour \\(rules.yaml:\\d+\\)/s.test(row.innerText))",
    )
    .await;
    // Each second has a point on its line, and the line is of this minute.
    page.until(
        "(document.querySelector('.chart .refused .line').getAttribute('d').match(/L/g) ?? []).length >= 3",
    )
    .await;
    page.until("document.querySelector('.chart').getAttribute('aria-label').includes('refused')").await;
    drop(requests);
    page.says("No requests come in.").await;
    page.is_clean().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_come_as_they_are_made_and_can_be_narrowed_down() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    page.view("decisions").await;
    page.says("No decision fits").await;
    let _requests = traffic(&server).await;
    page.says("over its limit").await;
    page.says("address=192.0.2.7").await;
    page.fill("Outcome", 0, "denied").await;
    page.until("document.querySelectorAll('tbody tr').length > 0 && [...document.querySelectorAll('tbody .tag')].every(one => one.textContent === 'refused')").await;
    page.fill("Value", 0, "nobody").await;
    page.says("No decision fits").await;
    page.is_clean().await;
}
