//! Health, reflection and unknown methods on the same connection as calls.

use crate::service::{assert_still_serves, body, served};
use hivemind_testkit::http2::{Frame, HEALTH_CHECK, HEALTH_WATCH, Headers, REFLECTION, framed};
use hivemind_testkit::within;

const UNIMPLEMENTED: u32 = 12;
/// `list_services` with an empty argument.
const LIST_SERVICES: [u8; 2] = [0x3a, 0];

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[tokio::test]
async fn all_services_are_served_interleaved_on_one_connection() {
    let (_server, mut connection) = served().await;
    for left in (0..9).rev() {
        // All four are open at once, and end in another order than they began.
        let call = connection.begin(&Headers::call()).await;
        let health = connection.begin(&Headers::of(HEALTH_CHECK)).await;
        let reflection = connection.begin(&Headers::of(REFLECTION)).await;
        let unknown = connection.begin(&Headers::of("/no.such.Service/Method")).await;
        let frames = [
            Frame::data(reflection, framed(&LIST_SERVICES)).end(),
            Frame::data(health, framed(&[])).end(),
            Frame::data(unknown, framed(&[])).end(),
            Frame::data(call, body("k=x")).end(),
        ];
        connection.send(&frames).await;
        assert_eq!(connection.answer(call).await.summary(), format!("OK 9/DAY, {left} left"));
        let healthy = connection.answer(health).await;
        assert_eq!((healthy.grpc_status(), healthy.payload()), (Some(0), &[8, 1][..]));
        let listed = connection.answer(reflection).await;
        assert_eq!(listed.grpc_status(), Some(0));
        assert!(contains(listed.payload(), "envoy.service.ratelimit.v3.RateLimitService"));
        assert!(contains(listed.payload(), "grpc.health.v1.Health"));
        assert_eq!(connection.answer(unknown).await.grpc_status(), Some(UNIMPLEMENTED));
    }
}

#[tokio::test]
async fn similar_method_paths_are_unimplemented() {
    // Seen failing on: paths compared by their beginning.
    let (_server, mut connection) = served().await;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    for other in [
        "/envoy.service.ratelimit.v3.RateLimitService/shouldratelimit".to_owned(),
        "/envoy.service.ratelimit.v3.RateLimitService/Other".to_owned(),
        "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit".to_owned(),
        format!("{path}/"),
        format!("{path}x"),
        format!("/{path}"),
        path[..path.len() - 1].to_owned(),
        "/".to_owned(),
    ] {
        let answer = connection.call(&Headers::of(&other), &body("k=x")).await;
        assert_eq!(answer.grpc_status(), Some(UNIMPLEMENTED), "{other}: {answer:?}");
    }
    assert_eq!(connection.ask("d", "k=x").await, "OK 9/DAY, 8 left");
}

#[tokio::test]
async fn health_watch_continues_during_a_thousand_calls() {
    let (server, mut connection) = served().await;
    let watch = connection.start(&Headers::of(HEALTH_WATCH), &framed(&[])).await;
    for _ in 0..1_000 {
        assert_still_serves(&mut connection).await;
    }
    assert_eq!(connection.streams[&watch].body, framed(&[8, 1]));
    server.signal("TERM").await;
    let both = [framed(&[8, 1]), framed(&[8, 2])].concat();
    while connection.streams[&watch].body != both {
        within("the last status", connection.read()).await.expect("a frame");
    }
}
