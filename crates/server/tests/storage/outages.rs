//! Redis failures under load: every call is answered, by the policy of its rule, and Redis decides again as
//! soon as it is back.

use crate::load::Load;
use crate::nodes::{
    LONG_TIMEOUT_MS, TIMEOUT_MS, fallbacks, metric, node, nodes, readiness, until_metric, verdicts,
};
use hivemind_testkit::Server;
use hivemind_testkit::redis::Redis;

/// Asserts the verdicts of each policy while Redis is unreachable, on a node with empty counters.
async fn assert_each_policy(node: &Server) {
    assert_eq!(verdicts(node, "open=x", 5).await, ["OK"; 5]);
    assert_eq!(verdicts(node, "closed=x", 5).await, ["OVER"; 5]);
    assert_eq!(verdicts(node, "local=x", 5).await, ["OK", "OK", "OK", "OVER", "OVER"]);
    assert_eq!(verdicts(node, "open=x|local=y|closed=x", 3).await, ["OVER"; 3]);
    assert_eq!(verdicts(node, "open=x|local=y", 4).await, ["OK", "OK", "OK", "OVER"]);
}

async fn assert_degraded(node: &Server) {
    let (code, body) = readiness(node).await;
    assert_eq!(code, 200, "{body}");
    assert!(body.lines().any(|line| line.starts_with("degraded: ")), "{body}");
    assert_eq!(metric(node, "up").await, 0);
}

async fn assert_ready(node: &Server) {
    assert_eq!(readiness(node).await, (200, "ready\n".to_owned()));
    assert_eq!(metric(node, "up").await, 1);
}

// Seen failing on: a store that stays lost forever.
#[tokio::test]
async fn redis_killed_and_restarted_under_load_recovers() {
    let mut redis = Redis::start().await;
    let mut nodes = nodes(2, &redis, TIMEOUT_MS).await;
    let load = Load::start(&[&nodes[0], &nodes[1]], 4, "endless=a").await;
    load.answered(200).await;
    redis.kill().await;
    for node in &mut nodes {
        node.log.next("shared store lost").await;
        assert_degraded(node).await;
        assert_each_policy(node).await;
    }
    load.answered(200).await;
    redis.restart().await;
    for node in &mut nodes {
        node.log.next("shared store reconnected").await;
        assert_ready(node).await;
        assert!(fallbacks(node, "open").await > 0);
    }
    load.answered(200).await;
    let outcomes = load.end().await;
    assert_eq!(outcomes.over, 0);
    // It has lost all counters and decides again: three for both nodes together.
    let answers = [verdicts(&nodes[0], "local=x", 2).await, verdicts(&nodes[1], "local=x", 2).await].concat();
    assert_eq!(answers, ["OK", "OK", "OK", "OVER"]);
}

// Seen failing on: a timeout 600 times as long.
#[tokio::test]
async fn redis_paused_under_load_recovers() {
    let redis = Redis::start().await;
    let mut nodes = nodes(1, &redis, TIMEOUT_MS).await;
    let load = Load::start(&[&nodes[0]], 8, "endless=a").await;
    load.answered(200).await;
    redis.signal("STOP").await;
    nodes[0].log.next("shared store lost").await;
    assert_degraded(&nodes[0]).await;
    assert_each_policy(&nodes[0]).await;
    load.answered(200).await;
    assert!(metric(&nodes[0], "timeouts_total").await > 0);
    assert!(metric(&nodes[0], "breaker_openings_total").await > 0);
    redis.signal("CONT").await;
    nodes[0].log.next("shared store reconnected").await;
    assert_ready(&nodes[0]).await;
    let calls = metric(&nodes[0], "script_calls_total").await;
    load.answered(100).await;
    until_metric(&nodes[0], "script_calls_total", |now| now >= calls + 50).await;
    assert_eq!(load.end().await.over, 0);
}

#[tokio::test]
async fn redis_flushed_under_load_fails_no_call() {
    let redis = Redis::start().await;
    let nodes = nodes(1, &redis, LONG_TIMEOUT_MS).await;
    let load = Load::start(&[&nodes[0]], 4, "endless=a").await;
    load.answered(100).await;
    for _ in 0..5 {
        assert_eq!(redis.command(&["flushall"]).await.trim(), "OK");
        assert_eq!(redis.command(&["script", "flush"]).await.trim(), "OK");
        load.answered(100).await;
    }
    assert_eq!(load.end().await.over, 0);
    assert_eq!(fallbacks(&nodes[0], "open").await, 0);
    assert_eq!(metric(&nodes[0], "errors_total").await, 0);
}

#[tokio::test]
async fn rule_without_policy_uses_the_storage_policy() {
    for (on_error, expected) in
        [("open", ["OK", "OK", "OK"]), ("closed", ["OVER", "OVER", "OVER"]), ("local", ["OK", "OK", "OVER"])]
    {
        let mut redis = Redis::start().await;
        let rules = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 2}}]\n";
        let setup = node(&redis.url()).with("storage.on_error", on_error);
        setup.write("rules.yaml", rules);
        let mut node = setup.start().await;
        node.log.next("shared store connected").await;
        redis.kill().await;
        // Not awaited: the first call notices the outage, or was announced just before.
        assert_eq!(verdicts(&node, "k=v", 3).await, expected, "{on_error}");
        let line = node.log.next("decided by `on_error`").await;
        assert!(line.contains("; 1 request was decided"), "{line}");
        assert_eq!(fallbacks(&node, on_error).await, 3, "{on_error}");
    }
}

// Seen failing on: a store deadline that is a minute after the caller's.
#[tokio::test]
async fn call_with_short_deadline_is_answered_in_time() {
    let redis = Redis::start().await;
    let mut node = node(&redis.url()).with("storage.redis.timeout_ms", "60000").start().await;
    node.log.next("shared store connected").await;
    redis.signal("STOP").await;
    let mut request = tonic::Request::new(hivemind_testkit::request("d", "closed=x"));
    request.set_timeout(std::time::Duration::from_secs(2));
    let answer = node.client().await.should_rate_limit(request).await.expect("an answer in time");
    assert_eq!(hivemind_testkit::overall(answer.get_ref()), "OVER");
    redis.signal("CONT").await;
}
