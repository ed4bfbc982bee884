//! Redirects from plain HTTP to HTTPS.

use super::super::redirect::serve;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

/// The status and the `Location` of the response to these bytes.
async fn send(request: &[u8], https_port: u16) -> (String, Option<String>) {
    let (mut client, io) = tokio::io::duplex(1 << 16);
    let served = tokio::spawn(serve(io, https_port));
    client.write_all(request).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    served.await.unwrap();
    let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let location = answer.lines().find_map(|line| line.strip_prefix("location: ")).map(str::to_owned);
    (status, location)
}

#[tokio::test(start_paused = true)]
async fn plain_request_is_redirected_to_same_url_over_https() {
    for (target, host, port, location) in [
        ("GET /", "example.org", 443, "https://example.org/"),
        ("GET /a?b=c%20d", "example.org:80", 443, "https://example.org/a?b=c%20d"),
        ("POST /a", "example.org:8080", 8443, "https://example.org:8443/a"),
        ("GET /", "192.0.2.7", 443, "https://192.0.2.7/"),
        ("GET /", "[2001:db8::1]:80", 443, "https://[2001:db8::1]/"),
        ("GET //evil.example/", "example.org", 443, "https://example.org//evil.example/"),
        ("GET http://other.example/x", "example.org", 443, "https://other.example/x"),
        ("GET http://other.example", "example.org", 443, "https://other.example/"),
        ("GET /", "under_score.example.org", 443, "https://under_score.example.org/"),
    ] {
        let request = format!("{target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let expected = ("308".to_owned(), Some(location.to_owned()));
        assert_eq!(send(request.as_bytes(), port).await, expected, "{target} at {host}");
    }
}

// Fails when the host is not validated, or when the target is appended without a check.
#[tokio::test(start_paused = true)]
async fn invalid_host_or_target_is_rejected() {
    let long = "a".repeat(254);
    for host in [
        "",
        "a@evil.example",
        "evil.example/x",
        "evil.example?x",
        "evil.example#x",
        "evil.example\\x",
        "a b",
        "example.org:80:80",
        "example.org:port",
        "example.org:123456",
        "[::1",
        "[::1]x",
        "[x]",
        "[]",
        "-a.example",
        ".example",
        "a..example",
        "b\u{e4}.example",
        "a%0d%0a.example",
        &long,
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(send(request.as_bytes(), 443).await, ("400".to_owned(), None), "{host}");
    }
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "GET http://u@a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "no request at all\r\n\r\n",
    ] {
        assert_eq!(send(request.as_bytes(), 443).await, ("400".to_owned(), None), "{request}");
    }
    let large = format!("GET / HTTP/1.1\r\nHost: a.example\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(send(large.as_bytes(), 443).await, ("431".to_owned(), None));
}

// Fails when the header timeout has no timer.
#[tokio::test(start_paused = true)]
async fn unfinished_request_times_out() {
    let (mut client, io) = tokio::io::duplex(64);
    let served = tokio::spawn(serve(io, 443));
    client.write_all(b"GET / HT").await.unwrap();
    tokio::time::timeout(Duration::from_secs(11), served).await.expect("an end").unwrap();
}

#[tokio::test]
async fn curl_gets_redirect_with_https_port() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            tokio::spawn(serve(io, 8443));
        }
    });
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "--max-time",
        "20",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{redirect_url}",
        "--data",
        "body",
    ]);
    let curl = curl
        .args(["-H", "Host: example.org"])
        .arg(format!("http://127.0.0.1:{port}/path?q=1"))
        .stdin(Stdio::null())
        .output();
    let output = tokio::time::timeout(Duration::from_secs(30), curl).await.expect("it ends").unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "308 https://example.org:8443/path?q=1");
}
