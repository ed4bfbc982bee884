//! Nodes that share a Redis, their rules, and requests to them.

use hivemind_testkit::redis::Redis;
use hivemind_testkit::{Server, Setup, get, overall, within};

/// A rule per fallback policy, and one without a policy.
pub(crate) const RULES: &str = "
domain: d
descriptors:
- {key: plain, rate_limit: {unit: day, requests_per_unit: 100}}
- {key: bucket, rate_limit: {unit: day, requests_per_unit: 100, algorithm: token_bucket}}
- {key: sliding, rate_limit: {unit: day, requests_per_unit: 100, algorithm: sliding_window}}
- {key: endless, rate_limit: {unit: day, requests_per_unit: 100000000}}
- {key: open, rate_limit: {unit: day, requests_per_unit: 3, on_error: open}}
- {key: closed, rate_limit: {unit: day, requests_per_unit: 3, on_error: closed}}
- {key: local, rate_limit: {unit: day, requests_per_unit: 3, on_error: local}}
";

/// Longer than the default, because many tests share the machine's cores; far shorter than any deadline.
pub(crate) const TIMEOUT_MS: &str = "200";
/// For tests of exact counts, in which no decision may come from a fallback policy, however slow the machine
/// is.
pub(crate) const LONG_TIMEOUT_MS: &str = "10000";

/// A node that counts in the Redis at this URL.
pub(crate) fn node(url: &str) -> Setup {
    let setup = Setup::rules(RULES).with("storage.kind", "redis").with("storage.redis.url", url);
    setup.with("storage.redis.timeout_ms", TIMEOUT_MS)
}

/// Starts `count` nodes that are connected to Redis, with this timeout.
pub(crate) async fn nodes(count: usize, redis: &Redis, timeout_ms: &str) -> Vec<Server> {
    let mut nodes = Vec::new();
    for _ in 0..count {
        let setup = node(&redis.url()).with("storage.redis.timeout_ms", timeout_ms);
        let mut node = setup.start().await;
        node.log.next("shared store connected").await;
        nodes.push(node);
    }
    nodes
}

/// The verdicts of a node for this many requests in sequence, as `OK` or `OVER`.
pub(crate) async fn verdicts(node: &Server, text: &str, times: usize) -> Vec<&'static str> {
    let mut verdicts = Vec::new();
    for _ in 0..times {
        verdicts.push(overall(&node.ask("d", text).await));
    }
    verdicts
}

/// The value of a metric.
pub(crate) async fn metric(node: &Server, series: &str) -> u64 {
    let page = node.metrics().await;
    page.metric(&format!("hivemind_store_{series}")).unwrap_or_else(|| panic!("no {series}: {}", page.body))
}

/// The number of limits decided by a fallback policy.
pub(crate) async fn fallbacks(node: &Server, policy: &str) -> u64 {
    metric(node, &format!("fallbacks_total{{policy=\"{policy}\"}}")).await
}

/// Waits until a metric satisfies a condition.
pub(crate) async fn until_metric(node: &Server, series: &str, condition: impl Fn(u64) -> bool) {
    within(series, async {
        while !condition(metric(node, series).await) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The status and the body of `/readyz`.
pub(crate) async fn readiness(node: &Server) -> (u16, String) {
    let page = get(node.admin, "/readyz").await;
    (page.code, page.body)
}
