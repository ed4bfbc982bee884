//! A node that starts before its Redis.

use crate::nodes::{fallbacks, metric, node, readiness, verdicts};
use hivemind_testkit::redis::Redis;

// Seen failing on: a store that is called before it was ever connected.
#[tokio::test]
async fn node_started_without_redis_counts_locally_until_connected() {
    let mut redis = Redis::new(&[]);
    let mut node = node(&redis.url()).start().await;
    node.log.next("shared store unreachable").await;
    let (code, body) = readiness(&node).await;
    assert_eq!(code, 200);
    assert!(body.contains("\ndegraded: "), "{body}");
    assert_eq!(metric(&node, "up").await, 0);
    // Independent of the policy: policies apply to a store that was lost.
    for key in ["open", "closed", "local"] {
        assert_eq!(verdicts(&node, &format!("{key}=x"), 4).await, ["OK", "OK", "OK", "OVER"], "{key}");
    }
    assert_eq!(fallbacks(&node, "start").await, 12);
    assert_eq!(fallbacks(&node, "open").await + fallbacks(&node, "closed").await, 0);
    redis.restart().await;
    node.log.next("shared store connected").await;
    assert_eq!(readiness(&node).await, (200, "ready\n".to_owned()));
    assert_eq!(metric(&node, "up").await, 1);
    assert_eq!(verdicts(&node, "closed=x", 4).await, ["OK", "OK", "OK", "OVER"], "now Redis counts");
    assert_eq!(fallbacks(&node, "start").await, 12);
}

#[tokio::test]
async fn memory_store_is_never_degraded() {
    let server = hivemind_testkit::Server::with_rules(crate::nodes::RULES).await;
    assert_eq!(readiness(&server).await, (200, "ready\n".to_owned()));
    assert_eq!(metric(&server, "up").await, 1);
    assert_eq!(verdicts(&server, "closed=x", 4).await, ["OK", "OK", "OK", "OVER"]);
    assert_eq!(metric(&server, "script_calls_total").await, 0);
}
