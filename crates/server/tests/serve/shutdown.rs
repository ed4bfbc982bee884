//! Shutdown: readiness changes at once, calls in flight are answered, and the exit code is 0 within the grace
//! period.

use crate::health::health;
use crate::isolation::slow_call;
use hivemind_testkit::{Server, Setup, get, request, statuses};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const RULES: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 9}}\n";

#[tokio::test]
async fn sigterm_and_sigint_exit_with_code_0() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::with_rules(RULES).await;
        server.ask("d", "k=x").await;
        server.signal(signal).await;
        assert_eq!(server.ended().await.code(), Some(0), "SIG{signal}");
        assert!(TcpStream::connect(server.grpc).await.is_err());
    }
}

#[tokio::test]
async fn call_in_flight_is_answered_while_pages_are_not_ready() {
    // Seen failing on: admin ports closed together with the gRPC port.
    let mut server = Server::with_rules(RULES).await;
    let channel = server.channel().await;
    let (send, messages) = mpsc::channel(1);
    let call = tokio::spawn(slow_call(channel.clone(), messages));
    // A second call on the same connection is answered after the first one has begun.
    let mut watch = HealthClient::new(channel);
    let health_request = HealthCheckRequest { service: "ratelimit".into() };
    let mut statuses_of = watch.watch(health_request).await.unwrap().into_inner();
    assert_eq!(statuses_of.message().await.unwrap().unwrap().status(), ServingStatus::Serving);

    server.signal("TERM").await;
    server.log.next("stopping").await;
    assert_eq!(statuses_of.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    drop(statuses_of);
    let page = get(server.admin, "/readyz").await;
    assert_eq!(page.code, 503);
    assert!(page.body.starts_with("not ready\nstopping"), "{}", page.body);
    assert_eq!(get(server.admin, "/healthcheck").await.code, 500);
    // The socket is closed shortly after the log line.
    let refused = async { while TcpStream::connect(server.grpc).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(10), refused).await.expect("no new connections for calls");

    send.send(request("d", "k=x")).await.unwrap();
    drop(send);
    let answer = call.await.unwrap().expect("an answer");
    assert_eq!(statuses(&answer), "OK 9/DAY, 8 left");
    assert_eq!(server.ended().await.code(), Some(0));
}

#[tokio::test]
async fn open_connection_is_closed_after_the_grace_period() {
    let mut server = Setup::rules(RULES).with("server.shutdown_grace", "200ms").start().await;
    let (send, messages) = mpsc::channel(1);
    let call = tokio::spawn(slow_call(server.channel().await, messages));
    let silent = TcpStream::connect(server.grpc).await.unwrap();
    assert_eq!(health(&server, "").await, Ok(ServingStatus::Serving));
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code(), Some(0));
    assert!(server.log.rest().await.contains("after the grace period"));
    drop((send, silent));
    assert!(call.await.unwrap().is_err());
}
