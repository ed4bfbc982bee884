//! The gRPC health protocol, and server reflection.

use hivemind_testkit::{Server, within};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServerReflectionResponse};

const RULES: &str = "domain: d\ndescriptors:\n";

pub(crate) async fn health(server: &Server, service: &str) -> Result<ServingStatus, tonic::Code> {
    let mut client = HealthClient::new(server.channel().await);
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = within("an answer", client.check(request)).await;
    answer.map(|answer| answer.get_ref().status()).map_err(|error| error.code())
}

#[tokio::test]
async fn known_service_names_are_serving_and_others_not_found() {
    let server = Server::with_rules(RULES).await;
    for name in ["", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"] {
        assert_eq!(health(&server, name).await, Ok(ServingStatus::Serving), "`{name}`");
    }
    assert_eq!(health(&server, "unknown.service").await, Err(tonic::Code::NotFound));
}

async fn reflected(server: &Server, request: MessageRequest) -> ServerReflectionResponse {
    let mut client = ServerReflectionClient::new(server.channel().await);
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let answers = client.server_reflection_info(tokio_stream::iter([request])).await.unwrap();
    within("an answer", answers.into_inner().message()).await.unwrap().expect("an answer")
}

#[tokio::test]
async fn reflection_lists_services_and_describes_messages() {
    let server = Server::with_rules(RULES).await;
    let answer = reflected(&server, MessageRequest::ListServices(String::new())).await;
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["envoy.service.ratelimit.v3.RateLimitService", "grpc.health.v1.Health"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let symbol = "envoy.service.ratelimit.v3.RateLimitRequest".to_owned();
    let answer = reflected(&server, MessageRequest::FileContainingSymbol(symbol)).await;
    let Some(MessageResponse::FileDescriptorResponse(files)) = answer.message_response else {
        panic!("{answer:?}")
    };
    let described = files.file_descriptor_proto.concat();
    // It equals the file that the service was generated from.
    assert!(hivemind_testkit::proto::DESCRIPTORS.windows(described.len()).any(|part| part == described));
}
