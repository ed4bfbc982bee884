//! Named endpoints: one bucket for several methods, reported under that name.

use crate::support::{Server, bucket, clock, limiter};
use hivemind_tower::error::LimitsError;
use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};

fn api() -> ServiceLimits {
    ServiceLimits::new("api").limit(bucket(1, 50))
}

// Fails when each pattern has a bucket of its own.
#[tokio::test]
async fn methods_of_named_endpoint_share_a_bucket() {
    let export = api().named_endpoint("export", ["POST", "PUT"], "/users/{id}/export", bucket(1, 2));
    let server = Server::start(&limiter(Limits::new().service(export), &clock())).await;
    let first = server.ask("POST /users/1/export", &[]).await;
    assert_eq!(first.header("ratelimit-policy"), Some("\"api export\";q=1;w=1"));
    assert_eq!(server.ask("PUT /users/2/export", &[]).await.remaining(), 0);
    let refused = server.ask("POST /users/3/export", &[]).await;
    assert_eq!((refused.status, refused.body.contains("\"api export\"")), (429, true), "{}", refused.body);
    assert_eq!(server.get("/users/1/export").await.remaining(), 49, "another method has another bucket");
}

#[tokio::test]
async fn endpoint_with_method_beats_one_without() {
    let service = api().named_endpoint("all", [""; 0], "/files/{*path}", bucket(1, 20)).named_endpoint(
        "read",
        ["GET"],
        "/files/{*path}",
        bucket(1, 10),
    );
    let server = Server::start(&limiter(Limits::new().service(service), &clock())).await;
    assert_eq!(server.ask("DELETE /files/a/b", &[]).await.remaining(), 19);
    assert_eq!(server.ask("GET /files/a/b", &[]).await.remaining(), 9);
    assert_eq!(server.ask("HEAD /files/a/b", &[]).await.remaining(), 8, "as GET");
}

#[test]
fn named_endpoint_keeps_its_counter_when_its_path_changes() {
    let named = |path| Limits::new().service(api().named_endpoint("export", ["POST"], path, bucket(1, 2)));
    let limiter = RateLimiter::new(named("/export")).unwrap();
    limiter.reload(&named("/v2/export")).unwrap();
    let all = limiter.effective_limits();
    assert!(all.iter().any(|limit| limit.endpoint == "export"), "{all:?}");
}

// Fails without the name check: `*` would be the service's own bucket.
#[test]
fn invalid_or_duplicate_endpoint_name_is_rejected() {
    let check = |limits: Limits| limits.check().unwrap_err();
    for name in ["", "*", "a b", "\"", &"a".repeat(65)] {
        let service = api().named_endpoint(name, ["GET"], "/", PartialLimit::new());
        let error = check(Limits::new().service(service));
        assert!(matches!(&error, LimitsError::EndpointName { service, .. } if service == "api"), "{error}");
    }
    let first = api().named_endpoint("a", ["GET"], "/a", PartialLimit::new());
    let error = check(Limits::new().service(first.named_endpoint("a", ["GET"], "/b", PartialLimit::new())));
    assert!(error.to_string().contains("another endpoint has this name"), "{error}");
    let crossed = api().named_endpoint("a", ["GET", "PUT"], "/{a}", PartialLimit::new());
    let error =
        check(Limits::new().service(crossed.named_endpoint("b", ["PUT"], "/{b}", PartialLimit::new())));
    assert!(matches!(&error, LimitsError::Pattern { pattern, .. } if pattern == "PUT /{b}"), "{error}");
    assert_eq!(Limits::new().check(), Ok(()));
}
