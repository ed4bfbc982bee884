//! Who has to say who they are.

use crate::page::Dashboard;
use crate::scene::RULES;
use crate::support::{Setup, get};

const TOKEN: &str = "correct-horse-battery-staple-0123456789";

// Seen failing on: a token that is kept as the name of the window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_asked_for_and_kept_by_nothing_but_the_script() {
    let setup = Setup::rules(RULES);
    setup.write("token", TOKEN);
    let file = setup.path().join("token");
    let server = setup.with("security.admin.token_file", file.to_str().unwrap()).start().await;
    let bare = get(server.admin, "/").await;
    assert!(bare.code == 200 && !bare.body.contains("shop"), "{bare:?}");
    let mut page = Dashboard::at(server.admin).await;
    page.until("document.activeElement.type === 'password'").await;
    page.says("This admin port asks who you are.").await;
    page.write("a wrong one").await;
    page.press("Enter").await;
    page.says("That token is not the one that is set.").await;
    page.until("document.activeElement.type === 'password'").await;
    page.write(TOKEN).await;
    page.press("Enter").await;
    page.until("document.body.dataset.link === 'live'").await;
    page.says("No requests come in.").await;
    page.view("rules").await;
    page.says("3 per hour").await;
    let kept = "[location.href, document.cookie, JSON.stringify({...localStorage}), JSON.stringify({...sessionStorage}), \
                document.documentElement.outerHTML, history.state, window.name].join()";
    assert!(!page.value(kept).await.as_str().unwrap().contains(TOKEN));
    for sent in page.browser.happened("Network.requestWillBeSent") {
        assert!(!sent["request"]["url"].as_str().unwrap().contains(TOKEN), "{sent}");
    }
    page.is_clean().await;
    // Whoever goes away from the page takes it along.
    page.click("#sign-out", "Forget").await;
    page.until("document.activeElement?.type === 'password'").await;
    page.says("This admin port asks who you are.").await;
    page.write(TOKEN).await;
    page.press("Enter").await;
    page.until("document.body.dataset.link === 'live'").await;
    page.value("location.reload()").await;
    page.until("document.activeElement.type === 'password'").await;
}
