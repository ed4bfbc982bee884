//! The decision log.

use crate::{RULES, line};
use hivemind_testkit::app::app;
use hivemind_testkit::authority::put;
use hivemind_testkit::client::curl;
use hivemind_testkit::{Server, Setup, hivemind, post};
use serde_json::Value;

/// The fields of the next decision in the log.
async fn next_decision(server: &mut Server) -> Value {
    line(&server.log.next("\"decided\"").await)["fields"].clone()
}

fn with(keys: &[(&str, &str)]) -> Setup {
    keys.iter()
        .fold(Setup::rules(RULES), |setup, (key, value)| setup.with(&format!("observability.{key}"), value))
}

/// The number of decision lines of a service, and the number of omitted lines that it reports.
async fn line_counts(mut server: Server) -> (u64, u64) {
    server.signal("TERM").await;
    server.ended().await;
    let log = server.log.rest().await;
    let fields = log.lines().map(|text| line(text)["fields"].clone());
    let count = |(lines, left_out), of: Value| match of["left_out"].as_u64() {
        Some(more) => (lines, left_out + more),
        None => (lines + u64::from(of["message"] == "decided"), left_out),
    };
    fields.fold((0, 0), count)
}

// Seen failing on: values in the line.
#[tokio::test]
async fn decision_line_has_keys_code_and_limit_but_no_values() {
    let mut server = with(&[("log_decisions", "true")]).start().await;
    server.ask("d", "many=a-person | k=alice@example.com").await;
    let decision = next_decision(&mut server).await;
    for (field, expected) in [
        ("domain", Value::from("d")),
        ("descriptors", "many | k".into()),
        ("code", "OK".into()),
        ("hits", 1.into()),
        ("limit_name", "two".into()),
        ("limit", "2 in each window of 86400s".into()),
        ("remaining", 1.into()),
    ] {
        assert_eq!(decision[field], expected, "{field} in {decision}");
    }
    assert!(decision["micros"].as_u64().is_some_and(|micros| micros < 20_000_000), "{decision}");
    let body = r#"{"domain":"d","hitsAddend":7,"descriptors":[{"entries":[{"key":"k","value":"alice@example.com"}]}]}"#;
    assert_eq!(post(server.admin, "/json", body).await.code, 429);
    let decision = next_decision(&mut server).await;
    assert_eq!(
        (&decision["code"], &decision["hits"], &decision["remaining"]),
        (&"OVER_LIMIT".into(), &7.into(), &0.into())
    );
    server.ask("d", "outer=a-person path=/x").await;
    assert_eq!(next_decision(&mut server).await["descriptors"], "outer,path");
    server.ask("nowhere", "k=a-person").await;
    let decision = next_decision(&mut server).await;
    assert_eq!((&decision["code"], decision.get("limit")), (&"OK".into(), None), "{decision}");
    server.signal("TERM").await;
    server.ended().await;
    let log = server.log.rest().await;
    assert!(!log.contains("alice") && !log.contains("a-person"), "{log}");
}

// Seen failing on: all values logged if some are configured.
#[tokio::test]
async fn values_are_logged_for_configured_keys_except_secrets() {
    let mut server = with(&[("log_decisions", "true"), ("log_decisions_values", "path,many")]).start().await;
    server.ask("d", "outer=a-person path=/login").await;
    assert_eq!(next_decision(&mut server).await["descriptors"], "outer,path=/login");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hivemind.yaml");
    for secret in
        ["Authorization", "cookie", "x-api-key", "api_key", "access_token", "session_id", "password"]
    {
        put(&file, &format!("observability: {{log_decisions_values: [path, {secret}]}}\n"));
        let (code, output) = hivemind(&["check", file.to_str().unwrap()]);
        assert!(code == Some(1) && output.contains("whose values are no secret"), "{secret}: {output}");
    }
}

// Seen failing on: `denied` treated as all decisions.
#[tokio::test]
async fn decision_log_is_off_by_default_and_denied_logs_refusals() {
    let server = Setup::rules(RULES).start().await;
    server.ask("d", "k=x").await;
    assert_eq!(line_counts(server).await, (0, 0));
    // Independent of the level of other lines.
    let server = with(&[("log_decisions", "denied"), ("log_level", "error")]).start().await;
    for _ in 0..5 {
        server.ask("d", "k=x").await;
    }
    assert_eq!(line_counts(server).await, (3, 0));
}

// Seen failing on: every decision sampled.
#[tokio::test]
async fn sample_rate_logs_a_share_of_decisions() {
    for (share, range) in [("0", 0..=0), ("0.25", 60..=140), ("1", 400..=400)] {
        let server = with(&[
            ("log_decisions", "true"),
            ("log_decisions_sample_rate", share),
            ("log_decisions_per_second", "100000"),
        ]);
        let server = server.start().await;
        let mut client = server.client().await;
        for _ in 0..400 {
            client.should_rate_limit(hivemind_testkit::request("d", "many=x")).await.unwrap();
        }
        let (lines, left_out) = line_counts(server).await;
        assert!(range.contains(&lines) && left_out == 0, "{lines} of 400 for {share}");
    }
}

// Seen failing on: no rate limit.
#[tokio::test]
async fn lines_per_second_are_capped_and_omitted_lines_counted() {
    let server = with(&[("log_decisions", "true"), ("log_decisions_per_second", "5")]).start().await;
    let mut client = server.client().await;
    for _ in 0..500 {
        client.should_rate_limit(hivemind_testkit::request("d", "many=x")).await.unwrap();
    }
    let (lines, left_out) = line_counts(server).await;
    assert_eq!(lines + left_out, 500);
    assert!((5..=400).contains(&lines), "{lines} lines");
}

// Seen failing on: a log that can be enabled only at startup.
#[tokio::test]
async fn decision_log_follows_the_configuration_file() {
    let mut server = Setup::rules(RULES).config("observability: {log_decisions: false}\n").start().await;
    server.ask("d", "k=unseen").await;
    let file = server.path().join("hivemind.yaml");
    put(&file, "observability: {log_decisions: true, log_decisions_values: k}\n");
    let decision = server.log.next("configuration loaded").await;
    assert!(!decision.contains("need a restart"), "{decision}");
    server.ask("d", "k=seen").await;
    assert_eq!(next_decision(&mut server).await["descriptors"], "k=seen");
    put(&file, "observability: {log_decisions: no}\n");
    server.log.next("configuration loaded").await;
    server.ask("d", "k=unseen").await;
    server.signal("TERM").await;
    server.ended().await;
    assert!(!server.log.rest().await.contains("unseen"));
}

// Seen failing on: gateway decisions that are not logged.
#[tokio::test]
async fn gateway_decisions_are_logged_without_the_client() {
    let gateway = format!(
        "gateway: {{listen: '127.0.0.1:0', services: [{{id: shop, upstream: 'http://{}', limits: {{requests: 1, burst: 1, window: 1h}}}}]}}\n",
        app().await
    );
    for (values, client) in [("[]", "bearer"), ("[client]", "bearer:")] {
        let observed =
            format!("observability: {{log_decisions: true, log_decisions_values: {values}}}\n{gateway}");
        let mut server = Setup::rules(RULES).config(&observed).start().await;
        let screen = server.screen.previous("gateway ").unwrap().to_owned();
        let url = format!("http{}", screen.split_once("http").unwrap().1.split(' ').next().unwrap());
        let secret = "Authorization: Bearer a-clients-secret-token";
        for code in [200, 429] {
            let output = curl(&["-H", secret, &format!("{url}/a/path?query=private")]).await;
            assert_eq!(output.code(), code, "{output:?}");
            let decision = next_decision(&mut server).await;
            let (word, left) = if code == 200 { ("OK", 0) } else { ("OVER_LIMIT", 0) };
            assert_eq!(
                (&decision["service"], &decision["code"]),
                (&"shop".into(), &word.into()),
                "{decision}"
            );
            assert_eq!(
                (&decision["remaining"], &decision["limit_name"]),
                (&left.into(), &"http".into()),
                "{decision}"
            );
            let client_text = decision["client"].as_str().unwrap();
            assert!(
                if values == "[]" { client_text == client } else { client_text.starts_with(client) },
                "{decision}"
            );
        }
        server.signal("TERM").await;
        server.ended().await;
        let log = server.log.rest().await;
        assert!(!log.contains("secret-token") && !log.contains("private"), "{log}");
    }
}
