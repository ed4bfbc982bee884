//! The gateway's limits beside the rules, and what is sent of a value that is sought.

use crate::axe;
use crate::page::Dashboard;
use crate::scene::{RULES, ask};
use hivemind_testkit::{Server, Setup};
use serde_json::json;

const GATEWAY: &str = "
gateway:
  listen: 127.0.0.1:0
  platform: {max_requests: 200, requests: 100, window: 60s}
  services:
  - id: shop
    upstream: http://192.0.2.1:3000
    limits: {requests: 500, burst: 50}
    endpoints:
    - {id: login, path: '/<b>login</b>', methods: [POST, PUT], limits: {requests: 5}}
";

/// The cells of the row of the gateway's limits that has these texts.
fn row(texts: [&str; 2]) -> String {
    let [first, second] = texts.map(|text| json!(text));
    format!(
        "[...document.querySelectorAll('[aria-label=\"Effective limits\"] tbody tr')].find(one => \
         one.innerText.includes({first}) && one.innerText.includes({second}))"
    )
}

// Seen failing on: a cap that names itself as what it stands for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gateways_limits_are_below_the_rules_with_who_says_each_field_and_what_caps_them() {
    let server = Setup::rules(RULES).config(GATEWAY).start().await;
    let mut page = Dashboard::live(server.admin).await;
    page.view("rules").await;
    page.says("Effective limits").await;
    // A cap, and what it stands for.
    let capped = row(["shop", "instead of 500 per minute, 50 at once"]);
    page.until(&format!("Boolean({capped})")).await;
    let text = page.value(&format!("{capped}.innerText")).await;
    let text = text.as_str().unwrap();
    for part in ["200 per minute, 50 at once", "capped", "service: requests, burst", "platform: window"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let login = row(["shop", "POST,PUT /<b>login</b>"]);
    let text = page.value(&format!("{login}.innerText")).await;
    let text = text.as_str().unwrap();
    assert!(text.contains("endpoint: requests") && !text.contains("capped"), "{text}");
    axe::finds_nothing(&mut page, "limits").await;
    // Where it is narrow nothing is out of reach.
    page.is_wide(360, 740).await;
    page.until("document.documentElement.scrollWidth <= innerWidth").await;
    axe::finds_nothing(&mut page, "limits, narrow").await;
    page.is_wide(1280, 900).await;
    page.fill("Search", 0, "login").await;
    page.until(&format!("!{capped} && Boolean({login})")).await;
    page.fill("Search", 0, "nobody").await;
    page.says("No limit of a gateway fits.").await;
    page.is_clean().await;
}

// Seen failing on: another text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_gateway_runs_the_page_says_that_its_limits_are_the_rules() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    page.view("rules").await;
    page.says("No gateway runs here: what is limited is in the rules alone.").await;
    page.is_clean().await;
}

// Seen failing on: the value as it was typed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_sought_among_decisions_is_found_and_stands_in_no_address() {
    let server = Server::with_rules(RULES).await;
    for (key, value) in [("authorization", "opens-it-ü"), ("user", "ada-of-shop"), ("user", "bob")] {
        ask(server.admin, "shop", &[(key, value)]).await;
    }
    let mut page = Dashboard::live(server.admin).await;
    page.view("decisions").await;
    page.says("user=bob").await;
    let rows = "document.querySelectorAll('tbody tr').length";
    for (value, shown) in [("opens-it-ü", "authorization=sha256:"), ("ada-of-shop", "user=ada-of-shop")] {
        page.fill("Value", 0, value).await;
        page.until(&format!("{rows} === 1")).await;
        page.says(shown).await;
        page.fill("Value", 0, "").await;
        page.until(&format!("{rows} === 3")).await;
    }
    let asked: Vec<&str> = page.asked().collect();
    assert!(asked.iter().any(|url| url.contains("value=sha256%3A")), "{asked:?}");
    assert!(!asked.iter().any(|url| url.contains("opens-it") || url.contains("ada-of")), "{asked:?}");
    page.is_clean().await;
}

// Seen failing on: a first word of the configuration that is taken for what is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_are_loaded_anew_are_shown_anew_however_soon() {
    let server = Setup::rules(RULES).config(GATEWAY).start().await;
    let mut page = Dashboard::live(server.admin).await;
    // The configuration was told on another view: the next word of it is the one that says that it is another.
    page.until("import('/assets/live.js').then(({live}) => live.config !== null)").await;
    page.view("rules").await;
    page.says("200 per minute, 50 at once").await;
    let other = GATEWAY.replace("requests: 500, burst: 50", "requests: 77, burst: 50");
    std::fs::write(server.path().join("hivemind.yaml"), other).unwrap();
    page.value("import('/assets/api.js').then(api => api.post('/reload'))").await;
    page.says("77 per minute, 50 at once").await;
    page.is_clean().await;
}

// Seen failing on: padding that begins no block of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hash_of_the_page_is_that_of_the_standard_at_every_length() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    // By coreutils: `head -c 56 /dev/zero | tr '\\0' a | sha256sum`.
    for (length, known) in [
        (1, "ca978112ca1bbdca"),
        (55, "9f4390f8d30c2dd9"),
        (56, "b35439a4ac6f0948"),
        (63, "7d3e74a05d7db15b"),
        (64, "ffe054fe7ae0cb6d"),
        (119, "31eba51c313a5c08"),
        (120, "2f3d335432c70b58"),
        (200, "c2a908d98f5df987"),
    ] {
        let of = format!("import('/assets/sha256.js').then(one => one.hashed('a'.repeat({length})))");
        assert_eq!(page.value(&of).await, format!("sha256:{known}"), "{length}");
    }
    let nothing = page.value("import('/assets/sha256.js').then(one => one.hashed(''))").await;
    assert_eq!(nothing, "", "nothing is sought");
    page.is_clean().await;
}

// Seen failing on: whatever is typed as `q` of the address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_looks_like_a_credential_is_not_sent_by_the_search_for_rules() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    page.view("rules").await;
    page.says("3 rules").await;
    for secret in [
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "dBjftJeZ4CVP-mB92K27uhbUJ",
        "Bearer x-of-ada",
        "/cb?access_token=x-of-ada",
    ] {
        page.fill("Search", 0, secret).await;
        page.says("Not sent: this looks like a credential.").await;
        page.fill("Search", 0, "/search").await;
        page.says("1 rule").await;
    }
    for plain in ["checkout-7d9c6b8f4d-x2x9q", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"] {
        page.fill("Search", 0, plain).await;
        page.says("No rule fits.").await;
        page.fill("Search", 0, "").await;
        page.says("3 rules").await;
    }
    let asked: Vec<&str> = page.asked().collect();
    assert!(asked.iter().any(|url| url.contains("q=checkout")), "{asked:?}");
    let is_told = |url: &&str| ["4eC39", "mB92K", "of-ada"].iter().any(|part| url.contains(part));
    assert!(!asked.iter().any(is_told), "{asked:?}");
    page.is_clean().await;
}
