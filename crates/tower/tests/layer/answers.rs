//! Responses: headers, refusals and gRPC.

use crate::support::{START_SECONDS, Server, api, bucket, builder, clock, hello, limiter};
use bytes::Bytes;
use hivemind_tower::{Headers, PartialLimit};
use http::{Response, StatusCode};
use http_body_util::Empty;
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn admitted_response_has_both_header_families() {
    let server = Server::start(&limiter(api(PartialLimit::new()), &clock())).await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "hello"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=100;w=60"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=99;t=1"#));
    assert_eq!(answer.header("x-ratelimit-limit"), Some("100"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("99"));
    let reset = (START_SECONDS + 1).to_string();
    assert_eq!(answer.header("x-ratelimit-reset"), Some(reset.as_str()));
    assert_eq!(answer.header("retry-after"), None);
}

#[tokio::test]
async fn refusal_is_problem_with_retry_after_and_skips_service() {
    let minutely = PartialLimit::new().requests(6).window(Duration::from_secs(60)).burst(1);
    let server = Server::start(&limiter(api(minutely), &clock())).await;
    assert_eq!(server.get("/").await.status, 200);
    let answer = server.get("/").await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("10"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=6;w=60"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=0;t=10"#));
    assert_eq!(answer.remaining(), 0);
    let problem: Value = serde_json::from_str(&answer.body).unwrap();
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Too Many Requests",
        "status": 429,
        "detail": "Rate limit exceeded. Retry after 10 seconds.",
        "violated-policies": ["api"],
        "limit": 6,
        "remaining": 0,
        "reset": START_SECONDS + 10,
        "retry_after": 10,
    });
    assert_eq!(problem, expected);
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn limit_of_zero_refuses_without_retry_after() {
    let closed = PartialLimit::new().requests(0).algorithm(hivemind_tower::Algorithm::FixedWindow);
    let server = Server::start(&limiter(api(closed), &clock())).await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, None));
    let problem: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(problem["retry_after"], Value::Null);
}

#[tokio::test]
async fn refusal_is_text_if_preferred_or_configured() {
    let server = Server::start(&limiter(api(bucket(1, 1)), &clock())).await;
    server.get("/").await;
    let answer = server.ask("GET /", &[("Accept", "text/plain")]).await;
    assert_eq!(answer.body, "Too Many Requests");
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.header("retry-after"), Some("1"));

    let always = builder(api(bucket(1, 1)), &clock()).text_body().build().unwrap();
    let server = Server::start(&always).await;
    server.get("/").await;
    assert_eq!(server.ask("GET /", &[("Accept", "application/json")]).await.body, "Too Many Requests");
}

#[tokio::test]
async fn custom_refusal_gets_limit_headers_and_retry_after() {
    let own = builder(api(bucket(1, 1)), &clock()).custom_body(|decision| {
        let text = format!("slow down, {}", decision.client().name());
        let mut response = Response::new(Bytes::from(text));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    });
    let server = Server::start(&own.build().unwrap()).await;
    server.get("/").await;
    let answer = server.get("/").await;
    assert_eq!((answer.status, answer.body.as_str()), (503, "slow down, ip:127.0.0.1"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn header_families_can_be_selected_and_retry_after_stays() {
    for (headers, ietf, x) in
        [(Headers::Ietf, true, false), (Headers::X, false, true), (Headers::Off, false, false)]
    {
        let limiter = builder(api(bucket(1, 1)), &clock()).headers(headers).build().unwrap();
        let server = Server::start(&limiter).await;
        for status in [200, 429] {
            let answer = server.get("/").await;
            assert_eq!(answer.status, status);
            assert_eq!(answer.header("ratelimit").is_some(), ietf, "{headers:?}");
            assert_eq!(answer.header("ratelimit-policy").is_some(), ietf, "{headers:?}");
            assert_eq!(answer.header("x-ratelimit-limit").is_some(), x, "{headers:?}");
            assert_eq!(answer.header("retry-after").is_some(), status == 429, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn reset_header_counts_from_now_if_configured() {
    let limiter = builder(api(bucket(1, 30)), &clock()).reset_delta().build().unwrap();
    let server = Server::start(&limiter).await;
    server.get("/").await;
    let answer = server.get("/").await;
    assert_eq!(answer.header("x-ratelimit-reset"), Some("2"));
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=28;t=2"#));
}

/// Fails when the content type alone identifies gRPC.
#[tokio::test]
async fn only_grpc_calls_get_a_grpc_refusal() {
    use http::{Method, Request, Version};
    use tower::{Layer, ServiceExt};
    let limiter = limiter(api(bucket(1, 1)), &clock());
    let service = limiter.layer("api").layer(hello());
    service.clone().oneshot(Request::new(Empty::new())).await.unwrap();
    for (method, version, status) in [
        (Method::POST, Version::HTTP_2, StatusCode::OK),
        (Method::GET, Version::HTTP_2, StatusCode::TOO_MANY_REQUESTS),
        (Method::POST, Version::HTTP_11, StatusCode::TOO_MANY_REQUESTS),
    ] {
        let request = Request::builder().method(method).version(version);
        let request = request.header("content-type", "application/grpc").body(Empty::new()).unwrap();
        let answer = service.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers().contains_key("grpc-status"), status == StatusCode::OK);
    }
}
