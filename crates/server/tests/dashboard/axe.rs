//! Accessibility: axe's findings in each view, light and dark. Tests of other states use it as well.

use crate::page::{Dashboard, VIEWS};
use crate::scene::{RULES, ask, traffic};
use hivemind_testkit::Server;
use hivemind_testkit::may_be_missing;
use serde_json::json;

/// All rules of axe, and those that depend on the colors alone.
const ALL: &str = "";
const COLORS: &str = ", runOnly: ['color-contrast']";

/// Asserts that axe finds no serious violation.
async fn assert_no_violation(page: &mut Dashboard, rules: &str, what: &str) {
    let run = format!(
        "axe.run(document, {{resultTypes: ['violations']{rules}}}).then(found => found.violations\
         .filter(one => ['serious', 'critical'].includes(one.impact))\
         .map(one => [one.id, one.impact, ...one.nodes.slice(0, 3).map(node => node.html.slice(0, 200) + ' ' + node.failureSummary)]))"
    );
    assert_eq!(page.value(&run).await, json!([]), "{what}");
}

/// Injects axe into the page; false if axe is not installed.
async fn inject(page: &mut Dashboard) -> bool {
    let Some(axe) = std::env::var_os("HIVEMIND_AXE") else {
        assert!(may_be_missing(), "HIVEMIND_AXE is not set; `./test` installs axe");
        return false;
    };
    if page.value("typeof axe").await == "undefined" {
        page.value(&std::fs::read_to_string(axe).unwrap()).await;
    }
    true
}

/// Asserts that the present state has no serious violation, light or dark.
pub(crate) async fn assert_no_violations(page: &mut Dashboard, what: &str) {
    if !inject(page).await {
        return;
    }
    page.set_color_scheme("dark").await;
    assert_no_violation(page, COLORS, &format!("{what}, dark")).await;
    page.set_color_scheme("light").await;
    assert_no_violation(page, ALL, &format!("{what}, light")).await;
}

// Seen failing on: a view that never shows its content; text in a lighter grey.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axe_finds_no_serious_violation_in_any_view() {
    let server = Server::with_rules(RULES).await;
    let _requests = traffic(&server).await;
    let mut page = Dashboard::live(server.admin).await;
    page.wait_for("user=mallory").await;
    assert_eq!(ask(server.admin, "shop", &[("address", "192.0.2.9")]).await, 200);
    for (view, _) in VIEWS {
        page.view(view).await;
        page.until("!document.querySelector('main').innerText.includes('Loading…')").await;
        match view {
            "overview" => {
                page.value("document.querySelectorAll('details').forEach(one => one.open = true)").await;
                page.until("document.querySelector('.as-table tbody tr')").await;
            }
            "keys" => {
                page.click("button.as-link", "user=mallory").await;
                page.wait_for("0 left").await;
                page.click("button", "Block…").await;
                page.until("document.querySelector('dialog[open]')").await;
                assert_no_violations(&mut page, "a question").await;
                page.click("dialog button", "Block").await;
                page.wait_for("Blocked until").await;
            }
            "explain" => {
                page.fill("Domain", 0, "shop").await;
                page.fill("Key", 0, "user").await;
                page.click("button", "Explain").await;
                page.wait_for("Step by step").await;
            }
            "what-if" => {
                page.click("button", "Start with the active rules").await;
                page.until("document.querySelector('textarea').value.includes('shop')").await;
                page.click("button", "Try it").await;
                page.wait_for("Affected keys").await;
            }
            _ => {}
        }
        assert_no_violations(&mut page, view).await;
        // Narrow only in the views whose tables and forms have another layout there; colors are the same.
        if ["overview", "keys", "what-if"].contains(&view) && inject(&mut page).await {
            page.set_size(360, 740).await;
            assert_no_violation(&mut page, ALL, &format!("{view}, narrow")).await;
            page.set_size(1280, 900).await;
        }
    }
    page.assert_clean().await;
}
