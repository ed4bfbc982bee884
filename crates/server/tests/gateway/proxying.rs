//! Transparent proxying: methods, bodies, trailers, and hop-by-hop headers.

use crate::harness::{Echo, Gateway, Nginx, OK, Raw, Setup, request, url};
use serde_json::json;

#[tokio::test]
async fn every_method_is_forwarded_with_target_and_body() {
    let upstream = Echo::start().await;
    let gateway = Gateway::before(upstream.address).await;
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "X-OWN"] {
        let body = if method == "GET" { "" } else { "a body" };
        let answer = gateway.ask(method, "/a%20b/c;d?e=f%2Fg&h", &[("x-own", "1")], body).await;
        let received = upstream.only();
        assert_eq!(answer.code(), 200, "{method}");
        assert_eq!(received.method, *method);
        assert_eq!(received.target, "/a%20b/c;d?e=f%2Fg&h", "as the client wrote it");
        assert_eq!((received.header("x-own"), &received.body[..]), (Some("1"), body.as_bytes()), "{method}");
    }
}

#[tokio::test]
async fn header_order_values_and_repetition_are_kept() {
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
    let received = server.request().await.unwrap();
    assert_eq!(received.start, "GET / HTTP/1.1");
    assert_eq!(
        (received.all("x-a"), received.all("x-b"), received.all("x-empty")),
        (vec!["1", "3"], vec!["two  words"], vec![""])
    );
    server.send("HTTP/1.1 203 Somewhat\r\nset-cookie: a=1\r\nset-cookie: b=2\r\nx-bytes: \u{e9}\r\ncontent-length: 0\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!((answer.code(), answer.all("set-cookie")), (203, vec!["a=1", "b=2"]));
    assert_eq!(answer.header("x-bytes"), Some("\u{e9}"));
}

#[tokio::test]
async fn hop_by_hop_headers_are_removed_in_both_directions() {
    // Headers named in `Connection` are hop-by-hop too.
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
    let received = server.request().await.unwrap();
    for gone in ["keep-alive", "proxy-connection", "x-secret", "x-other", "upgrade"] {
        assert_eq!(received.all(gone), Vec::<&str>::new(), "{gone}");
    }
    assert_eq!(received.header("x-kept"), Some("3"));
    assert!(received.all("te").iter().all(|te| *te == "trailers"), "{received:?}");
    assert!(!received.all("connection").iter().any(|value| value.contains("ecret")), "{received:?}");
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
async fn host_and_length_named_in_connection_are_kept() {
    // Without `Content-Length`, the upstream would take the body for a request.
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    let headers = [("connection", "content-length, host, x-forwarded-for, close")];
    client.send(request("POST", "/", &headers, "GET /evil HTTP/1.1\r\n\r\n")).await;
    let answer = tokio::select! {
        // Refusing the request is also correct.
        answer = client.answer() => answer,
        mut server = upstream.accept() => {
            let received = server.request().await.unwrap();
            assert_eq!(received.text(), "GET /evil HTTP/1.1\r\n\r\n");
            assert_eq!(received.header("host"), Some("app.example"));
            assert_eq!(received.header("x-forwarded-for"), Some("127.0.0.1"));
            server.send(OK).await;
            client.answer().await
        }
    };
    assert!([200, 400].contains(&answer.code()), "{answer:?}");
}

#[tokio::test]
async fn chunks_and_trailers_pass_in_both_directions() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send("POST /t HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\nte: trailers\r\ntrailer: x-sum\r\n\r\n").await;
    client.send("3\r\nabc\r\n").await;
    let mut server = upstream.accept().await;
    let head = server.head().await.unwrap();
    assert!(head.is_chunked(), "{head:?}");
    // The beginning of a body is passed on before its end has arrived.
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
    // The client's connection is still usable; the upstream's may be another one.
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
async fn bodiless_responses_keep_the_connection_open() {
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
            assert_eq!(got.header("content-length"), Some("1000"), "the length that GET would have");
        }
    }
    client.send("GET /last HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let mut server = server.unwrap();
    assert_eq!(server.request().await.unwrap().target(), "/last");
    server.send(OK).await;
    assert_eq!(
        client.answer().await.text(),
        "ok",
        "no bytes of earlier responses are left on the connection"
    );
}

#[tokio::test]
async fn close_delimited_response_is_whole_and_cut_one_is_not() {
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
    // Closed before its length: the client can detect the truncation.
    assert_eq!(client.rest().await, b"half");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
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
async fn nginx_upstream_serves_small_and_large_responses() {
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
async fn http10_client_gets_response_without_chunks() {
    let upstream = Raw::start().await;
    let gateway = Gateway::before(upstream.address).await;
    let mut client = gateway.connect().await;
    client.send("GET /old HTTP/1.0\r\nhost: a\r\n\r\n").await;
    let mut server = upstream.accept().await;
    assert_eq!(server.request().await.unwrap().start, "GET /old HTTP/1.1");
    server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").await;
    let answer = client.answer().await;
    // HTTP/1.0 has no chunked coding.
    assert!(!answer.is_chunked(), "{answer:?}");
    assert_eq!(answer.text(), "abc");
    client.closed().await;
}

#[tokio::test]
async fn gateway_errors_are_problem_documents() {
    let gateway = Gateway::with(&json!({"services": [
        {"id": "app", "host": "app.example", "path_prefix": "/app", "upstream": format!("http://{}", Raw::unused_address().await)},
    ]}))
    .await;
    for (target, code) in [("/other", 404), ("/app", 502)] {
        let answer = gateway.get(target).await;
        let problem = answer.problem();
        assert_eq!(answer.code(), code, "{answer:?}");
        assert_eq!(problem["status"], code);
        assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()), "{problem}");
        let text = problem.to_string();
        assert!(!text.contains("127.0.0.1"), "the upstream's address is not disclosed: {text}");
    }
}

#[tokio::test]
async fn worker_thread_count_follows_configuration() {
    let upstream = Echo::start().await;
    for workers in [1, 3] {
        let setup = Setup::new(&json!({"services": [{"id": "app", "upstream": url(upstream.address)}]}));
        let gateway = setup.with(&json!({"server": {"workers": workers}})).start().await;
        assert_eq!(gateway.get("/").await.code(), 200);
        // Linux lists the threads of a process as folders that contain their names.
        let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.id())).unwrap();
        let name = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let names: Vec<_> = threads.map(|thread| name(thread.unwrap().path())).collect();
        let serving = names.iter().filter(|name| name.starts_with("gateway-")).count();
        assert_eq!(serving, workers, "{names:?}");
    }
}
