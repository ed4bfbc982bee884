//! A receiver that is away, slow or unwilling.

use crate::RULES;
use crate::asking::{ask, end, sending_to};
use crate::receiver::Receiver;
use hivemind_testkit::{Client, Server, Setup, overall, request, within};
use tokio::net::TcpListener;

/// More than fit on the way out, by far.
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
    server.metrics().await.metric(&series).expect("a number of those that were dropped")
}

// Seen failing on: a queue without a bound, and drops that are not counted.
#[tokio::test]
async fn a_receiver_that_never_answers_changes_no_decision_and_what_finds_no_room_is_counted() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let server = Setup::rules(RULES).with("observability.otel.tracing.endpoint", &url).start().await;
    ask_often(&server, MANY).await;
    let lost = dropped(&server, "queue_full").await;
    // 2,048 wait, and a message or two of 256 are held.
    assert!(
        (MANY - 2_048 - 512..=MANY - 2_048).contains(&usize::try_from(lost).unwrap()),
        "{lost} were dropped"
    );
    end(server).await;
}

#[tokio::test]
async fn a_receiver_that_is_not_there_changes_no_decision_and_no_end() {
    let gone = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let mut server = Setup::rules(RULES).with("observability.otel.tracing.endpoint", &url).start().await;
    assert_eq!(ask(&server, ("d", "one=a"), &[]).await.unwrap(), "OK");
    assert_eq!(ask(&server, ("d", "one=a"), &[]).await.unwrap(), "OVER");
    server.log.next("traces cannot be sent").await;
    end(server).await;
}

async fn sent_again(protocol: &str) {
    let receiver = Receiver::refusing(1).await;
    let server = sending_to(&receiver).with("observability.otel.tracing.protocol", protocol).start().await;
    assert_eq!(ask(&server, ("d", "k=1"), &[]).await.unwrap(), "OK");
    receiver.until("the check to be taken", |all| !all.is_empty()).await;
    assert_eq!(receiver.named("ratelimit.check").len(), 1);
    assert_eq!(dropped(&server, "not_sent").await, 0);
    end(server).await;
    assert_eq!(receiver.named("ratelimit.check").len(), 1, "it is told once");
}

// Seen failing on: a message that is let go when it is not taken the first time.
#[tokio::test]
async fn what_was_not_taken_is_sent_again() {
    sent_again("grpc").await;
    sent_again("http").await;
}

// Seen failing on: one message in a second, and no more.
#[tokio::test]
async fn much_at_once_is_all_told() {
    let receiver = Receiver::start().await;
    let server = sending_to(&receiver).start().await;
    ask_often(&server, MANY).await;
    assert_eq!(dropped(&server, "queue_full").await, 0);
    end(server).await;
    assert_eq!(receiver.named("ratelimit.check").len(), MANY);
}
