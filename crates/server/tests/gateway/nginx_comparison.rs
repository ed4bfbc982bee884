//! A real nginx and the gateway imported from its configuration get the same requests in lockstep.
//! Rates are so slow that the time between two requests cannot change a verdict.

use crate::harness::{Gateway, Message, Nginx, Setup, Wire, request, run};
use std::path::Path;

/// A request for both: client address, host, target and headers.
struct Probe {
    client: &'static str,
    host: &'static str,
    target: &'static str,
    headers: Vec<(&'static str, String)>,
}

fn ask(client: &'static str, host: &'static str, target: &'static str) -> Probe {
    Probe { client, host, target, headers: Vec::new() }
}

/// The configuration that `hivemind import nginx` prints for a file; it must pass `hivemind check`.
async fn imported(file: &Path) -> String {
    let text = run(env!("CARGO_BIN_EXE_hivemind"), &["import", "nginx", file.to_str().unwrap()]).await;
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("hivemind.yaml");
    std::fs::write(&written, &text).unwrap();
    let (code, output) = hivemind_testkit::hivemind(&["check", written.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{output}\n{text}");
    text
}

async fn answer(address: std::net::SocketAddr, question: &Probe) -> Message {
    let mut wire = Wire::from(question.client, address).await;
    let mut headers = vec![("host", question.host)];
    headers.extend(question.headers.iter().map(|(name, value)| (*name, value.as_str())));
    wire.send(request("GET", question.target, &headers, "")).await;
    wire.answer().await
}

struct Pair {
    nginx: Nginx,
    gateway: Gateway,
}

impl Pair {
    /// Starts nginx with this configuration, whose `PORT0` gets the requests, and the gateway imported from it.
    async fn start(http: &str) -> Self {
        let nginx = Nginx::start(http).await;
        let text = imported(&nginx.configuration()).await;
        Self { nginx, gateway: Setup::of_text(text).start().await }
    }

    /// Sends each request to both, compares status and body, and returns how many passed.
    async fn agree(&self, questions: impl IntoIterator<Item = Probe>) -> usize {
        let mut passed = 0;
        for (number, question) in questions.into_iter().enumerate() {
            let real = answer(self.nginx.listen[0], &question).await;
            let ours = answer(self.gateway.listen, &question).await;
            let place = format!("number {number}, {} {}{}", question.client, question.host, question.target);
            // nginx may refuse with any configured status; the gateway refuses with 429.
            let refusal = if real.code() == 503 { 429 } else { real.code() };
            assert_eq!(ours.code(), refusal, "{place}: {ours:?}");
            if real.code() == 200 {
                assert_eq!(ours.text(), real.text(), "{place}");
                passed += 1;
            }
        }
        passed
    }
}

/// An upstream in the same nginx that returns its name.
const UPSTREAM: &str = "server { listen 127.0.0.1:PORT1; return 200 \"one $uri\"; }
server { listen 127.0.0.1:PORT2; return 200 \"two $uri\"; }";

#[tokio::test]
async fn imported_burst_gives_the_same_verdicts_as_nginx() {
    for burst in ["burst=1 nodelay", "burst=5 nodelay", "burst=20 nodelay", "nodelay", ""] {
        let pair = Pair::start(&format!(
            "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;
             limit_req_status 429;
             {UPSTREAM}
             server {{ listen 127.0.0.1:PORT0;
                 location / {{ limit_req zone=z {burst}; proxy_pass http://127.0.0.1:PORT1; }} }}"
        ))
        .await;
        let clients = ["127.0.0.1", "127.0.0.1", "127.0.0.2"];
        let questions = (0..45).map(|number| ask(clients[number % 3], "a.example", "/x"));
        let passed = pair.agree(questions).await;
        let expected = match burst {
            "burst=1 nodelay" => 4,
            "burst=5 nodelay" => 12,
            "burst=20 nodelay" => 36,
            _ => 2,
        };
        assert_eq!(passed, expected, "{burst}");
    }
}

#[tokio::test]
async fn imported_servers_and_locations_count_as_in_nginx() {
    // One zone over both locations of the first server: one bucket per client, as in nginx.
    let pair = Pair::start(&format!(
        "limit_req_zone $binary_remote_addr zone=slow:1m rate=1r/m;
         limit_req_zone $binary_remote_addr zone=other:1m rate=2r/m;
         limit_req_status 503;
         {UPSTREAM}
         server {{ listen 127.0.0.1:PORT0; server_name a.example;
             location /api {{ limit_req zone=slow burst=4 nodelay; proxy_pass http://127.0.0.1:PORT1; }}
             location /free {{ proxy_pass http://127.0.0.1:PORT2; }} }}
         server {{ listen 127.0.0.1:PORT0; server_name b.example;
             location / {{ limit_req zone=other burst=9 nodelay; proxy_pass http://127.0.0.1:PORT2; }} }}"
    ))
    .await;
    let places = [("a.example", "/api/x"), ("a.example", "/free/x"), ("b.example", "/api/x")];
    let questions = (0..60).map(|number| {
        let (host, target) = places[number % 3];
        ask(if number % 2 == 0 { "127.0.0.1" } else { "127.0.0.4" }, host, target)
    });
    assert_eq!(pair.agree(questions).await, 2 * 5 + 20 + 2 * 10);
}

#[tokio::test]
async fn trusted_proxy_address_is_the_same_as_in_nginx() {
    let pair = Pair::start(&format!(
        "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;
         limit_req_status 429;
         set_real_ip_from 127.0.0.0/30;
         real_ip_header X-Forwarded-For;
         real_ip_recursive on;
         {UPSTREAM}
         server {{ listen 127.0.0.1:PORT0;
             location / {{ limit_req zone=z burst=2 nodelay; proxy_pass http://127.0.0.1:PORT1; }} }}"
    ))
    .await;
    let mut questions = Vec::new();
    for number in 0..48 {
        // 127.0.0.1 and .2 are trusted; 127.0.0.9 is not, so its header is ignored.
        let client = ["127.0.0.1", "127.0.0.2", "127.0.0.9"][number % 3];
        let forwarded =
            ["203.0.113.1", "203.0.113.2, 127.0.0.2", "198.51.100.7, 203.0.113.1", "garbage"][number % 4];
        questions.push(Probe {
            headers: vec![("x-forwarded-for", forwarded.to_owned())],
            ..ask(client, "a", "/")
        });
    }
    assert!(pair.agree(questions).await >= 9);
}

#[tokio::test]
async fn unsupported_directives_are_reported_with_their_lines() {
    let nginx = Nginx::start(
        "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;
         limit_conn_zone $binary_remote_addr zone=c:1m;
         server { listen 127.0.0.1:PORT0; gzip on;
             location / { limit_req zone=z burst=2 nodelay; limit_conn c 5; return 200 hello; } }",
    )
    .await;
    let file = nginx.configuration();
    let (_, output) = hivemind_testkit::hivemind(&["import", "nginx", file.to_str().unwrap()]);
    let text = std::fs::read_to_string(&file).unwrap();
    for directive in ["limit_conn_zone", "limit_conn c", "gzip on", "return 200"] {
        let line = text.lines().position(|line| line.contains(directive)).unwrap() + 1;
        let is_reported = output.lines().any(|reported| {
            reported.contains(&line.to_string()) && reported.contains(directive.split(' ').next().unwrap())
        });
        assert!(is_reported, "line {line}, `{directive}`:\n{output}");
    }
}

#[tokio::test]
async fn imported_dry_run_passes_like_nginx() {
    let pair = Pair::start(&format!(
        "limit_req_zone $binary_remote_addr zone=z:1m rate=1r/m;
         {UPSTREAM}
         server {{ listen 127.0.0.1:PORT0;
             location / {{ limit_req zone=z nodelay; limit_req_dry_run on; proxy_pass http://127.0.0.1:PORT1; }} }}"
    ))
    .await;
    assert_eq!(pair.agree((0..5).map(|_| ask("127.0.0.1", "a", "/"))).await, 5);
}
