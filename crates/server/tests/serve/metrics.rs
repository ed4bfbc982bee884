//! The metrics page: the reference's names, and its near-limit arithmetic (B.9).

use hivemind_testkit::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use hivemind_testkit::{Server, Setup, request};

const RULES: &str = "
domain: d
descriptors:
- {key: fifteen, rate_limit: {unit: day, requests_per_unit: 15}}
- {key: twenty, rate_limit: {unit: day, requests_per_unit: 20}}
- {key: eight, rate_limit: {unit: day, requests_per_unit: 8}}
- {key: ten, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: five, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 5}}
- {key: 'odd:na|me', value: '10.0.0.1', rate_limit: {unit: day, requests_per_unit: 5}}
- {key: free, rate_limit: {unlimited: true}}
";

const FIELDS: [&str; 4] = ["total_hits", "over_limit", "near_limit", "within_limit"];

async fn spend(server: &Server, key: &str, hits: u64) {
    let mut call = request("d", &format!("{key}=x"));
    call.descriptors[0].hits_addend = Some(hits);
    server.send(call).await;
}

#[tokio::test]
async fn near_limit_hits_are_counted_as_in_the_reference() {
    // Seen failing on: `near.max(before)` of `RuleCounters::count` with `min`.
    for (key, before, hits, [total, over, near, within]) in [
        ("fifteen", 10, 1, [1, 0, 0, 1]),
        ("fifteen", 12, 1, [1, 0, 1, 1]),
        ("fifteen", 15, 1, [1, 1, 0, 0]),
        ("twenty", 2, 3, [3, 0, 0, 3]),
        ("eight", 5, 2, [2, 0, 1, 2]),
        ("twenty", 16, 3, [3, 0, 3, 3]),
        ("twenty", 19, 3, [3, 2, 1, 0]),
        ("twenty", 15, 7, [7, 2, 4, 0]),
        ("ten", 27, 3, [3, 3, 0, 0]),
        ("five", 2, 5, [5, 2, 1, 0]),
    ] {
        let server = Server::with_rules(RULES).await;
        // One by one, because a cost above the limit is not counted.
        for _ in 0..before {
            spend(&server, key, 1).await;
        }
        let labels = format!("domain=\"d\",key1=\"{key}\"");
        let mut counted = [0; 4];
        for (count, field) in counted.iter_mut().zip(FIELDS) {
            *count = server.counted(field, &labels).await.unwrap();
        }
        spend(&server, key, hits).await;
        for ((before, field), expected) in counted.into_iter().zip(FIELDS).zip([total, over, near, within]) {
            let now = server.counted(field, &labels).await.unwrap();
            assert_eq!(now - before, expected, "{field} of {key}, {hits} hits");
        }
    }
}

#[tokio::test]
async fn near_limit_ratio_is_configurable() {
    let server = Setup::rules(RULES).with("rate_limiting.near_limit_ratio", "0.5").start().await;
    spend(&server, "ten", 7).await;
    assert_eq!(server.counted("near_limit", "domain=\"d\",key1=\"ten\"").await, Some(2));
}

#[tokio::test]
async fn metrics_page_is_valid_prometheus_text() {
    let server = Server::with_rules(RULES).await;
    spend(&server, "ten", 3).await;
    spend(&server, "free", 2).await;
    let mut odd = request("d", "odd=10.0.0.1");
    odd.descriptors[0].entries[0].key = "odd:na|me".into();
    server.send(odd).await;
    let page = server.metrics().await;
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    for (series, value) in [
        ("ratelimit_service_config_load_success", 1),
        ("ratelimit_service_config_load_error", 0),
        ("ratelimit_service_global_shadow_mode", 0),
        ("ratelimit_service_total_requests{grpc_method=\"ShouldRateLimit\"}", 3),
        ("ratelimit_service_response_time_seconds_count{grpc_method=\"ShouldRateLimit\"}", 3),
        ("ratelimit_service_response_time_seconds_bucket{grpc_method=\"ShouldRateLimit\",le=\"+Inf\"}", 3),
        ("ratelimit_service_should_rate_limit_error{err_type=\"service_error\"}", 0),
        ("ratelimit_service_rate_limit_total_hits{domain=\"d\",key1=\"odd_na_me_10_0_0_1\"}", 1),
        ("ratelimit_service_rate_limit_within_limit{domain=\"d\",key1=\"free\"}", 2),
        ("ratelimit_service_rate_limit_total_hits{domain=\"other\",key1=\"other\"}", 0),
        ("hivemind_keys", 2),
    ] {
        assert_eq!(page.metric(series), Some(value), "{series}");
    }
    // Every series has a name and a number, and every name has its help and type once.
    let names = page.body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let names: Vec<_> = names.collect();
    for line in page.body.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(names.iter().any(|name| series.starts_with(name)), "{line}");
    }
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
}

#[tokio::test]
async fn client_names_are_bounded_and_others_are_merged() {
    let server = Server::with_rules(RULES).await;
    let mut client = server.client().await;
    for batch in 0..5 {
        let text: Vec<_> = (0..250).map(|number| format!("k={batch}-{number}")).collect();
        let mut call = request("d", &text.join("|"));
        for descriptor in &mut call.descriptors {
            descriptor.limit = Some(RateLimitOverride { requests_per_unit: 9, unit: 4 });
        }
        client.should_rate_limit(call).await.unwrap();
    }
    let page = server.metrics().await;
    let series = "ratelimit_service_rate_limit_total_hits{";
    let listed = page.body.lines().filter(|line| line.starts_with(series)).count();
    // Of 1,250 names in requests 1,000 are listed; the rules' own names do not count.
    let (rules, other_line) = (7, 1);
    assert_eq!(listed, 1_000 + rules + other_line);
    let other = page.metric(&format!("{series}domain=\"other\",key1=\"other\"}}")).unwrap();
    assert_eq!(other, 250);
}

#[tokio::test]
async fn very_long_name_is_listed_as_other() {
    let server = Server::with_rules(RULES).await;
    let mut call = request("d", &format!("k={}", "x".repeat(200_000)));
    call.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 9, unit: 4 });
    server.send(call).await;
    let page = server.metrics().await;
    assert!(page.body.len() < 100_000);
    assert_eq!(server.counted("total_hits", "domain=\"other\",key1=\"other\"").await, Some(1));
}

#[tokio::test]
async fn unknown_domains_are_bounded_and_quoted() {
    let server = Server::with_rules(RULES).await;
    server.ask("a\"quoted\\one", "k=x").await;
    for number in 0..150 {
        server.ask(&format!("unknown-{number}"), "k=x").await;
    }
    assert_eq!(server.counted("domain_not_found", r#"domain="a\"quoted\\one""#).await, Some(1));
    assert_eq!(server.counted("domain_not_found", "domain=\"unknown-5\"").await, Some(1));
    assert_eq!(server.counted("domain_not_found", "domain=\"other\"").await, Some(51));
}

#[tokio::test]
async fn metrics_path_is_configurable() {
    let server = Setup::rules(RULES).with("observability.prometheus.path", "/stats/prom").start().await;
    assert_eq!(hivemind_testkit::get(server.metrics, "/stats/prom").await.code, 200);
    assert_eq!(server.metrics().await.code, 404);
}
