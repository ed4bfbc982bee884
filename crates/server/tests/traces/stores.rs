//! What a check says of the store that decided.

use crate::RULES;
use crate::asking::{ask, end};
use crate::receiver::{Received, Receiver, below};
use hivemind_testkit::Setup;
use hivemind_testkit::redis::Redis;

fn writes(receiver: &Receiver) -> Vec<Received> {
    receiver.named("ratelimit.state.write")
}

// Seen failing on: a fallback that is not told.
#[tokio::test]
async fn a_write_is_the_round_trip_to_redis_and_says_when_this_node_decided_in_its_place() {
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
    let told: Vec<_> = writes(&receiver)
        .iter()
        .map(|of| (of.attribute("hivemind.store").unwrap(), of.attribute("hivemind.fallback")))
        .collect();
    assert_eq!(told, [("redis".to_owned(), None), ("redis".to_owned(), Some("true".to_owned()))]);
    let checks = receiver.named("ratelimit.check");
    for check in &checks {
        assert_eq!(below(&receiver.spans(), check), ["ratelimit.state.read", "ratelimit.state.write"]);
    }
}
