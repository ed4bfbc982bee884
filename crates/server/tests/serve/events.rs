//! Data for the dashboard: counts since the start, and server-sent events.

use hivemind_testkit::{Server, Setup, get, within};
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const RULES: &str = "
domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: other, descriptors: [ {key: inner, rate_limit: {unit: day, requests_per_unit: 9}} ]}
";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

async fn stats(server: &Server) -> Value {
    let page = get(server.admin, "/api/v1/stats").await;
    assert_eq!((page.code, page.header("content-type")), (200, Some("application/json")));
    json(&page.body)
}

fn of<'v>(all: &'v Value, name: &str, wanted: &str) -> &'v Value {
    let found = all.as_array().unwrap().iter().find(|one| one[name] == wanted);
    found.unwrap_or_else(|| panic!("no {name} {wanted} in {all}"))
}

/// A client of the event stream.
struct Listener {
    lines: BufReader<TcpStream>,
    code: u16,
}

impl Listener {
    async fn at(admin: SocketAddr, headers: &str) -> Self {
        let mut connection = TcpStream::connect(admin).await.unwrap();
        let head =
            format!("GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut listener = Self { lines: BufReader::new(connection), code: 0 };
        let first = listener.line().await.unwrap();
        listener.code = first.split(' ').nth(1).unwrap().parse().unwrap();
        while listener.line().await.is_some_and(|line| !line.is_empty()) {}
        listener
    }

    /// The next line; none at the end.
    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = within("a line", self.lines.read_line(&mut line)).await;
        matches!(read, Ok(length) if length > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event with this name; none at the end.
    async fn next(&mut self, event: &str) -> Option<Value> {
        let wanted = format!("event: {event}");
        while self.line().await? != wanted {}
        let data = self.line().await?;
        Some(json(data.strip_prefix("data: ").unwrap()))
    }

    async fn ends(&mut self) {
        while self.line().await.is_some() {}
    }
}

#[tokio::test]
async fn stats_count_answers_by_domain_and_by_rule() {
    let server = Server::with_rules(RULES).await;
    for _ in 0..3 {
        server.ask("d", "k=v | other=a inner=b").await;
    }
    server.ask("elsewhere", "k=v").await;
    let body = stats(&server).await;
    assert_eq!((&body["totals"]["ok"], &body["totals"]["over_limit"]), (&3.into(), &1.into()));
    assert_eq!(body["totals"]["errors"], 0);
    let domain = of(&body["domains"], "domain", "d");
    assert_eq!((&domain["ok"], &domain["over_limit"]), (&2.into(), &1.into()));
    assert_eq!(of(&body["domains"], "domain", "other")["ok"], 1);
    for (key, ok, over) in [("k", 2, 1), ("other.inner", 3, 0)] {
        let rule = of(&body["rules"], "key", key);
        assert_eq!(
            (&rule["domain"], &rule["ok"], &rule["over_limit"]),
            (&"d".into(), &ok.into(), &over.into())
        );
    }
    let each = body["each_rule"].as_array().unwrap();
    let each: Vec<_> = each.iter().map(|rule| (rule["id"].as_u64(), rule["ok"].as_u64())).collect();
    assert!(each.contains(&(Some(0), Some(2))), "{body}");
    assert_eq!(body["rules_left_out"], 0);
    let latency = &body["latency_ms"];
    let [p50, p95, p99] = ["p50", "p95", "p99"].map(|name| latency[name].as_f64().unwrap());
    assert!(0.0 < p50 && p50 <= p95 && p95 <= p99 && p99 <= 100.0, "{latency}");
    let counts = latency["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|count| count.as_u64().unwrap()).sum::<u64>(), 4);
    assert_eq!(counts.len(), latency["edges"].as_array().unwrap().len() + 1);
    assert!(body["keys_in_memory"].as_u64().unwrap() >= 2 && body["max_keys"].as_u64().unwrap() > 1_000);
    assert!(body["connections"]["calls"].is_u64());
    assert_eq!(body["is_counted"], true);
}

// Seen failing on: top keys that arrive two seconds late.
#[tokio::test]
async fn event_stream_sends_everything_once_and_then_changes() {
    let server = Server::with_rules(RULES).await;
    let mut listener = Listener::at(server.admin, "").await;
    assert_eq!(listener.code, 200);
    assert!(listener.next("version").await.unwrap()["version"].is_string());
    assert_eq!(listener.next("config").await.unwrap()["is_ready"], true);
    assert_eq!(listener.next("stats").await.unwrap()["totals"]["ok"], 0);
    // At once, and not with the next event of the existing clients.
    assert_eq!(listener.line().await.as_deref(), Some(""));
    assert_eq!(listener.line().await.as_deref(), Some("event: top"));
    for _ in 0..3 {
        server.ask("d", "k=v").await;
    }
    while listener.next("stats").await.unwrap()["totals"]["over_limit"] != 1 {}
    let top = listener.next("top").await.unwrap();
    assert_eq!(top["denied"]["keys"][0]["entries"][0]["value"], "v");
    assert_eq!(top["spent"]["keys"][0]["count"], 2);
}

#[tokio::test]
async fn event_stream_over_the_maximum_gets_503_with_retry_after() {
    let server = Server::with_rules(RULES).await;
    let mut all = Vec::new();
    for _ in 0..32 {
        let listener = Listener::at(server.admin, "").await;
        assert_eq!(listener.code, 200);
        all.push(listener);
    }
    let late = get(server.admin, "/api/v1/events").await;
    assert_eq!((late.code, late.header("retry-after")), (503, Some("5")));
    assert_eq!(late.header("content-type"), Some("application/problem+json"));
}

#[tokio::test]
async fn open_event_streams_do_not_delay_shutdown() {
    let mut server = Setup::rules(RULES).with("server.shutdown_grace", "60s").start().await;
    let mut listener = Listener::at(server.admin, "").await;
    assert!(listener.next("stats").await.is_some());
    server.signal("TERM").await;
    listener.ends().await;
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn withdrawn_token_closes_its_event_streams() {
    let setup = Setup::rules(RULES);
    setup.write("token", "a-token-of-the-operators\n");
    let path = setup.path().join("token");
    let server = setup.with("security.admin.token_file", path.to_str().unwrap()).start().await;
    assert_eq!(Listener::at(server.admin, "").await.code, 401);
    let authorised = "authorization: Bearer a-token-of-the-operators\r\n";
    let mut listener = Listener::at(server.admin, authorised).await;
    assert_eq!(listener.code, 200);
    std::fs::write(&path, "another-token-of-theirs\n").unwrap();
    listener.ends().await;
    assert_eq!(Listener::at(server.admin, authorised).await.code, 401);
}
