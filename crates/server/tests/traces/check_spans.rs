//! Spans of rate limit checks.

use crate::receiver::{ReceivedSpan, Receiver, below};
use crate::service::{SAMPLED, SPAN, TRACE, ask, end, sending_to};
use hivemind_testkit::{exchange, within};
use tokio::net::TcpStream;

/// Asserts the spans of a check with two keys.
async fn assert_check_spans(protocol: &str) {
    let receiver = Receiver::start().await;
    let server = sending_to(&receiver).with("observability.otel.tracing.protocol", protocol).start().await;
    let headers = [("traceparent", SAMPLED), ("tracestate", "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7")];
    assert_eq!(ask(&server, ("d", "k=pair l=1"), &headers).await.unwrap(), "OK");
    end(server).await;
    let all = receiver.spans();
    let checks = receiver.named("ratelimit.check");
    let [check] = &checks[..] else { panic!("{all:#?}") };
    assert_eq!((check.trace().as_str(), check.parent().as_str()), (TRACE, SPAN));
    assert_eq!(check.span.trace_state, "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7");
    assert_eq!((check.span.kind, check.service.as_str(), check.status()), (2, "hivemind", 0));
    for (key, value) in [
        ("domain", "d"),
        ("descriptor_keys", "k l"),
        ("response_code", "OK"),
        ("hit_count", "1"),
        ("hivemind.rate_limit.limited", "false"),
        ("hivemind.rate_limit.remaining", "9"),
        ("rpc.system", "grpc"),
        ("rpc.method", "ShouldRateLimit"),
        ("rpc.grpc.status_code", "0"),
    ] {
        assert_eq!(check.attribute(key).as_deref(), Some(value), "{key}");
    }
    assert_eq!(check.attribute("hivemind.rate_limit.retry_after"), None);
    assert_eq!(below(&all, check), ["ratelimit.state.read", "ratelimit.state.write"]);
    for part in all.iter().filter(|of| of.span.name.starts_with("ratelimit.state.")) {
        let (inner, outer) = (&part.span, &check.span);
        assert!(outer.start_time_unix_nano <= inner.start_time_unix_nano, "{all:#?}");
        assert!(inner.start_time_unix_nano <= inner.end_time_unix_nano, "{all:#?}");
        assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano, "{all:#?}");
    }
}

// Seen failing on: a check without its parent, and child spans without theirs.
#[tokio::test]
async fn check_span_is_below_its_caller_and_above_its_parts() {
    assert_check_spans("grpc").await;
}

// Seen failing on: a check without its parent.
#[tokio::test]
async fn check_spans_are_equal_over_otlp_http() {
    assert_check_spans("http").await;
}

// Seen failing on: the headers of `/json` ignored.
#[tokio::test]
async fn json_check_span_has_http_status() {
    let receiver = Receiver::start().await;
    let server = sending_to(&receiver).start().await;
    let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"one","value":"a"}]}]}"#;
    let path = format!("/json HTTP/1.1\r\ntraceparent: {SAMPLED}\r\nx-rest:");
    for code in [200, 429] {
        let connection = TcpStream::connect(server.admin).await.unwrap();
        let page = within("an answer", exchange(connection, "POST", &path, body)).await;
        assert_eq!(page.code, code, "{}", page.body);
    }
    end(server).await;
    let checks = receiver.named("ratelimit.check");
    let value = |check: &ReceivedSpan, key: &str| check.attribute(key).unwrap_or_default();
    let codes: Vec<_> = checks
        .iter()
        .map(|of| (value(of, "http.response.status_code"), value(of, "response_code"), of.status()))
        .collect();
    let expected = [("200", "OK", 0), ("429", "OVER_LIMIT", 0)];
    assert_eq!(codes, expected.map(|(status, code, of)| (status.to_owned(), code.to_owned(), of)));
    for check in &checks {
        assert_eq!((check.trace().as_str(), check.parent().as_str(), check.span.kind), (TRACE, SPAN, 2));
        assert_eq!(value(check, "http.route"), "/json");
        assert_eq!(value(check, "http.request.method"), "POST");
    }
}

/// The span statuses of a check that passes and of one that is refused.
async fn statuses(key: Option<&str>) -> Vec<i32> {
    let receiver = Receiver::start().await;
    let mut setup = sending_to(&receiver);
    if let Some(status) = key {
        setup = setup.with("observability.otel.tracing.span_status_on_limit", status);
    }
    let server = setup.start().await;
    assert_eq!(ask(&server, ("d", "one=a"), &[]).await.unwrap(), "OK");
    assert_eq!(ask(&server, ("d", "one=a"), &[]).await.unwrap(), "OVER");
    end(server).await;
    let checks = receiver.named("ratelimit.check");
    let refused = checks.last().expect("a check");
    assert_eq!(refused.attribute("hivemind.rate_limit.limited").as_deref(), Some("true"));
    assert_eq!(refused.attribute("hivemind.rate_limit.remaining").as_deref(), Some("0"));
    let wait: u64 = refused.attribute("hivemind.rate_limit.retry_after").expect("a wait").parse().unwrap();
    assert!((1..=366 * 86_400).contains(&wait), "{wait}");
    checks.iter().map(ReceivedSpan::status).collect()
}

// Seen failing on: refusals as errors; `ok` ignored.
#[tokio::test]
async fn refusal_status_is_unset_or_ok_as_configured() {
    assert_eq!(statuses(None).await, [0, 0]);
    assert_eq!(statuses(Some("unset")).await, [0, 0]);
    assert_eq!(statuses(Some("ok")).await, [0, 1]);
}

// Seen failing on: every failed call as an error.
#[tokio::test]
async fn caller_errors_leave_status_unset_unreadable_ones_fail() {
    let receiver = Receiver::start().await;
    let server = sending_to(&receiver).start().await;
    assert_eq!(ask(&server, ("", "k=1"), &[]).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    let mut client = tonic::client::Grpc::new(server.channel().await);
    client.ready().await.unwrap();
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let codec = tonic_prost::ProstCodec::<Vec<u8>, Vec<u8>>::default();
    let garbage = tonic::Request::new(vec![0xff; 9]);
    let answer = within("an answer", client.unary(garbage, path.parse().unwrap(), codec)).await;
    assert_eq!(answer.unwrap_err().code(), tonic::Code::Internal);
    end(server).await;
    let outcomes: Vec<_> = receiver.named("ratelimit.check");
    let outcomes: Vec<_> =
        outcomes.iter().map(|of| (of.attribute("rpc.grpc.status_code"), of.status())).collect();
    assert_eq!(outcomes, [(Some("3".to_owned()), 0), (Some("13".to_owned()), 2)]);
}

// Seen failing on: a span of a caller without a key.
#[tokio::test]
async fn unauthenticated_call_has_no_span() {
    let receiver = Receiver::start().await;
    let setup = sending_to(&receiver);
    setup.write("keys", "");
    let server = setup.with("security.api_keys_file", "keys").start().await;
    let refused = ask(&server, ("d", "k=1"), &[("traceparent", SAMPLED)]).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::Unauthenticated);
    end(server).await;
    assert_eq!(receiver.messages(), 0);
}
