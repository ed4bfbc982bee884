//! Metric labels: taken from the rules, limited in number, and never from client values.

use crate::exports::sending;
use crate::receiver::Receiver;
use crate::series::{number, numbers};
use hivemind_testkit::{Setup, get, request, within};
use std::fmt::Write;

/// Hostile client values that try to appear in the metrics.
const HOSTILE: [&str; 6] = [
    "evil-value",
    "evil\"quote",
    "evil\\back",
    "evil\nline} 1\nevil_metric 1",
    "evil{brace}",
    "evil\u{1F600}",
];

// Seen failing on: keys of the first level only.
#[tokio::test]
async fn client_values_never_become_metric_labels() {
    let mut receiver = Receiver::start().await;
    let server = sending(&receiver, "grpc").start().await;
    let mut client = server.client().await;
    for word in HOSTILE {
        for key in ["hot", "ten", "tenant", word] {
            let mut request_with_value =
                request("shop", &format!("{}=x path=y", if key == word { "k" } else { key }));
            if key != "tenant" {
                request_with_value.descriptors[0].entries.truncate(1);
            }
            for entry in &mut request_with_value.descriptors[0].entries {
                word.clone_into(&mut entry.value);
                if key == word {
                    word.clone_into(&mut entry.key);
                }
            }
            for _ in 0..12 {
                within("an answer", client.should_rate_limit(request_with_value.clone())).await.unwrap();
            }
        }
    }
    let all = "ratelimit.requests.total{domain=shop,response_code=OK,descriptor_key=none}";
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let unmatched = (HOSTILE.len() * 12) as f64;
    let came = receiver.until(|message| number(message, all) == Some(unmatched)).await;
    let exported = format!("{:?}", came.message);
    let page = server.metrics().await.body;
    assert!(page.contains("descriptor_key=\"tenant.path\"") && exported.contains("tenant.path"));
    for text in [&page, &exported] {
        assert!(!text.contains("evil"), "{text}");
    }
    // A domain name comes from the proxy's operator; one metric of the reference contains it, once and quoted.
    let mut request_with_value = request("shop", "hot=x");
    "evil\"domain".clone_into(&mut request_with_value.domain);
    within("an answer", client.should_rate_limit(request_with_value)).await.unwrap();
    let other = "ratelimit.requests.total{domain=other,response_code=OK,descriptor_key=other}";
    let came = receiver.until(|message| number(message, other) == Some(1.0)).await;
    assert!(!format!("{:?}", came.message).contains("evil"));
    let page = server.metrics().await.body;
    let lines: Vec<&str> = page.lines().filter(|line| line.contains("evil")).collect();
    assert_eq!(lines, [r#"ratelimit_service_rate_limit_domain_not_found{domain="evil\"domain"} 1"#]);
}

// Seen failing on: an unlimited number of keys.
#[tokio::test]
async fn descriptor_keys_over_a_thousand_are_reported_as_other() {
    let mut rules = "domain: many\ndescriptors:\n".to_owned();
    for number in 0..1_100 {
        writeln!(rules, "- {{key: k{number:04}, rate_limit: {{unit: day, requests_per_unit: 9}}}}").unwrap();
    }
    let mut receiver = Receiver::start().await;
    let server = Setup::rules(&rules)
        .with("observability.otel.metrics.endpoint", &receiver.endpoint())
        .with("observability.otel.metrics.interval", "100ms")
        .start()
        .await;
    let mut client = server.client().await;
    for number in 0..1_100 {
        let request_with_value = request("many", &format!("k{number:04}=v"));
        within("an answer", client.should_rate_limit(request_with_value)).await.unwrap();
    }
    // One of the thousand is for requests without a rule.
    let other = "ratelimit.requests.total{domain=other,response_code=OK,descriptor_key=other}";
    let came = receiver.until(|message| number(message, other) == Some(101.0)).await;
    let exported = numbers(&came.message);
    let named = |name: &str| exported.keys().filter(|key| key.starts_with(name)).count();
    assert_eq!(named("ratelimit.over_limit.total{"), 1_001);
    assert_eq!(named("ratelimit.requests.total{"), 2 * 1_001 + 1);
    assert_eq!(named("ratelimit.counter.value{"), 999);
    let page = server.metrics().await;
    let series = r#"ratelimit_requests_total{domain="other",response_code="OK",descriptor_key="other"}"#;
    assert_eq!(page.metric(series), Some(101));
}

#[tokio::test]
async fn metrics_without_exporter_are_not_counted() {
    let server = Setup::rules(crate::RULES).with("observability.prometheus.enabled", "false").start().await;
    server.ask("shop", "hot=x").await;
    let page = get(server.admin, "/api/v1/top?by=spent").await;
    let page: serde_json::Value = serde_json::from_str(&page.body).unwrap();
    assert_eq!(page["keys"], serde_json::json!([]));
}
