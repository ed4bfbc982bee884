//! Text from clients is displayed as text and never executed.

use crate::page::{Dashboard, VIEWS};
use crate::scene::ask;
use hivemind_testkit::Setup;
use serde_json::json;
use std::net::SocketAddr;

const RULES: &str = r#"
domain: "<b onclick=evil()>shop</b>"
descriptors:
- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: "<img src=x onerror=evil()>", value: "\u202Egnp", rate_limit: {unit: hour, requests_per_unit: 1, name: "</table><script>evil()</script>"}}
"#;
const DOMAIN: &str = "<b onclick=evil()>shop</b>";

/// Values, and how each is displayed.
fn values() -> [(String, &'static str); 9] {
    [
        ("<script>evil()</script>".to_owned(), "<script>evil()</script>"),
        ("\"><img src=x onerror=evil()>".to_owned(), "\"><img src=x onerror=evil()>"),
        ("\u{202e}cod.exe\u{2066}".to_owned(), "⟨202E⟩cod.exe⟨2066⟩"),
        ("\u{0}\u{7}\u{1b}[31m\r\n\u{7f}\u{85}".to_owned(), "⟨00⟩⟨07⟩⟨1B⟩[31m⟨0D⟩⟨0A⟩⟨7F⟩⟨85⟩"),
        (
            "ada\u{200d}\u{a0}\u{3164}e\u{301}\u{301}\u{301}".to_owned(),
            "ada⟨200D⟩⟨A0⟩⟨3164⟩e\u{301}\u{301}⟨301⟩",
        ),
        ("x".repeat(1 << 16), "xxxxxxxxxxxx…"),
        ("javascript:evil()//${evil()}{{evil()}}".to_owned(), "javascript:evil()//${evil()}{{evil()}}"),
        // Right-to-left letters; the text after them keeps its direction.
        ("שלום 123".to_owned(), "שלום 123"),
        ("مرحبا 456".to_owned(), "مرحبا 456"),
    ]
}

/// Brings keys, or results made of them, into a view and waits until the view shows one.
async fn show(page: &mut Dashboard, view: &str) {
    match view {
        "explain" => {
            page.fill("Domain", 0, DOMAIN).await;
            page.fill("Key", 0, "<img src=x onerror=evil()>").await;
            page.fill("Value", 0, "\u{202e}gnp").await;
            page.click("button", "Explain").await;
            page.wait_for("1 per hour").await;
        }
        "what-if" => {
            page.click("button", "Start with the active rules").await;
            page.until("document.querySelector('textarea').value.includes('evil')").await;
            page.click("button", "Try it").await;
            page.wait_for("Nothing would have been different.").await;
        }
        _ => {}
    }
    match view {
        "overview" | "keys" | "decisions" | "what-if" => page.wait_for("<script>evil()</script>").await,
        "rules" => page.wait_for("</table><script>evil()</script>").await,
        "explain" => page.wait_for("⟨202E⟩gnp").await,
        _ => page.until("!document.querySelector('main').innerText.includes('Loading…')").await,
    }
}

/// Causes a refusal of every key, most for the first: the overview has room for a few only.
async fn refuse_all(admin: SocketAddr) {
    for (number, (value, _)) in values().into_iter().enumerate() {
        for _ in 0..if number == 0 { 6 } else { 3 } {
            ask(admin, DOMAIN, &[("user", &value)]).await;
        }
    }
    for _ in 0..3 {
        ask(admin, DOMAIN, &[("<img src=x onerror=evil()>", "\u{202e}gnp")]).await;
    }
}

/// Asserts that no view contains an element from a value, an invisible character, or more text than a reader
/// can use.
async fn assert_text_in_each_view(page: &mut Dashboard) {
    for (view, _) in VIEWS {
        page.view(view).await;
        show(page, view).await;
        let text = page.text().await;
        assert!(text.len() < 40_000, "{view} shows {} characters", text.len());
        let hidden = text.find(|c: char| c.is_control() && c != '\n' && c != '\t');
        assert_eq!(hidden, None, "{view}");
        assert!(!text.contains(['\u{202e}', '\u{2066}']), "{view}");
        assert_eq!(
            page.value("document.querySelectorAll('main :is(img, script, iframe, b, [onclick])').length")
                .await,
            0,
            "{view}"
        );
    }
}

/// Asserts that each value is displayed completely, or as much of it as is kept.
async fn assert_values_displayed(page: &mut Dashboard) {
    page.view("keys").await;
    for (_, text) in values() {
        page.wait_for(text).await;
    }
    // The page decides where a value begins and what is next to it.
    let apart = "[...document.querySelectorAll('tbody .value')].filter(one => /^[שم]/.test(one.textContent)).map(one => \
        one.tagName === 'BDI' && one.getBoundingClientRect().left >= one.parentElement.querySelector('.entry-key').getBoundingClientRect().right)";
    assert_eq!(page.value(apart).await, json!([true, true, true, true]), "refused and spent, each of both");
    // Only the beginning of the long value is kept: a link to it would look up another key.
    page.wait_for("truncated or hashed: look it up by hand").await;
    let long =
        "[...document.querySelectorAll('button')].filter(one => one.textContent.includes('xxxxxxxx')).length";
    assert_eq!(page.value(long).await, 0);
    page.view("decisions").await;
    page.wait_for("⟨202E⟩cod.exe⟨2066⟩").await;
    page.view("rules").await;
    page.wait_for("</table><script>evil()</script>").await;
}

/// Asserts that an action on one key applies to exactly this key.
async fn assert_action_applies_to_key(page: &mut Dashboard, admin: SocketAddr) {
    page.view("keys").await;
    page.click("button.as-link", "⟨202E⟩cod.exe").await;
    page.wait_for("0 left").await;
    page.click("button", "Reset…").await;
    page.click("dialog button", "Reset").await;
    page.wait_for("1 left").await;
    assert_eq!(ask(admin, DOMAIN, &[("user", "\u{202e}cod.exe\u{2066}")]).await, 200);
    page.click("button.as-link", "⟨00⟩⟨07⟩").await;
    // A field has no line breaks: the value without them would be another key.
    page.until(
        "[...document.querySelectorAll('button')].find(one => one.textContent === 'Look up').disabled",
    )
    .await;
    page.click("button", "Block…").await;
    page.click("dialog button", "Block").await;
    page.until("document.querySelector('.blocked')").await;
    // The server keeps only the beginning of a long value, and the page shows no more of it.
    page.fill("Domain", 0, DOMAIN).await;
    page.fill("Key", 0, "user").await;
    page.fill("Value", 0, &"x".repeat(1 << 16)).await;
    page.click("button", "Look up").await;
    page.until("document.querySelector('.key-head h2').textContent.endsWith('xxx…')").await;
    let text = page.text().await;
    assert!(text.len() < 10_000, "{} characters", text.len());
}

// Seen failing on: a DOM helper that sets `innerHTML`, which the policy stops; invisible characters left as
// they are; values that are neither truncated nor isolated from the text next to them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_keys_are_shown_as_inert_text() {
    let server = Setup::rules(RULES).start().await;
    refuse_all(server.admin).await;
    let mut page = Dashboard::live(server.admin).await;
    page.value("window.evil = () => { window.ran = true; }").await;
    assert_text_in_each_view(&mut page).await;
    assert_values_displayed(&mut page).await;
    assert_action_applies_to_key(&mut page, server.admin).await;
    // Names that every object has are not views.
    page.value("location.hash = '#/toString'").await;
    page.until("document.querySelector('h1').textContent === 'Overview'").await;
    assert!(page.value("window.ran").await.is_null(), "a script of a client ran");
    page.assert_clean().await;
}
