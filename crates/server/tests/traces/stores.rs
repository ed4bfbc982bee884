//! Span attributes of the store that decided.

use crate::RULES;
use crate::receiver::{ReceivedSpan, Receiver, below};
use crate::service::{ask, end};
use hivemind_testkit::Setup;
use hivemind_testkit::redis::Redis;

fn writes(receiver: &Receiver) -> Vec<ReceivedSpan> {
    receiver.named("ratelimit.state.write")
}

// Seen failing on: a fallback without its attribute.
#[tokio::test]
async fn write_span_covers_redis_and_marks_local_fallback() {
    let (receiver, mut redis) = (Receiver::start().await, Redis::start().await);
    let mut server = Setup::rules(RULES)
        .with("observability.otel.tracing.endpoint", &receiver.url)
        .with("storage.kind", "redis")
        .with("storage.redis.url", &redis.url())
        .with("storage.redis.timeout_ms", "5000")
        .start()
        .await;
    server.log.next("shared store connected").await;
    assert_eq!(ask(&server, ("d", "k=1"), &[]).await.unwrap(), "OK");
    redis.kill().await;
    server.log.next("shared store lost").await;
    assert_eq!(ask(&server, ("d", "k=1"), &[]).await.unwrap(), "OK");
    end(server).await;
    let fallbacks: Vec<_> = writes(&receiver)
        .iter()
        .map(|of| (of.attribute("hivemind.store").unwrap(), of.attribute("hivemind.fallback")))
        .collect();
    assert_eq!(fallbacks, [("redis".to_owned(), None), ("redis".to_owned(), Some("true".to_owned()))]);
    let checks = receiver.named("ratelimit.check");
    for check in &checks {
        assert_eq!(below(&receiver.spans(), check), ["ratelimit.state.read", "ratelimit.state.write"]);
    }
}
