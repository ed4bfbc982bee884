//! A receiver that is unreachable, slow or refusing.

use crate::RULES;
use crate::receiver::Receiver;
use crate::service::{ask, end, sending_to};
use hivemind_testkit::{Client, Server, Setup, overall, request, within};
use tokio::net::TcpListener;

/// Far more than the export queue holds.
const MANY: usize = 3_000;

async fn ask_often(server: &Server, count: usize) {
    let mut client: Client = server.client().await;
    for _ in 0..count {
        let answer = within("an answer", client.should_rate_limit(request("d", "k=1"))).await.unwrap();
        assert_eq!(overall(answer.get_ref()), "OK");
    }
}

async fn dropped(server: &Server, reason: &str) -> u64 {
    let series = format!("hivemind_traces_dropped_total{{reason=\"{reason}\"}}");
    server.metrics().await.metric(&series).expect("the number of dropped spans")
}

// Seen failing on: an unbounded queue, and drops that are not counted.
#[tokio::test]
async fn silent_receiver_changes_no_decision_and_drops_are_counted() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let server = Setup::rules(RULES).with("observability.otel.tracing.endpoint", &url).start().await;
    ask_often(&server, MANY).await;
    let lost = dropped(&server, "queue_full").await;
    // 2,048 are queued, and one or two messages of 256 are in flight.
    assert!(
        (MANY - 2_048 - 512..=MANY - 2_048).contains(&usize::try_from(lost).unwrap()),
        "{lost} were dropped"
    );
    end(server).await;
}

#[tokio::test]
async fn unreachable_receiver_delays_neither_calls_nor_shutdown() {
    let gone = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let mut server = Setup::rules(RULES).with("observability.otel.tracing.endpoint", &url).start().await;
    assert_eq!(ask(&server, ("d", "one=a"), &[]).await.unwrap(), "OK");
    assert_eq!(ask(&server, ("d", "one=a"), &[]).await.unwrap(), "OVER");
    server.log.next("traces cannot be sent").await;
    end(server).await;
}

async fn assert_retried(protocol: &str) {
    let receiver = Receiver::refusing(1).await;
    let server = sending_to(&receiver).with("observability.otel.tracing.protocol", protocol).start().await;
    assert_eq!(ask(&server, ("d", "k=1"), &[]).await.unwrap(), "OK");
    receiver.until("the check to be taken", |all| !all.is_empty()).await;
    assert_eq!(receiver.named("ratelimit.check").len(), 1);
    assert_eq!(dropped(&server, "not_sent").await, 0);
    end(server).await;
    assert_eq!(receiver.named("ratelimit.check").len(), 1, "it is exported once");
}

// Seen failing on: a message that is dropped when its first attempt fails.
#[tokio::test]
async fn refused_message_is_sent_again() {
    assert_retried("grpc").await;
    assert_retried("http").await;
}

// Seen failing on: one message per second only.
#[tokio::test]
async fn large_burst_of_spans_is_exported_completely() {
    let receiver = Receiver::start().await;
    let server = sending_to(&receiver).start().await;
    ask_often(&server, MANY).await;
    assert_eq!(dropped(&server, "queue_full").await, 0);
    end(server).await;
    assert_eq!(receiver.named("ratelimit.check").len(), MANY);
}
