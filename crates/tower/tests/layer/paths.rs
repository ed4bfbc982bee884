//! Spellings of a request that must not bypass the limit of its endpoint.

use crate::support::{Server, bucket, clock, limiter};
use hivemind_tower::{Limits, ServiceLimits};

async fn start(service: ServiceLimits) -> Server {
    Server::start(&limiter(Limits::new().service(service), &clock())).await
}

/// Sends requests in order and checks the remaining budget after each.
async fn check_remaining(server: &Server, requests: &[(&str, u64)]) {
    for (request, left) in requests {
        assert_eq!(server.ask(request, &[]).await.remaining(), *left, "{request}");
    }
}

/// Fails when HEAD matches only endpoints without a method.
#[tokio::test]
async fn head_is_charged_as_get_unless_it_has_own_endpoint() {
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 50))
        .endpoint("GET /a", bucket(1, 9))
        .endpoint("/b", bucket(1, 20))
        .endpoint("GET /c", bucket(1, 30))
        .endpoint("HEAD /c", bucket(1, 40));
    let server = start(service).await;
    let requests = [("GET /a", 8), ("HEAD /a", 7), ("HEAD /b", 19), ("GET /c", 29), ("HEAD /c", 39)];
    check_remaining(&server, &requests).await;
    check_remaining(&server, &[("HEAD /d", 49), ("POST /a", 48)]).await;
}

/// Fails when the whole path is decoded, so that `a%2Fb` becomes two segments.
#[tokio::test]
async fn encoded_slash_stays_within_its_path_segment() {
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 50))
        .endpoint("/users/{id}", bucket(1, 9))
        .endpoint("/users/{id}/avatar", bucket(1, 20));
    let server = start(service).await;
    let requests =
        [("GET /users/7", 8), ("GET /users/a%2Fb", 7), ("GET /users/7%2favatar", 6), ("GET /users/%FF", 5)];
    check_remaining(&server, &requests).await;
    // A server that decodes it and merges slashes reads `/users/avatar`, which is stricter.
    check_remaining(&server, &[("GET /users/%2F/avatar", 4), ("GET /%75sers/%FF/%61vatar", 19)]).await;
}

/// Some servers match the path as sent, like axum; others decode it first. Fails when only the decoded path is
/// looked up.
#[tokio::test]
async fn ambiguous_path_is_charged_to_the_stricter_endpoint() {
    let service = ServiceLimits::new("api")
        .limit(bucket(5, 50))
        .endpoint("/users/{id}", bucket(1, 9))
        .endpoint("/users/all", bucket(100, 100))
        .endpoint("/users/me", bucket(1, 3))
        .endpoint("/health", bucket(100, 100))
        .endpoint("/login", bucket(1, 5));
    let server = start(service).await;
    check_remaining(&server, &[("GET /users/all", 99), ("GET /users/%61ll", 8), ("GET /users/%6De", 2)])
        .await;
    check_remaining(&server, &[("GET /health", 99), ("GET /%68ealth", 49), ("GET /%6Cogin", 4)]).await;
}

/// Fails as a conflict when parameter names are compared.
#[tokio::test]
async fn endpoints_of_one_path_may_name_parameters_differently() {
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 50))
        .endpoint("GET /users/{id}/{{x}}/{*rest}", bucket(1, 9))
        .endpoint("/users/{name}/{{x}}/{*tail}", bucket(1, 20))
        .endpoint("HEAD /users/{other}/{{x}}/{*tail}", bucket(1, 30));
    let server = start(service).await;
    check_remaining(&server, &[("GET /users/7/{x}/a/b", 8), ("POST /users/7/{x}/a/b", 19)]).await;
    check_remaining(&server, &[("HEAD /users/7/{x}/a/b", 29), ("GET /users/7/{y}/a/b", 49)]).await;
}
