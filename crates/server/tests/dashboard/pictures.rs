//! The guide's pictures, of a real mesh under traffic. They are written if `HIVEMIND_PICTURES` names a folder:
//!
//!     HIVEMIND_PICTURES=docs/pictures cargo nextest run --release -p hivemind-rl --test dashboard -E 'test(pictures)' --no-capture
//!
//! Six nodes and a browser: without `--release` two cores are too slow, and the test reports it.

use crate::page::Dashboard;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members, with_files};
use hivemind_testkit::{Client, Setup, request};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

const RULES: &str = "
domain: edge
descriptors:
- {key: remote_address, rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 10, burst: 20}}
- {key: remote_address, value: 192.0.2.1, rate_limit: {unlimited: true}}
";
const API: &str = "
domain: api
descriptors:
- key: plan
  value: gold
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 1000, name: gold}}
- key: plan
  descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 300}}
- {key: tenant, rate_limit: {unit: second, requests_per_unit: 700}}
- {key: path, value: /search, rate_limit: {algorithm: sliding_window, unit: second, requests_per_unit: 40}}
";
const LOGIN: &str = "
domain: login
descriptors:
- {key: user, rate_limit: {algorithm: sliding_window, unit: minute, requests_per_unit: 5}}
";
const USERS: [&str; 8] = ["ada", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"];

const MOST_WAITING: usize = 64;

/// The requests of a fortieth of a second, by its number: some of everything, and more of one from the
/// twentieth second.
fn requests(tick: u64) -> Vec<(&'static str, String)> {
    let drawn = |salt: u64| {
        let mixed = tick.wrapping_add(salt << 40).wrapping_mul(6_364_136_223_846_793_005);
        usize::try_from(mixed >> 33).unwrap()
    };
    let user = USERS[drawn(1) % USERS.len() * drawn(2) % USERS.len()];
    let mut all = vec![
        ("edge", format!("remote_address=203.0.113.{}", drawn(3) % 90 + 10)),
        ("api", format!("plan=free user={user}")),
        ("api", format!("tenant=t-{}", drawn(4) % 40)),
    ];
    if tick.is_multiple_of(3) {
        all.push(("api", format!("plan=gold user={user}")));
        all.push(("api", "path=/search".to_owned()));
    }
    if tick.is_multiple_of(25) {
        all.push(("login", format!("user={user}")));
    }
    let wave = tick / 40 % 40;
    if tick > 800 && wave > 8 {
        all.push(("edge", "remote_address=198.51.100.66".to_owned()));
        all.extend(tick.is_multiple_of(4).then(|| ("login", "user=root".to_owned())));
        all.extend(tick.is_multiple_of(5).then(|| ("edge", "remote_address=198.51.100.7".to_owned())));
    }
    all
}

/// Sends the requests when they are due, without waiting for earlier responses.
async fn send(client: Client) {
    let mut ticks = tokio::time::interval(Duration::from_millis(25));
    let waiting = Arc::new(Semaphore::new(MOST_WAITING));
    for tick in 0.. {
        ticks.tick().await;
        for (domain, text) in requests(tick) {
            let Ok(place) = Arc::clone(&waiting).try_acquire_owned() else { continue };
            let mut client = client.clone();
            tokio::spawn(async move {
                let _ = client.should_rate_limit(request(domain, &text)).await;
                drop(place);
            });
        }
    }
}

fn node(authority: &MeshAuthority, name: &str, peers: &[std::net::SocketAddr]) -> Setup {
    let setup = Setup::new().rules_at("rules");
    for (file, text) in [("edge", RULES), ("api", API), ("login", LOGIN)] {
        setup.write(&format!("rules/{file}.yaml"), text);
    }
    with_files(setup, &authority.certificate_folder(name, &[]), peers)
        .with("rate_limiting.staleness_threshold_ms", "2000")
        // The default: other tests use a longer timeout, which the picture would show.
        .with("mesh.ask_timeout_ms", "15")
}

/// Sets the height to that of the content, so that no table is cut off.
async fn set_full_height(page: &mut Dashboard) {
    page.set_size(1440, 1000).await;
    let high = page.value("document.documentElement.scrollHeight").await.as_u64().unwrap();
    page.set_size(1440, u32::try_from(high).unwrap().clamp(1000, 2000)).await;
}

async fn picture(page: &mut Dashboard, folder: &Path, name: &str) {
    // Animations have ended, and notices are removed.
    page.value("document.getElementById('alerts').replaceChildren()").await;
    page.value("document.activeElement.blur()").await;
    page.value("new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))").await;
    // A table that is cut off at its panel's edge is useless in a picture.
    let cut = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)";
    assert_eq!(page.value(cut).await, json!([]), "{name}: wider than their panels");
    let taken = page.browser.call("Page.captureScreenshot", json!({"format": "png"})).await;
    let bytes = STANDARD.decode(taken["data"].as_str().unwrap()).unwrap();
    assert!(bytes.len() < 250 << 10, "{name} has {} bytes", bytes.len());
    std::fs::write(folder.join(format!("dashboard-{name}.png")), bytes).unwrap();
}

/// A blocked key, and another one that is looked up.
async fn picture_key(page: &mut Dashboard, folder: &Path) {
    page.view("keys").await;
    page.click("button.as-link", "198.51.100.7").await;
    page.wait_for("per second").await;
    page.click("button", "Block…").await;
    page.click("dialog button", "Block").await;
    page.until("document.querySelector('.blocked')").await;
    page.click("button.as-link", "198.51.100.66").await;
    page.until("document.querySelector('.key-head h2').textContent.includes('198.51.100.66') && document.querySelector('.key .limit')").await;
    set_full_height(page).await;
    picture(page, folder, "keys").await;
}

/// Other rules, simulated on the recent requests.
async fn picture_simulation(page: &mut Dashboard, folder: &Path) {
    page.set_size(1440, 1000).await;
    page.view("what-if").await;
    page.click("button", "Start with the active rules").await;
    page.until("document.querySelector('textarea').value.includes('domain')").await;
    let changed = "for (const area of document.querySelectorAll('textarea')) area.value = area.value.replace('requests_per_unit: 300', 'requests_per_unit: 120')";
    page.value(changed).await;
    page.click("button", "Try it").await;
    page.wait_for("Affected keys").await;
    picture(page, folder, "what-if").await;
}

/// A dead peer, on the map and on a phone.
async fn picture_dead_peer(page: &mut Dashboard, folder: &Path) {
    // The map grows with the window, and all peers must be visible below it.
    page.set_size(1440, 1320).await;
    page.view("mesh").await;
    page.until("document.querySelectorAll('.map .peer.dead').length === 1").await;
    page.until("[...document.querySelectorAll('.map .peer.alive .more')].every(one => /^[1-9].* rights$/.test(one.textContent))").await;
    picture(page, folder, "mesh").await;
    page.set_size(390, 844).await;
    page.view("overview").await;
    page.wait_for("The peer hnd-1 is dead.").await;
    picture(page, folder, "narrow").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guide_pictures_are_written_if_a_folder_is_given() {
    let Some(folder) = std::env::var_os("HIVEMIND_PICTURES") else { return };
    // Tests run in the folder of their crate.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let authority = MeshAuthority::new();
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["ber-1", "fra-1", "ams-1", "lon-1", "nyc-1", "hnd-1"] {
        let bootstrap: Vec<_> = nodes.first().map(|node| node.mesh).into_iter().collect();
        nodes.push(Node::start(node(&authority, name, &bootstrap)).await);
    }
    all_are_members(&nodes).await;
    let mut page = Dashboard::live(nodes[0].admin).await;
    page.set_size(1440, 1000).await;
    page.set_color_scheme("light").await;
    for node in nodes.iter().take(2) {
        tokio::spawn(send(node.client().await));
    }
    for seconds in [15, 30, 45, 60, 75, 90] {
        let line = "document.querySelector('.chart .allowed .line').getAttribute('d').match(/L/g).length";
        page.until(&format!("{line} >= {seconds}")).await;
    }
    // A machine that is too slow would show only that. The p99 of a domain with a few requests per second is
    // its slowest request, so one sample is not enough.
    page.until(
        "[...document.querySelectorAll('.tile dd, td')].every(one => !one.textContent.startsWith('≥'))",
    )
    .await;
    set_full_height(&mut page).await;
    picture(&mut page, &folder, "overview-light").await;
    page.set_color_scheme("dark").await;
    picture(&mut page, &folder, "overview-dark").await;
    page.set_color_scheme("light").await;
    picture_key(&mut page, &folder).await;
    picture_simulation(&mut page, &folder).await;
    // Killed by its handle, for the map.
    nodes.truncate(5);
    picture_dead_peer(&mut page, &folder).await;
    page.assert_clean().await;
}
