//! A node that starts before its Redis does.

use crate::nodes::{fallbacks, metric, node, readiness, said};
use hivemind_testkit::redis::Redis;

// Seen failing on: a store that is asked before it was ever there.
#[tokio::test]
async fn a_node_starts_without_redis_decides_alone_and_joins_when_redis_is_there() {
    let mut redis = Redis::new(&[]);
    let mut node = node(&redis.url()).start().await;
    node.log.next("shared store unreachable").await;
    let (code, body) = readiness(&node).await;
    assert_eq!(code, 200);
    assert!(body.contains("\ndegraded: "), "{body}");
    assert_eq!(metric(&node, "up").await, 0);
    // Whatever the policy: they are for a store that is lost.
    for key in ["open", "closed", "local"] {
        assert_eq!(said(&node, &format!("{key}=x"), 4).await, ["OK", "OK", "OK", "OVER"], "{key}");
    }
    assert_eq!(fallbacks(&node, "start").await, 12);
    assert_eq!(fallbacks(&node, "open").await + fallbacks(&node, "closed").await, 0);
    redis.restart().await;
    node.log.next("shared store connected").await;
    assert_eq!(readiness(&node).await, (200, "ready\n".to_owned()));
    assert_eq!(metric(&node, "up").await, 1);
    assert_eq!(said(&node, "closed=x", 4).await, ["OK", "OK", "OK", "OVER"], "now Redis counts");
    assert_eq!(fallbacks(&node, "start").await, 12);
}

#[tokio::test]
async fn with_memory_alone_nothing_is_degraded() {
    let server = hivemind_testkit::Server::with_rules(crate::nodes::RULES).await;
    assert_eq!(readiness(&server).await, (200, "ready\n".to_owned()));
    assert_eq!(metric(&server, "up").await, 1);
    assert_eq!(said(&server, "closed=x", 4).await, ["OK", "OK", "OK", "OVER"]);
    assert_eq!(metric(&server, "script_calls_total").await, 0);
}
