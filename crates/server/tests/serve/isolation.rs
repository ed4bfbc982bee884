//! Isolation of clients: slow, silent or malformed connections do not delay others.

use hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use hivemind_testkit::{Server, get, request, statuses, within};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const RULES: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 1000}}\n";

#[tokio::test]
async fn silent_and_partial_connections_do_not_delay_others() {
    let server = Server::with_rules(RULES).await;
    let mut held = Vec::new();
    for number in 0..150 {
        let port = [server.grpc, server.admin, server.metrics][number % 3];
        let mut connection = TcpStream::connect(port).await.unwrap();
        let spoken: &[u8] = match (number % 3, number % 2) {
            (_, 0) => b"",
            (0, _) => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00",
            _ => b"GET /heal",
        };
        connection.write_all(spoken).await.unwrap();
        held.push(connection);
    }
    for left in (990..1_000).rev() {
        assert_eq!(statuses(&server.ask("d", "k=x").await), format!("OK 1000/DAY, {left} left"));
    }
    assert_eq!(get(server.admin, "/healthz").await.code, 200);
    assert_eq!(server.metrics().await.code, 200);
    drop(held);
}

#[tokio::test]
async fn incomplete_call_does_not_delay_other_calls() {
    let server = Server::with_rules(RULES).await;
    let channel = server.channel().await;
    let (send, messages) = mpsc::channel::<RateLimitRequest>(1);
    let slow = tokio::spawn(slow_call(channel.clone(), messages));
    // Other calls on the same connection, and on connections of their own.
    let mut same = hivemind_testkit::Client::new(channel);
    for _ in 0..10 {
        within("an answer", same.should_rate_limit(request("d", "k=x"))).await.unwrap();
        server.ask("d", "k=x").await;
    }
    send.send(request("d", "k=x")).await.unwrap();
    drop(send);
    let answer = within("the slow answer", slow).await.unwrap().unwrap();
    assert_eq!(statuses(&answer), "OK 1000/DAY, 979 left");
}

/// A call that has begun; its message is sent later by the test.
pub(crate) async fn slow_call(
    channel: tonic::transport::Channel,
    messages: mpsc::Receiver<RateLimitRequest>,
) -> Result<hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitResponse, tonic::Status> {
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".parse().unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let messages = tonic::Request::new(ReceiverStream::new(messages));
    let answer = client.client_streaming(messages, path, tonic_prost::ProstCodec::default()).await;
    answer.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn concurrent_calls_are_all_answered_and_counted_once() {
    let server = Server::with_rules(RULES).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let mut client = server.client().await;
        calls.spawn(async move {
            for _ in 0..100 {
                client.should_rate_limit(request("d", "k=shared")).await.unwrap();
            }
        });
    }
    within("all calls", calls.join_all()).await;
    assert_eq!(statuses(&server.ask("d", "k=shared").await), "OVER 1000/DAY");
    let labels = "domain=\"d\",key1=\"k\"";
    assert_eq!(server.counted("within_limit", labels).await, Some(1_000));
    assert_eq!(server.counted("over_limit", labels).await, Some(1));
}
