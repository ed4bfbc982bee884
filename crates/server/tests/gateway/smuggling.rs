//! Request smuggling: for bytes that two servers could read differently, the upstream gets one request or none,
//! and no
//! unintended header. Each case is followed by an honest request.

use crate::harness::{Gateway, Message, Recorder, url};
use serde_json::json;

/// The bytes that an attacker wants the upstream to take for a request.
const EVIL: &str = "GET /evil HTTP/1.1\r\nhost: a\r\nx-evil: 1\r\n\r\n";

struct Case {
    name: String,
    bytes: Vec<u8>,
    /// Whether the request must be refused; otherwise one request may pass, as intended.
    refused: bool,
}

fn refused(name: &str, text: &str) -> Case {
    Case { name: name.to_owned(), bytes: text.as_bytes().to_vec(), refused: true }
}

fn ambiguous(name: &str, text: &str) -> Case {
    Case { refused: false, ..refused(name, text) }
}

async fn gateway(upstream: &Recorder) -> Gateway {
    let short = "300ms";
    Gateway::with(&json!({
        "header_timeout": short, "idle_timeout": short, "max_body": "1MB",
        "services": [{"id": "app", "upstream": url(upstream.address), "timeouts": {"idle": short}}],
    }))
    .await
}

/// The responses in the bytes that a client read.
fn answers(bytes: &[u8]) -> Vec<Message> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let starts = text.match_indices("HTTP/1.").map(|(at, _)| at);
    starts.map(|at| Message::of_head(text[at..].split("\r\n\r\n").next().unwrap())).collect()
}

async fn try_all(cases: Vec<Case>) {
    let upstream = Recorder::start().await;
    let gateway = gateway(&upstream).await;
    let mut wrong = Vec::new();
    for Case { name, bytes, refused } in cases {
        let mut client = gateway.connect().await;
        // The gateway may close before it has read everything.
        let _ = client.try_send(&bytes).await;
        let got = client.rest().await;
        let got = answers(&got);
        let honest = gateway.get("/honest").await;
        let (requests, leftovers) = upstream.take();
        let targets: Vec<&str> =
            requests.iter().map(Message::target).filter(|target| *target != "/honest").collect();
        let mut report =
            |what: &str| wrong.push(format!("{name}: {what}: {targets:?} {leftovers:?} {got:?}"));
        if honest.code() != 200 || honest.text() != "ok" {
            report("the honest request fails");
        }
        if !leftovers.is_empty() {
            report("bytes that can be read in two ways");
        }
        if targets.len() > 1 || targets.iter().any(|target| target.contains("evil")) {
            report("two requests");
        }
        if requests
            .iter()
            .flat_map(|request| request.headers.iter().chain(&request.trailers))
            .any(|(name, _)| name.contains("evil"))
        {
            report("an unintended header");
        }
        if refused && !targets.is_empty() {
            report("it is forwarded");
        }
        // Bytes after the first request that are not a request may get an error response of their own.
        if got.iter().filter(|answer| answer.code() < 400).count() > 1 {
            report("two answers");
        }
        if refused && got.iter().any(|answer| !(400..=505).contains(&answer.code())) {
            report("it is not refused");
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn contradicting_lengths_never_become_two_requests() {
    let length = EVIL.len();
    let zero = "0\r\n\r\n";
    let both =
        format!("content-length: {}\r\ntransfer-encoding: chunked\r\n\r\n{zero}{EVIL}", zero.len() + length);
    let short =
        format!("content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n{EVIL}\r\n{zero}");
    let turned =
        format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n\r\n{zero}{EVIL}", zero.len() + length);
    let post = |rest: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{rest}");
    let mut cases = vec![
        ambiguous("length and chunks", &post(&both)),
        ambiguous("a short length and chunks", &post(&short)),
        ambiguous("chunks and length", &post(&turned)),
        refused(
            "two lengths",
            &post(&format!("content-length: 0\r\ncontent-length: {length}\r\n\r\n{EVIL}")),
        ),
        refused(
            "two lengths, turned",
            &post(&format!("content-length: {length}\r\ncontent-length: 0\r\n\r\n{EVIL}")),
        ),
        refused("a list of lengths", &post(&format!("content-length: 0, {length}\r\n\r\n{EVIL}"))),
        refused(
            "chunks in HTTP/1.0",
            &format!("POST / HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{zero}{EVIL}"),
        ),
    ];
    for value in [
        "+0",
        "-1",
        "0x0",
        "0 0",
        "",
        "0;",
        "1e1",
        "99999999999999999999",
        "\u{ff10}",
        "0,",
        "\"0\"",
        "0\u{b}",
    ] {
        cases.push(refused(
            &format!("the length {value:?}"),
            &post(&format!("content-length: {value}\r\n\r\n{EVIL}")),
        ));
    }
    try_all(cases).await;
}

#[tokio::test]
async fn transfer_coding_spellings_are_never_ambiguous() {
    let mut cases = Vec::new();
    let rest = format!("0\r\n\r\n{EVIL}");
    for line in [
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunkedx",
        "transfer-encoding: chunked;q=1",
        "transfer-encoding: \"chunked\"",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: ,chunked",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity",
        "transfer-encoding: identity\r\ntransfer-encoding: chunked",
        "transfer-encoding: \u{b}chunked",
        "transfer-encoding:\r\n chunked",
        "transfer-encoding : chunked",
        " transfer-encoding: chunked",
        "transfer-encoding\t: chunked",
        "transfer_encoding: chunked",
        "Transfer-Encoding: CHUNKED",
        "transfer-encoding: ",
        "x: y\rtransfer-encoding: chunked",
    ] {
        // With a length that covers everything: a server that ignores the coding reads one request.
        let text =
            format!("POST / HTTP/1.1\r\nhost: a\r\n{line}\r\ncontent-length: {}\r\n\r\n{rest}", rest.len());
        cases.push(ambiguous(line, &text));
        // The same without a length.
        let text = format!("POST / HTTP/1.1\r\nhost: a\r\n{line}\r\n\r\n{rest}");
        if !line.eq_ignore_ascii_case("transfer-encoding: chunked") {
            cases.push(ambiguous(line, &text));
        }
    }
    try_all(cases).await;
}

#[tokio::test]
async fn malformed_header_lines_are_refused() {
    // Seen failing on: nginx, which passes on CR CR LF, controls, and names that are not tokens.
    let mut cases = vec![
        refused("bare CR in a value", "GET / HTTP/1.1\r\nhost: a\r\nx-a: b\rx-evil: 1\r\n\r\n"),
        refused("bare CR in a name", "GET / HTTP/1.1\r\nhost: a\r\nx\r-evil: 1\r\n\r\n"),
        refused("CR CR LF", "GET / HTTP/1.1\r\nhost: a\r\r\nx-evil: 1\r\n\r\n"),
        refused("CR in the first line", "GET /\rx HTTP/1.1\r\nhost: a\r\n\r\n"),
        refused("NUL in a value", "GET / HTTP/1.1\r\nhost: a\r\nx-a: b\0c\r\n\r\n"),
        refused("NUL in a name", "GET / HTTP/1.1\r\nhost: a\r\nx\0a: b\r\n\r\n"),
        refused("a control in a value", "GET / HTTP/1.1\r\nhost: a\r\nx-a: b\u{1}c\r\n\r\n"),
        refused("folded", "GET / HTTP/1.1\r\nhost: a\r\nx-a: b\r\n x-evil: 1\r\n\r\n"),
        refused("folded by a tab", "GET / HTTP/1.1\r\nhost: a\r\nx-a: b\r\n\tc\r\n\r\n"),
        refused("folded first", "GET / HTTP/1.1\r\n host: a\r\nhost: a\r\n\r\n"),
        refused("a space before the colon", "GET / HTTP/1.1\r\nhost: a\r\nx-a : b\r\n\r\n"),
        refused("a tab before the colon", "GET / HTTP/1.1\r\nhost: a\r\nx-a\t: b\r\n\r\n"),
        refused("no colon", "GET / HTTP/1.1\r\nhost: a\r\nx-a\r\n\r\n"),
        refused("no name", "GET / HTTP/1.1\r\nhost: a\r\n: b\r\n\r\n"),
        refused("a name in brackets", "GET / HTTP/1.1\r\nhost: a\r\n(x): b\r\n\r\n"),
    ];
    let mut latin = b"GET / HTTP/1.1\r\nhost: a\r\nx\xff: b\r\n\r\n".to_vec();
    cases.push(Case {
        name: "a name that is not ASCII".to_owned(),
        bytes: std::mem::take(&mut latin),
        refused: true,
    });
    try_all(cases).await;
}

/// RFC 9112 allows it, and docs/decisions/010 explains it: requests are rewritten before they are forwarded.
#[tokio::test]
async fn bare_lf_ends_a_line_and_is_not_forwarded() {
    let upstream = Recorder::start().await;
    let gateway = gateway(&upstream).await;
    for text in [
        "GET /x HTTP/1.1\nhost: a\nx-a: b\nx-c: d\n\n",
        "GET /x HTTP/1.1\r\nhost: a\r\nx-a: b\nx-c: d\r\n\r\n",
        "GET /x HTTP/1.1\r\nhost: a\r\nx-a: b\nx-c: d\n\r\n",
        "GET /x HTTP/1.1\r\nhost: a\nx-a: b\nx-c: d\n\n",
    ] {
        let mut client = gateway.connect().await;
        client.send(text).await;
        client.rest().await;
        let (requests, leftovers) = upstream.take();
        assert_eq!(leftovers, Vec::<String>::new(), "{text:?}");
        // One request, or none: never a line that the upstream could read as two, or two as one.
        for request in &requests {
            assert_eq!(
                (request.target(), request.header("x-a"), request.header("x-c")),
                ("/x", Some("b"), Some("d"))
            );
        }
        assert!(requests.len() <= 1, "{requests:?}");
        assert_eq!(gateway.get("/honest").await.text(), "ok");
        upstream.take();
    }
}

#[tokio::test]
async fn malformed_request_line_is_refused() {
    try_all(vec![
        refused("a space in the target", "GET /a b HTTP/1.1\r\nhost: a\r\n\r\n"),
        refused("words after the version", "GET / HTTP/1.1 x\r\nhost: a\r\n\r\n"),
        refused("HTTP/2.0", "GET / HTTP/2.0\r\nhost: a\r\n\r\n"),
        refused("HTTP/1.10", "GET / HTTP/1.10\r\nhost: a\r\n\r\n"),
        refused("http/1.1", "GET / http/1.1\r\nhost: a\r\n\r\n"),
        refused("no version", "GET /\r\nhost: a\r\n\r\n"),
        refused("a method that is not a token", "G@T[] / HTTP/1.1\r\nhost: a\r\n\r\n"),
        refused("no host", "GET / HTTP/1.1\r\n\r\n"),
        refused("two hosts", "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"),
        refused("a host that is a list", "GET / HTTP/1.1\r\nhost: a, b\r\n\r\n"),
        refused("a host with a path", "GET / HTTP/1.1\r\nhost: a/b\r\n\r\n"),
        refused("a host with a user", "GET / HTTP/1.1\r\nhost: u@a\r\n\r\n"),
        refused("CONNECT", "CONNECT a.example:443 HTTP/1.1\r\nhost: a.example:443\r\n\r\n"),
        refused("a target without a slash", "GET evil HTTP/1.1\r\nhost: a\r\n\r\n"),
        ambiguous("another scheme", "GET ftp://a/ HTTP/1.1\r\nhost: a\r\n\r\n"),
    ])
    .await;
}

#[tokio::test]
async fn chunks_are_parsed_strictly_and_rewritten() {
    // Seen failing on: nginx, which accepts any byte in an extension and a bare LF as the end of a line.
    let with = |body: &str| format!("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{body}");
    let mut cases = vec![
        // Extensions are legal, and are removed.
        ambiguous("an extension", &with("3;a=b;c=\"d\"\r\nabc\r\n0\r\n\r\n")),
        refused("a bare LF in an extension", &with(&format!("3;a\nabc\r\n0\r\n\r\n{EVIL}"))),
        refused("a bare CR in an extension", &with(&format!("3;a\rb\r\nabc\r\n0\r\n\r\n{EVIL}"))),
        refused("a chunk that is longer than its size", &with(&format!("3\r\nabcd\r\n0\r\n\r\n{EVIL}"))),
        refused("a chunk that is shorter than its size", &with(&format!("5\r\nabc\r\n0\r\n\r\n{EVIL}"))),
        refused("LF after a chunk", &with(&format!("3\r\nabc\n0\r\n\r\n{EVIL}"))),
        refused("LF after a size", &with(&format!("3\nabc\r\n0\r\n\r\n{EVIL}"))),
        refused("an end without its empty line", &with(&format!("0\r\n{EVIL}"))),
        refused("a trailer without a colon", &with("0\r\nx-evil\r\n\r\n")),
        refused("a folded trailer", &with("0\r\nx-a: b\r\n c\r\n\r\n")),
    ];
    for size in ["FFFFFFFFFFFFFFFFF", "10000000000000003", "-3", "+3", "0x3", " 3", "3g", "", "3_0", "\t3"] {
        cases.push(refused(
            &format!("the size {size:?}"),
            &with(&format!("{size}\r\nabc\r\n0\r\n\r\n{EVIL}")),
        ));
    }
    try_all(cases).await;
}

#[tokio::test]
async fn request_trailers_never_become_control_headers() {
    let upstream = Recorder::start().await;
    let gateway = gateway(&upstream).await;
    let mut client = gateway.connect().await;
    let trailers = "x-fine: 1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\nhost: evil\r\nx-forwarded-for: 203.0.113.66\r\nauthorization: Bearer evil\r\n";
    client
        .send(format!("POST / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n{trailers}\r\n"))
        .await;
    client.rest().await;
    let (requests, leftovers) = upstream.take();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    for request in requests {
        for forbidden in ["content-length", "transfer-encoding", "host", "x-forwarded-for", "authorization"] {
            assert!(!request.trailers.iter().any(|(name, _)| name == forbidden), "{request:?}");
        }
    }
}
