//! The connection to a server that stops and comes back.

use crate::axe;
use crate::page::Dashboard;
use crate::scene::{RULES, traffic};
use hivemind_testkit::{Server, Setup};

// Seen failing on: a page that does not reconnect; a page that keeps its colors.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_server_is_shown_as_disconnected_until_it_is_back() {
    let server = Server::with_rules(RULES).await;
    let admin = server.admin;
    let mut page = Dashboard::live(admin).await;
    // Killed by its handle.
    drop(server);
    page.until(
        "/^Disconnected since \\d\\d:\\d\\d:\\d\\d/.test(document.getElementById('link-text').textContent)",
    )
    .await;
    let filter = page.value("getComputedStyle(document.querySelector('main')).filter").await;
    assert_eq!(filter, "grayscale(1)", "old data is grey");
    axe::assert_no_violations(&mut page, "without a server").await;
    let since = page.value("document.getElementById('link-text').textContent").await;
    page.click("#retry", "Try now").await;
    page.until("!document.getElementById('retry').hidden").await;
    assert_eq!(
        page.value("document.getElementById('link-text').textContent").await,
        since,
        "the time of the disconnect does not change"
    );
    let server = Setup::rules(RULES).with("server.admin_port", &admin.port().to_string()).start().await;
    page.until("document.body.dataset.link === 'live'").await;
    let _requests = traffic(&server).await;
    page.wait_for("of all requests are refused").await;
    page.assert_clean().await;
}
