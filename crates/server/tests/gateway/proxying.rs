//! What goes through, byte by byte: methods, bodies, trailers, and the headers that end at each hop.

use crate::harness::{Echo, Gateway, Nginx, OK, Raw, Setup, request, url};
use serde_json::json;

#[tokio::test]
async fn every_method_reaches_the_upstream_with_its_target_and_body() {
    let upstream = Echo::start().await;
    let gateway = Gateway::before(upstream.address).await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "X-OWN"] {
        let body = if method == "GET" { "" } else { "a body" };
        let answer = gateway.ask(method, "/a%20b/c;d?e=f%2Fg&h", &[("x-own", "1")], body).await;
        let seen = upstream.only();
        assert_eq!(answer.code(), 200, "{method}");
        assert_eq!(seen.method, *method);
        assert_eq!(seen.target, "/a%20b/c;d?e=f%2Fg&h", "as the client wrote it");
        assert_eq!((seen.header("x-own"), &seen.body[..]), (Some("1"), body.as_bytes()), "{method}");
    }
}

#[tokio::test]
async fn headers_keep_their_order_their_values_and_their_number() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client
        .send(request(
            "GET",
            "/",
            &[("x-a", "1"), ("x-b", "  two  words "), ("x-a", "3"), ("x-empty", "")],
            "",
        ))
        .await;
    let mut server = upstream.accept().await;
    let seen = server.request().await.unwrap();
    assert_eq!(seen.start, "GET / HTTP/1.1");
    assert_eq!(
        (seen.all("x-a"), seen.all("x-b"), seen.all("x-empty")),
        (vec!["1", "3"], vec!["two  words"], vec![""])
    );
    server.send("HTTP/1.1 203 Somewhat\r\nset-cookie: a=1\r\nset-cookie: b=2\r\nx-bytes: \u{e9}\r\ncontent-length: 0\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.code(), answer.all("set-cookie")), (203, vec!["a=1", "b=2"]));
    assert_eq!(answer.header("x-bytes"), Some("\u{e9}"));
}

#[tokio::test]
async fn headers_of_one_hop_end_there_both_ways() {
    // Those named in `Connection` are of one hop as well.
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    let headers = [
        ("connection", "keep-alive, X-Secret,x-other , close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic abc"),
        ("te", "trailers, gzip"),
        ("x-secret", "1"),
        ("X-Other", "2"),
        ("x-kept", "3"),
    ];
    client.send(request("GET", "/", &headers, "")).await;
    let mut server = upstream.accept().await;
    let seen = server.request().await.unwrap();
    for gone in ["keep-alive", "proxy-connection", "x-secret", "x-other", "upgrade"] {
        assert_eq!(seen.all(gone), Vec::<&str>::new(), "{gone}");
    }
    assert_eq!(seen.header("x-kept"), Some("3"));
    assert!(seen.all("te").iter().all(|te| *te == "trailers"), "{seen:?}");
    assert!(!seen.all("connection").iter().any(|value| value.contains("ecret")), "{seen:?}");
    server
        .send("HTTP/1.1 200 OK\r\nconnection: x-internal\r\nx-internal: 1\r\nkeep-alive: timeout=9\r\nproxy-authenticate: Basic\r\nx-kept: 2\r\ncontent-length: 0\r\n\r\n")
        .await;
    let answer = client.answer().await;
    for gone in ["x-internal", "keep-alive"] {
        assert_eq!(answer.all(gone), Vec::<&str>::new(), "{gone}");
    }
    assert_eq!(answer.header("x-kept"), Some("2"));
}

#[tokio::test]
async fn a_host_or_a_length_named_in_connection_is_not_taken_away() {
    // Taking `Content-Length` off would leave a body that the upstream takes for a request.
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    let headers = [("connection", "content-length, host, x-forwarded-for, close")];
    client.send(request("POST", "/", &headers, "GET /evil HTTP/1.1\r\n\r\n")).await;
    let answer = tokio::select! {
        // Refusing it is as good.
        answer = client.answer() => answer,
        mut server = upstream.accept() => {
            let seen = server.request().await.unwrap();
            assert_eq!(seen.text(), "GET /evil HTTP/1.1\r\n\r\n");
            assert_eq!(seen.header("host"), Some("app.example"));
            assert_eq!(seen.header("x-forwarded-for"), Some("127.0.0.1"));
            server.send(OK).await;
            client.answer().await
        }
    };
    assert!([200, 400].contains(&answer.code()), "{answer:?}");
}

#[tokio::test]
async fn chunks_and_trailers_go_through_both_ways() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send("POST /t HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nte: trailers\r\ntrailer: x-sum\r\n\r\n").await;
    client.send("3\r\nabc\r\n").await;
    let mut server = upstream.accept().await;
    let head = server.head().await.unwrap();
    assert!(head.is_chunked(), "{head:?}");
    // It does not wait for the end of a body before it passes on the beginning.
    assert_eq!((server.line().await, server.bytes(5).await), ("3".to_owned(), b"abc\r\n".to_vec()));
    client.send("2\r\nde\r\n0\r\nx-sum: 5\r\n\r\n").await;
    assert_eq!((server.line().await, server.bytes(4).await), ("2".to_owned(), b"de\r\n".to_vec()));
    assert_eq!(
        (server.line().await, server.line().await, server.line().await),
        ("0".into(), "x-sum: 5".into(), String::new())
    );

    server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n4\r\nwxyz\r\n").await;
    let head = client.head().await.unwrap();
    assert!(head.is_chunked(), "{head:?}");
    assert_eq!((client.line().await, client.bytes(6).await), ("4".to_owned(), b"wxyz\r\n".to_vec()));
    server.send("0\r\nx-sum: 9\r\n\r\n").await;
    assert_eq!(
        (client.line().await, client.line().await, client.line().await),
        ("0".into(), "x-sum: 9".into(), String::new())
    );
    // The client's connection is as good as before; the upstream's may be another one.
    client.send("GET /again HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut next = tokio::select! {
        next = upstream.accept() => next,
        Some(again) = server.request() => {
            assert_eq!(again.target(), "/again");
            server.send(OK).await;
            assert_eq!(client.answer().await.text(), "ok");
            return;
        }
    };
    assert_eq!(next.request().await.unwrap().target(), "/again");
    next.send(OK).await;
    assert_eq!(client.answer().await.text(), "ok");
}

#[tokio::test]
async fn answers_without_a_body_have_none_and_keep_the_connection() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let (mut client, mut server) = (gateway.connect().await, None);
    for (method, answer) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"),
        ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\n\r\n"),
        ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\n\r\n"),
    ] {
        client.send(format!("{method} /x HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        if server.is_none() {
            server = Some(upstream.accept().await);
        }
        let server = server.as_mut().unwrap();
        assert_eq!(server.request().await.unwrap().method(), method);
        server.send(answer).await;
        let got = client.head().await.unwrap();
        assert_eq!(got.start.split(' ').nth(1), answer.split(' ').nth(1), "{answer}");
        if method == "HEAD" {
            assert_eq!(got.header("content-length"), Some("1000"), "what it would be for GET");
        }
    }
    client.send("GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let mut server = server.unwrap();
    assert_eq!(server.request().await.unwrap().target(), "/last");
    server.send(OK).await;
    assert_eq!(client.answer().await.text(), "ok", "nothing of the answers before is left on the connection");
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_whole_and_one_that_was_cut_is_not() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send(request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 200 OK\r\n\r\nuntil the end").await;
    drop(server);
    assert_eq!(client.answer().await.text(), "until the end");

    let mut client = gateway.connect().await;
    client.send("GET /cut HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
    drop(server);
    let head = client.head().await.unwrap();
    assert_eq!(head.length(), Some(10));
    // Closed before its length: the client knows that it is not all.
    assert_eq!(client.rest().await, b"half");
}

#[tokio::test]
async fn requests_in_a_row_are_answered_in_order_on_one_connection() {
    let upstream = Echo::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    let post = |n| format!("POST /{n} HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc");
    let pipeline = (0..20).map(post).collect::<Vec<_>>().concat();
    client.send(pipeline).await;
    for n in 0..20 {
        assert_eq!(client.answer().await.text(), format!("POST /{n} abc"));
    }
    assert_eq!(upstream.take().len(), 20);
}

#[tokio::test]
async fn nginx_is_a_good_upstream() {
    let nginx = Nginx::start(
        "server { listen 127.0.0.1:PORT0; location / { return 200 \"$request_method $uri $http_x_forwarded_for\"; }
         location /big { alias big; } }",
    )
    .await;
    std::fs::write(nginx.path().join("big"), vec![b'x'; 3_000_000]).unwrap();
    let gateway = Gateway::before(nginx.listen[0]).await;
    assert_eq!(gateway.get("/hello").await.text(), "GET /hello 127.0.0.1");
    let big = gateway.get("/big").await;
    assert_eq!((big.code(), big.body.len()), (200, 3_000_000), "{:?}", big.headers);
    let part = gateway.ask("GET", "/big", &[("range", "bytes=10-19")], "").await;
    assert_eq!(
        (part.code(), part.header("content-range"), part.body.len()),
        (206, Some("bytes 10-19/3000000"), 10)
    );
}

#[tokio::test]
async fn an_http_1_0_client_gets_an_answer_that_it_understands() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send("GET /old HTTP/1.0\r\nhost: a\r\n\r\n").await;
    let mut server = upstream.accept().await;
    assert_eq!(server.request().await.unwrap().start, "GET /old HTTP/1.1");
    server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").await;
    let answer = client.answer().await;
    // It knows no chunks.
    assert!(!answer.is_chunked(), "{answer:?}");
    assert_eq!(answer.text(), "abc");
    client.closed().await;
}

#[tokio::test]
async fn the_answers_of_the_gateway_itself_are_problems() {
    let gateway = Gateway::with(&json!({"services": [
        {"id": "app", "host": "app.example", "path_prefix": "/app", "upstream": format!("http://{}", Raw::nobody().await)},
    ]}))
    .await;
    for (target, code) in [("/other", 404), ("/app", 502)] {
        let answer = gateway.get(target).await;
        let problem = answer.problem();
        assert_eq!(answer.code(), code, "{answer:?}");
        assert_eq!(problem["status"], code);
        assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()), "{problem}");
        let text = problem.to_string();
        assert!(!text.contains("127.0.0.1"), "who the upstream is is nobody's business: {text}");
    }
}

#[tokio::test]
async fn there_are_as_many_threads_to_serve_as_asked_for() {
    let upstream = Echo::start().await;
    for workers in [1, 3] {
        let setup = Setup::new(&json!({"services": [{"id": "app", "upstream": url(upstream.address)}]}));
        let gateway = setup.with(&json!({"server": {"workers": workers}})).start().await;
        assert_eq!(gateway.get("/").await.code(), 200);
        // Linux shows each thread of a process as a folder, with its name in it.
        let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap();
        let name = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let names: Vec<_> = threads.map(|thread| name(thread.unwrap().path())).collect();
        let serving = names.iter().filter(|name| name.starts_with("gateway-")).count();
        assert_eq!(serving, workers, "{names:?}");
    }
}
