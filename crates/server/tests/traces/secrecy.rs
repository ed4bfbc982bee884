//! Traces contain no client data: every received byte is searched.

use crate::proxy::{Gateway, app};
use crate::receiver::Receiver;
use crate::service::{SAMPLED, ask, end, sending_to};
use hivemind_testkit::hivemind;

/// A mark in all hostile and confidential values.
const MARK: &str = "h0stile";

// Seen failing on: descriptor values, an unknown domain, and unknown keys among the attributes.
#[tokio::test]
async fn caller_values_and_unknown_names_are_never_exported() {
    let receiver = Receiver::start().await;
    let setup = sending_to(&receiver);
    let (code, output) = hivemind(&["keys", "new", "--name", "envoy"]);
    assert_eq!(code, Some(0), "{output}");
    let line = output.lines().find(|line| line.contains(":sha256:")).expect("a line for the file").trim();
    let key = output.split_whitespace().find(|word| word.starts_with("hm_"));
    setup.write("keys", line);
    let key = key.expect("a key").to_owned();
    let server = setup.with("security.api_keys_file", "keys").start().await;
    let authorization = format!("Bearer {MARK}");
    let headers = [
        ("traceparent", SAMPLED),
        ("x-api-key", key.as_str()),
        ("authorization", authorization.as_str()),
        ("cookie", MARK),
        ("baggage", MARK),
        // An invalid value is not exported at all.
        ("tracestate", "NOT=h0stile"),
    ];
    let hostile = [
        ("d", format!("k={MARK}")),
        ("d", format!("k=\u{0}{MARK}\u{7f}'\"<>")),
        ("d", format!("{MARK}\u{1F980}=1")),
        ("d", format!("one={MARK} l={MARK}")),
        (MARK, "k=1".to_owned()),
    ];
    for (domain, descriptors) in &hostile {
        assert_eq!(ask(&server, (domain, descriptors), &headers).await.unwrap(), "OK", "{descriptors}");
    }
    let unknown = [("traceparent", SAMPLED), ("x-api-key", MARK)];
    assert!(ask(&server, ("d", "k=1"), &unknown).await.is_err());
    end(server).await;
    let checks = receiver.named("ratelimit.check");
    assert_eq!(checks.len(), hostile.len());
    assert!(receiver.has(b"ratelimit.check") && !receiver.has(MARK.as_bytes()), "{checks:#?}");
    assert!(!receiver.has(key.as_bytes()));
    assert_eq!(checks[2].attribute("descriptor_keys").as_deref(), Some("other"));
    assert_eq!(checks[4].attribute("domain").as_deref(), Some("other"));
}

// Seen failing on: the method exported as sent.
#[tokio::test]
async fn gateway_client_data_is_never_exported() {
    let (receiver, app) = (Receiver::start().await, app().await);
    let gateway = Gateway::start(&receiver, app, 1_000).await;
    let bearer = format!("Bearer {MARK}");
    let headers = [
        ("traceparent", SAMPLED),
        ("authorization", bearer.as_str()),
        ("cookie", "hivemind_session=h0stile"),
        ("x-api-key-id", MARK),
        ("x-forwarded-for", "203.0.113.77"),
        ("user-agent", MARK),
        ("baggage", MARK),
    ];
    let path = format!("/{MARK}?{MARK}={MARK}");
    assert_eq!(gateway.get(&path, &headers).await.code, 200);
    assert_eq!(gateway.ask("H0STILE", &path, &headers).await.code, 200);
    gateway.end().await;
    let checks = receiver.named("ratelimit.check");
    assert_eq!(checks.len(), 2);
    for word in [MARK, "H0STILE", "203.0.113.77", "127.0.0.1"] {
        assert!(!receiver.has(word.as_bytes()), "{word}: {checks:#?}");
    }
    assert_eq!(checks[1].attribute("http.request.method").as_deref(), Some("_OTHER"));
}
