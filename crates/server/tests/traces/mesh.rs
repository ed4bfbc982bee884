//! Spans of a mesh: sync rounds, gossip and asks.

use crate::receiver::{ReceivedSpan, Receiver, below, by_id};
use crate::service::ask;
use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members};
use hivemind_testkit::within;

fn number(text: Option<String>) -> u64 {
    text.expect("an attribute").parse().unwrap()
}

// Seen failing on: rounds exported twice; an ask span without an ask.
#[tokio::test]
async fn mesh_rounds_are_root_spans_and_asks_are_below_checks() {
    let (receiver, authority) = (Receiver::start().await, MeshAuthority::new());
    let first = Node::start(authority.node("a", &[])).await;
    let second =
        authority.node("b", &[first.mesh]).with("observability.otel.tracing.endpoint", &receiver.url);
    let nodes = [first, Node::start(second).await];
    all_are_members(&nodes).await;
    // Some of many counters belong to the other node and are ask for: all of them in windows that began
    // before this node joined, but not all in later ones.
    let count = |name: &str| receiver.named(name).len();
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(300));
    let asking = async {
        while count("ratelimit.mesh.ask") == count("ratelimit.check") {
            ticks.tick().await;
            for key in 0..32 {
                assert_eq!(ask(&nodes[1], ("d", &format!("second={key}")), &[]).await.unwrap(), "OK");
            }
        }
    };
    within("a check without an ask: a node does not ask for its own counters or allowance", asking).await;
    for name in ["ratelimit.mesh.sync", "ratelimit.mesh.gossip", "ratelimit.mesh.ask"] {
        receiver.until(name, |all| all.iter().any(|of| of.span.name == name)).await;
    }
    // Enough rounds for a duplicate to appear, if there were one.
    let is_round = |of: &ReceivedSpan| of.span.name == "ratelimit.mesh.sync";
    receiver.until("some rounds", |all| all.iter().filter(|of| is_round(of)).count() >= 4).await;
    let all = receiver.spans();
    for round in
        all.iter().filter(|of| ["ratelimit.mesh.sync", "ratelimit.mesh.gossip"].contains(&&*of.span.name))
    {
        assert_eq!((round.parent().as_str(), round.span.kind), ("", 1), "{round:?}");
        assert_eq!(number(round.attribute("peer_count")), 1, "{round:?}");
        assert!(number(round.attribute("bytes_transferred")) > 0, "{round:?}");
        let lasted = round.span.end_time_unix_nano - round.span.start_time_unix_nano;
        assert_eq!(number(round.attribute("duration_us")), lasted / 1_000, "{round:?}");
    }
    let spans = by_id(&all);
    let asks = receiver.named("ratelimit.mesh.ask");
    for ask in &asks {
        let write = &spans[&ask.parent()];
        assert_eq!(write.span.name, "ratelimit.state.write");
        assert_eq!(spans[&write.parent()].span.name, "ratelimit.check");
        assert_eq!(below(&all, write), ["ratelimit.mesh.ask"]);
        assert_eq!(write.attribute("hivemind.store").as_deref(), Some("mesh"));
    }
    for name in ["ratelimit.mesh.sync", "ratelimit.mesh.gossip"] {
        let rounds = all.iter().filter(|of| of.span.name == name);
        let mut begun: Vec<_> = rounds.map(|of| of.span.start_time_unix_nano).collect();
        let count = begun.len();
        begun.dedup();
        assert_eq!(begun.len(), count, "a round is exported once");
    }
}
