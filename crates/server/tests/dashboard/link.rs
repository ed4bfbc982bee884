//! A server that goes away while somebody looks, and comes back.

use crate::axe;
use crate::page::Dashboard;
use crate::scene::{RULES, traffic};
use hivemind_testkit::{Server, Setup};

// Seen failing on: a page that does not try again; one that keeps its colours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_goes_is_told_as_gone_and_one_that_comes_back_is_followed() {
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
    assert_eq!(filter, "grayscale(1)", "what is old is grey");
    axe::finds_nothing(&mut page, "without a server").await;
    let since = page.value("document.getElementById('link-text').textContent").await;
    page.click("#retry", "Try now").await;
    page.until("!document.getElementById('retry').hidden").await;
    assert_eq!(
        page.value("document.getElementById('link-text').textContent").await,
        since,
        "it is lost since then"
    );
    let server = Setup::rules(RULES).with("server.admin_port", &admin.port().to_string()).start().await;
    page.until("document.body.dataset.link === 'live'").await;
    let _requests = traffic(&server).await;
    page.says("of all requests are refused").await;
    page.is_clean().await;
}
