//! Nodes that share a Redis, and what they are asked.

use hivemind_testkit::redis::Redis;
use hivemind_testkit::{Server, Setup, get, overall, within};

/// A rule for each policy, and one that has none of its own.
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

/// Longer than by default, because many tests share the machine's cores; far shorter than anybody waits.
pub(crate) const TIMEOUT_MS: &str = "200";
/// For tests of what is exact: there nothing shall be decided by a policy, however slow the machine is.
pub(crate) const PATIENT_MS: &str = "10000";

/// A node that counts in the Redis at this URL.
pub(crate) fn node(url: &str) -> Setup {
    let setup = Setup::rules(RULES).with("storage.kind", "redis").with("storage.redis.url", url);
    setup.with("storage.redis.timeout_ms", TIMEOUT_MS)
}

/// So many nodes that have found their Redis, and wait so long for its answers.
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

/// What a node says to so many requests in turn, as `OK` or `OVER`.
pub(crate) async fn said(node: &Server, text: &str, times: usize) -> Vec<&'static str> {
    let mut said = Vec::new();
    for _ in 0..times {
        said.push(overall(&node.ask("d", text).await));
    }
    said
}

/// A number of the page of metrics.
pub(crate) async fn metric(node: &Server, series: &str) -> u64 {
    let page = node.metrics().await;
    page.metric(&format!("hivemind_store_{series}")).unwrap_or_else(|| panic!("no {series}: {}", page.body))
}

/// How many limits were decided by a policy.
pub(crate) async fn fallbacks(node: &Server, policy: &str) -> u64 {
    metric(node, &format!("fallbacks_total{{policy=\"{policy}\"}}")).await
}

/// Waits until a number of the page of metrics is as wished.
pub(crate) async fn until_metric(node: &Server, series: &str, is_so: impl Fn(u64) -> bool) {
    within(series, async {
        while !is_so(metric(node, series).await) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// What `/readyz` says: its code, and all its lines.
pub(crate) async fn readiness(node: &Server) -> (u16, String) {
    let page = get(node.admin, "/readyz").await;
    (page.code, page.body)
}
