//! Ways to write a request that shall be no ways around its endpoint.

use crate::support::{Server, bucket, clock, limiter};
use hivemind_tower::{Limits, ServiceLimits};

async fn start(service: ServiceLimits) -> Server {
    Server::start(&limiter(Limits::new().service(service), &clock())).await
}

/// What is left of the limit that each of these is charged to, in turn.
async fn are_charged(server: &Server, requests: &[(&str, u64)]) {
    for (request, left) in requests {
        assert_eq!(server.ask(request, &[]).await.remaining(), *left, "{request}");
    }
}

/// Fails with HEAD found only among the endpoints of every method.
#[tokio::test]
async fn head_is_charged_as_get_unless_it_has_an_endpoint_of_its_own() {
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 50))
        .endpoint("GET /a", bucket(1, 9))
        .endpoint("/b", bucket(1, 20))
        .endpoint("GET /c", bucket(1, 30))
        .endpoint("HEAD /c", bucket(1, 40));
    let server = start(service).await;
    let requests = [("GET /a", 8), ("HEAD /a", 7), ("HEAD /b", 19), ("GET /c", 29), ("HEAD /c", 39)];
    are_charged(&server, &requests).await;
    are_charged(&server, &[("HEAD /d", 49), ("POST /a", 48)]).await;
}

/// Fails with the whole path decoded, by which `a%2Fb` became two segments.
#[tokio::test]
async fn an_encoded_slash_is_part_of_its_segment() {
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 50))
        .endpoint("/users/{id}", bucket(1, 9))
        .endpoint("/users/{id}/avatar", bucket(1, 20));
    let server = start(service).await;
    let requests =
        [("GET /users/7", 8), ("GET /users/a%2Fb", 7), ("GET /users/7%2favatar", 6), ("GET /users/%FF", 5)];
    are_charged(&server, &requests).await;
    // Whoever decodes it and takes several slashes for one reads `/users/avatar`, which is the stricter.
    are_charged(&server, &[("GET /users/%2F/avatar", 4), ("GET /%75sers/%FF/%61vatar", 19)]).await;
}

/// One server reads a path as it comes, as axum does, another decodes it first. Fails with the decoded
/// reading alone.
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
    are_charged(&server, &[("GET /users/all", 99), ("GET /users/%61ll", 8), ("GET /users/%6De", 2)]).await;
    are_charged(&server, &[("GET /health", 99), ("GET /%68ealth", 49), ("GET /%6Cogin", 4)]).await;
}

/// Seen failing as a conflict.
#[tokio::test]
async fn endpoints_of_one_path_may_name_parameters_differently() {
    let service = ServiceLimits::new("api")
        .limit(bucket(1, 50))
        .endpoint("GET /users/{id}/{{x}}/{*rest}", bucket(1, 9))
        .endpoint("/users/{name}/{{x}}/{*tail}", bucket(1, 20))
        .endpoint("HEAD /users/{other}/{{x}}/{*tail}", bucket(1, 30));
    let server = start(service).await;
    are_charged(&server, &[("GET /users/7/{x}/a/b", 8), ("POST /users/7/{x}/a/b", 19)]).await;
    are_charged(&server, &[("HEAD /users/7/{x}/a/b", 29), ("GET /users/7/{y}/a/b", 49)]).await;
}
