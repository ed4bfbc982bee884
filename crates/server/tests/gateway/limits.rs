//! Limits of the gateway: who is limited by what, and the headers and bodies of the responses.

use crate::harness::{Echo, Gateway, Message, Setup, run, url};
use serde_json::{Value, json};

/// So slow that nothing is refilled during a test.
fn limit(burst: u32) -> Value {
    json!({"requests": burst, "window": "24h", "burst": burst})
}

async fn gateway(upstream: &Echo, service: Value, gateway: Value) -> Gateway {
    let mut settings = json!({"services": [{"id": "app", "upstream": url(upstream.address)}]});
    for (key, value) in service.as_object().unwrap() {
        settings["services"][0][key] = value.clone();
    }
    for (key, value) in gateway.as_object().unwrap() {
        settings[key] = value.clone();
    }
    Gateway::with(&settings).await
}

fn codes(answers: &[Message]) -> Vec<u16> {
    answers.iter().map(Message::code).collect()
}

async fn several(gateway: &Gateway, count: usize, target: &str, headers: &[(&str, &str)]) -> Vec<u16> {
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(gateway.ask("GET", target, headers, "").await);
    }
    codes(&answers)
}

#[tokio::test]
async fn responses_have_limit_headers_and_refusal_is_a_problem() {
    let upstream = Echo::start().await;
    let gateway = gateway(&upstream, json!({"limits": limit(2)}), json!({})).await;
    for left in ["1", "0"] {
        let answer = gateway.get("/").await;
        assert_eq!(
            (answer.code(), answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")),
            (200, Some("2"), Some(left))
        );
        assert!(answer.header("ratelimit-policy").unwrap().contains("q=2;w=86400"), "{answer:?}");
        assert!(answer.header("ratelimit").unwrap().contains(&format!("r={left}")), "{answer:?}");
        assert!(answer.header("x-ratelimit-reset").is_some());
    }
    let refused = gateway.get("/").await;
    let problem = refused.problem();
    assert_eq!(
        (refused.code(), refused.header("x-ratelimit-remaining"), refused.header("cache-control")),
        (429, Some("0"), Some("no-store"))
    );
    let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=43_200).contains(&retry), "{retry}");
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["retry_after"], retry);
    assert_eq!(upstream.take().len(), 2, "refused requests do not reach the upstream");
}

#[tokio::test]
async fn upstream_limit_headers_are_replaced_by_the_gateways() {
    // Both have limit headers: the client gets each name once.
    let upstream = crate::harness::Raw::start().await;
    let gateway = Gateway::with(
        &json!({"services": [{"id": "app", "upstream": url(upstream.address), "limits": limit(9)}]}),
    )
    .await;
    let mut client = gateway.connect().await;
    client.send(crate::harness::request("GET", "/", &[], "")).await;
    let mut server = upstream.accept().await;
    server.request().await.unwrap();
    server.send("HTTP/1.1 200 OK\r\nx-ratelimit-limit: 777\r\nx-ratelimit-remaining: 776\r\ncontent-length: 0\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!(answer.all("x-ratelimit-limit").len(), 1, "{answer:?}");
}

#[tokio::test]
async fn endpoint_service_and_client_have_separate_buckets() {
    let (upstream, other) = (Echo::start().await, Echo::start().await);
    let endpoint =
        json!({"id": "export", "path": "/users/{id}/export", "methods": ["POST"], "limits": limit(1)});
    let gateway = Gateway::with(&json!({"services": [
        {"id": "users", "path_prefix": "/users", "upstream": url(upstream.address), "limits": limit(3), "endpoints": [endpoint]},
        {"id": "other", "path_prefix": "/other", "upstream": url(other.address), "limits": limit(1)},
    ]}))
    .await;
    let post = async |target: &'static str| gateway.ask("POST", target, &[], "").await.code();
    assert_eq!(post("/users/1/export").await, 200);
    assert_eq!(post("/users/2/export").await, 429, "one bucket for the endpoint, whichever user");
    // Another method and another path use the service's bucket.
    assert_eq!(several(&gateway, 4, "/users/1/export", &[]).await, [200, 200, 200, 429]);
    assert_eq!(several(&gateway, 2, "/other", &[]).await, [200, 429]);
    for (client, code) in [("127.0.0.2", 200), ("127.0.0.2", 429), ("127.0.0.3", 200)] {
        assert_eq!(gateway.get_from(client, "/other", &[]).await.code(), code, "{client}");
    }
}

#[tokio::test]
async fn clients_are_identified_by_credentials_under_one_guard() {
    let upstream = Echo::start().await;
    let platform = json!({"requests": 2, "window": "24h", "burst": 2, "ip_guard": limit(5)});
    let gateway = gateway(&upstream, json!({}), json!({"platform": platform})).await;
    let mut codes = Vec::new();
    for header in
        [("x-api-key-id", "one"), ("authorization", "Bearer two"), ("cookie", "hivemind_session=three")]
    {
        codes.extend(several(&gateway, 3, "/", &[header]).await);
    }
    // Two each, and the sixth of this address is over its guard whatever its name.
    assert_eq!(codes, [200, 200, 429, 200, 200, 429, 200, 429, 429]);
    assert_eq!(upstream.take().len(), 5);
}

#[tokio::test]
async fn global_scope_shares_one_bucket_between_services() {
    let upstream = Echo::start().await;
    let services = ["/a", "/b"]
        .map(|prefix| json!({"id": &prefix[1..], "path_prefix": prefix, "upstream": url(upstream.address)}));
    for (scope, expected) in [("global", [200, 200, 429, 429]), ("service", [200, 200, 200, 200])] {
        let platform = json!({"requests": 2, "window": "24h", "burst": 2, "scope": scope});
        let gateway = Gateway::with(&json!({"platform": platform, "services": services})).await;
        let mut codes = several(&gateway, 2, "/a", &[]).await;
        codes.extend(several(&gateway, 2, "/b", &[]).await);
        assert_eq!(codes, expected, "{scope}");
    }
}

#[tokio::test]
async fn dry_run_passes_requests_over_the_limit() {
    let upstream = Echo::start().await;
    let mut limits = limit(1);
    limits["dry_run"] = json!(true);
    let gateway = gateway(&upstream, json!({"limits": limits}), json!({})).await;
    assert_eq!(several(&gateway, 3, "/", &[]).await, [200, 200, 200]);
    assert_eq!(upstream.take().len(), 3);
}

#[tokio::test]
async fn delay_holds_back_requests_as_nginx_does() {
    let upstream = Echo::start().await;
    // Ten per second: three at once, of which the third is delayed; the fourth is refused.
    let limits = json!({"requests": 10, "window": "1s", "burst": 3, "mode": "delay", "delay_after": 1});
    let gateway = gateway(&upstream, json!({"limits": limits}), json!({})).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut wire = gateway.connect().await;
        wire.send(crate::harness::request("GET", "/", &[], "")).await;
        clients.push(wire);
    }
    let mut codes = Vec::new();
    for mut client in clients {
        codes.push(client.answer().await.code());
    }
    codes.sort_unstable();
    // On a slow machine one may have been refilled; a request that can wait must not be refused.
    assert!(codes == [200, 200, 200, 429] || codes == [200; 4], "{codes:?}");
}

#[tokio::test]
async fn disabled_platform_limits_nothing() {
    let upstream = Echo::start().await;
    let platform = json!({"enabled": false, "requests": 1, "window": "24h", "burst": 1});
    let gateway = gateway(&upstream, json!({}), json!({"platform": platform})).await;
    assert_eq!(several(&gateway, 4, "/", &[]).await, [200; 4]);
}

#[tokio::test]
async fn limit_headers_and_refusal_body_follow_configuration() {
    let upstream = Echo::start().await;
    for (headers, ietf, x) in
        [("ietf", true, false), ("x", false, true), ("both", true, true), ("off", false, false)]
    {
        let gateway =
            gateway(&upstream, json!({"limits": limit(1)}), json!({"headers": headers, "body": "text"}))
                .await;
        for code in [200, 429] {
            let answer = gateway.get("/").await;
            assert_eq!(answer.code(), code);
            assert_eq!(answer.header("ratelimit").is_some(), ietf, "{headers}: {answer:?}");
            assert_eq!(answer.header("x-ratelimit-remaining").is_some(), x, "{headers}: {answer:?}");
            assert!(code == 200 || answer.text().contains("Too Many Requests"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn refusal_is_logged_in_fail2ban_format() {
    let upstream = Echo::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refusals.log");
    let gateway = gateway(&upstream, json!({"limits": limit(1)}), json!({"refusal_log": file})).await;
    assert_eq!(several(&gateway, 2, "/login?x=1", &[]).await, [200, 429]);
    let read = async {
        loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if text.ends_with('\n') {
                break text;
            }
            tokio::task::yield_now().await;
        }
    };
    let text = hivemind_testkit::within("the line", read).await;
    assert!(text.contains(" RATE_LIMIT client_ip=127.0.0.1 host=app.example path=/login"), "{text}");
    assert!(text.trim_end().ends_with("status=429"), "{text}");
}

#[tokio::test]
async fn gateway_command_protects_app_without_configuration_file() {
    let upstream = Echo::start().await;
    let url = url(upstream.address);
    let setup = Setup::command(&[
        "gateway",
        "--upstream",
        &url,
        "--limit",
        "1/h",
        "--burst",
        "3",
        "--listen",
        "127.0.0.1:0",
    ]);
    let gateway = setup.start().await;
    assert_eq!(several(&gateway, 4, "/", &[]).await, [200, 200, 200, 429]);
    assert_eq!(upstream.take().len(), 3);
    let help = run(env!("CARGO_BIN_EXE_hivemind"), &["gateway", "--help"]).await;
    assert!(help.contains("nginx"), "help explains how burst differs from nginx's: {help}");
}

// Seen failing on: methods in any case passed on, each past the limit of the upper-case method.
#[tokio::test]
async fn lowercase_method_is_rejected_and_does_not_bypass_limit() {
    let upstream = Echo::start().await;
    let endpoint = json!({"id": "login", "path": "/login", "methods": ["POST"], "limits": limit(1)});
    let gateway = gateway(&upstream, json!({"endpoints": [endpoint]}), json!({})).await;
    assert_eq!(gateway.ask("POST", "/login", &[], "").await.code(), 200);
    assert_eq!(gateway.ask("POST", "/login", &[], "").await.code(), 429);
    upstream.take();
    for method in ["post", "Post", "POSt"] {
        let answer = gateway.ask(method, "/login", &[], "").await;
        assert_eq!((answer.code(), answer.problem()["status"].as_u64()), (400, Some(400)), "{method}");
    }
    assert!(upstream.take().is_empty());
}
