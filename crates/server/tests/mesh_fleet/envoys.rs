//! Real Envoys in front of three nodes, with more requests than the limit through all of them.

use crate::fleet::Plan;
use crate::rules::{assert_no_window_above_limit, is_long, percent_admitted};
use crate::tally::{Answer, Outcome, Tally};
use crate::window_time::{SECOND, begin, now, phase, window};
use hivemind_testkit::envoy::bootstrap::{self, Bootstrap};
use hivemind_testkit::envoy::http::Connection;
use hivemind_testkit::envoy::proxy::{self, Envoy};
use hivemind_testkit::envoy::upstream::Upstream;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

/// Connections to each Envoy, with one request at a time on each.
const CONNECTIONS: usize = 6;

const RULES: &str = "- {key: fast, rate_limit: {unit: second, requests_per_unit: 1000}}\n";

/// Sends requests from 30 to 950 ms after each edge, for this many windows from `first` on.
fn drive(envoy: SocketAddr, first: u64, windows: u64) -> Vec<Answer> {
    let mut connection = Connection::tcp(envoy).unwrap();
    let mut answers = Vec::new();
    for number in first..first + windows {
        let from = begin(number, SECOND).saturating_add(Duration::from_millis(30));
        while now() < from {
            std::thread::park_timeout(from.since(now()));
        }
        while window(now(), SECOND) == number && phase(now(), SECOND) < Duration::from_millis(950) {
            let sent = now();
            let outcome = match connection.get("/", &[("x-fast", "v")]).unwrap().status {
                200 => Outcome::Admitted,
                429 => Outcome::Refused,
                _ => Outcome::Failed,
            };
            answers.push(Answer { sent, received: now(), outcome });
        }
    }
    answers
}

#[tokio::test]
async fn three_envoys_admit_the_limit_and_hardly_less() {
    let Some(program) = proxy::program() else { return };
    let fleet = Plan::new(3, RULES).for_domain("test").start().await.unwrap();
    let upstream = Upstream::start("upstream").address;
    let mut envoys = Vec::new();
    for node in &fleet.nodes {
        let folder = node.path().join("envoy");
        std::fs::create_dir(&folder).unwrap();
        let by_header = json!([{"request_headers": {"header_name": "x-fast", "descriptor_key": "fast"}}]);
        let route = json!({"route": {"rate_limits": [{"actions": by_header}]}});
        let config = Bootstrap { route: vec![route], ..Bootstrap::default() };
        let limiter = bootstrap::address(node.grpc());
        let config = config.into_json(&Envoy::admin_socket(&folder), &limiter, &[("upstream", upstream)]);
        // On this thread: an Envoy ends with the thread that started it, and the runtime ends its threads when
        // they are idle.
        envoys.push(Envoy::start(&program, &folder, &config));
    }
    let windows = if is_long() { 20 } else { 6 };
    let first = window(now(), SECOND) + 1;
    let callers: Vec<_> = (0..3 * CONNECTIONS)
        .map(|number| {
            let at = envoys[number % 3].address;
            std::thread::spawn(move || drive(at, first, windows))
        })
        .collect();
    let answers = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
    let tally = Tally { answers };
    println!(
        "Envoys: {:.2} % admitted of {} requests: {}",
        percent_admitted(&tally),
        tally.answers.len(),
        tally.summary()
    );
    assert_no_window_above_limit(&tally);
    assert_eq!(tally.failed(), 0);
    assert!(percent_admitted(&tally) >= 98.0, "{}", tally.summary());
}
