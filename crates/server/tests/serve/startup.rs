//! The first load of rules: errors prevent the start, unless it is forced.

use crate::health::health;
use hivemind_testkit::{Setup, get, overall, request, statuses};
use tonic_health::pb::health_check_response::ServingStatus;

const GOOD: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 9}}\n";
const BROKEN: &str =
    "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: fortnight, requests_per_unit: 9}}\n";

#[tokio::test]
async fn invalid_rules_prevent_start_with_place_and_remedy() {
    let (status, out, error) = Setup::rules(BROKEN).fail().await;
    assert_eq!((status.code(), out.as_str()), (Some(1), ""));
    for part in ["rules.yaml:3:31", "unknown unit `fortnight`", "one of: second, minute"] {
        assert!(error.contains(part), "`{part}` is missing in:\n{error}");
    }
}

#[tokio::test]
async fn missing_rule_file_prevents_the_start() {
    let (status, _, error) = Setup::new().rules_at("nowhere.yaml").fail().await;
    assert_eq!(status.code(), Some(1));
    assert!(error.contains("nowhere.yaml") && error.contains("cannot be read"), "{error}");
}

#[tokio::test]
async fn forced_start_returns_errors_until_rules_are_loaded() {
    let setup = Setup::rules(BROKEN).with("rate_limiting.force_start_without_initial_config", "true");
    let mut server = setup.start().await;
    let error = server.try_send(request("d", "k=x")).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument, "case 46");
    assert_eq!(error.message(), "no rate limit configuration loaded", "case 46");
    let page = get(server.admin, "/readyz").await;
    assert_eq!(page.code, 503);
    assert!(page.body.contains("no rules loaded") && page.body.contains("rules.yaml:3:31"));
    assert_eq!(get(server.admin, "/healthcheck").await.code, 500);
    assert_eq!(get(server.admin, "/healthz").await.code, 200);
    assert_eq!(health(&server, "ratelimit").await, Ok(ServingStatus::NotServing));
    assert_eq!(server.metrics().await.metric("ratelimit_service_config_load_error"), Some(1));

    std::fs::write(server.path().join("rules.yaml"), GOOD).unwrap();
    server.log.next("rules loaded").await;
    let answer = server.ask("d", "k=x").await;
    assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", "OK 9/DAY, 8 left"));
    assert_eq!(get(server.admin, "/readyz").await.code, 200);
    assert_eq!(health(&server, "ratelimit").await, Ok(ServingStatus::Serving));
}

#[tokio::test]
async fn invalid_setting_prevents_start_and_is_named() {
    let (status, _, error) = Setup::rules(GOOD).with("rate_limiting.on_refusal", "count_some").fail().await;
    assert_eq!(status.code(), Some(1));
    assert!(
        error.contains("HIVEMIND_RATE_LIMITING__ON_REFUSAL") && error.contains("count_refusing"),
        "{error}"
    );
}
