//! Undecidable requests: case 46, and invalid messages. The service keeps serving.

use hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use hivemind_testkit::{Server, request, statuses, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

const RULES: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 9}}\n";

async fn still_serves(server: &Server) {
    assert!(statuses(&server.ask("d", "k=x").await).starts_with("OK 9/DAY"));
}

#[tokio::test]
async fn request_without_domain_or_descriptors_is_invalid_argument() {
    let server = Server::with_rules(RULES).await;
    let no_descriptors = RateLimitRequest { domain: "d".into(), ..RateLimitRequest::default() };
    for (call, message) in [
        (request("", "k=x"), "rate limit domain must not be empty"),
        (RateLimitRequest::default(), "rate limit domain must not be empty"),
        (no_descriptors, "rate limit descriptor list must not be empty"),
    ] {
        let error = server.try_send(call).await.unwrap_err();
        assert_eq!((error.code(), error.message()), (Code::InvalidArgument, message), "case 46");
    }
    let errors = "ratelimit_service_should_rate_limit_error{err_type=\"service_error\"}";
    assert_eq!(server.metrics().await.metric(errors), Some(3));
    still_serves(&server).await;
}

#[tokio::test]
async fn too_many_descriptors_are_refused_without_charge() {
    let server = Server::with_rules(RULES).await;
    let many = |count: usize| request("d", &vec!["k=x"; count].join("|"));
    let error = server.try_send(many(257)).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("257"), "{}", error.message());
    still_serves(&server).await;
    assert_eq!(server.send(many(256)).await.statuses.len(), 256);
}

#[tokio::test]
async fn oversized_message_is_refused_by_its_length() {
    let server = Server::with_rules(RULES).await;
    let error = server.try_send(request("d", &format!("k={}", "x".repeat(2 << 20)))).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    let near = server.ask("d", &format!("k={}", "x".repeat(200_000))).await;
    assert_eq!(statuses(&near), "OK 9/DAY, 8 left");
    still_serves(&server).await;
}

#[tokio::test]
async fn malformed_message_is_an_error_of_its_call() {
    let server = Server::with_rules(RULES).await;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit".parse().unwrap();
    let mut client = tonic::client::Grpc::new(server.channel().await);
    client.ready().await.unwrap();
    // Bytes where the message has a string, and they are not UTF-8.
    let codec = tonic_prost::ProstCodec::<Vec<u8>, ()>::default();
    let garbage = vec![0xff, 0xfe, 0x00];
    let error = client.unary(tonic::Request::new(garbage), path, codec).await.unwrap_err();
    assert!([Code::Internal, Code::InvalidArgument].contains(&error.code()), "{error}");
    still_serves(&server).await;
}

#[tokio::test]
async fn unknown_grpc_method_is_unimplemented() {
    let server = Server::with_rules(RULES).await;
    let path = "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit".parse().unwrap();
    let mut client = tonic::client::Grpc::new(server.channel().await);
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let error = client.unary(tonic::Request::new(()), path, codec).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
}

#[tokio::test]
async fn garbage_bytes_close_only_their_connection() {
    let server = Server::with_rules(RULES).await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let noise: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let frames = [preface, &noise[..50_000]].concat();
    for (port, bytes) in [
        (server.grpc, b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (server.grpc, noise.clone()),
        (server.grpc, frames),
        (server.grpc, vec![0; 10_000]),
        (server.admin, noise.clone()),
        (server.metrics, noise),
    ] {
        let mut connection = TcpStream::connect(port).await.unwrap();
        // The connection may be closed before everything is written.
        let _ = connection.write_all(&bytes).await;
        let mut answer = Vec::new();
        let _ = within("the connection's end", connection.read_to_end(&mut answer)).await;
        still_serves(&server).await;
    }
}
