//! What is open to whom, where nobody is known by anything.

use crate::admin::API;
use axum::http::Method;

/// What a probe asks for.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/healthcheck"];
/// A call for a decision, as the rate limit service has it.
const CALL: &str = "/json";
/// What strangers may read of the API where the port asks for nothing: neither who somebody's clients are nor what this
/// machine's files are called. What is not on this list is not for them, whatever it is.
const FOR_STRANGERS: [&str; 7] = [
    "/api/v1/limits",
    "/api/v1/log",
    "/api/v1/openapi.json",
    "/api/v1/peers",
    "/api/v1/rules",
    "/api/v1/stats",
    "/api/v1/version",
];
/// Sent like a write because it has a body; it tells no more than the rules do.
const EXPLAIN: &str = "/api/v1/explain";
/// The page, which has no data in it.
const PAGE: &str = "/";
const ASSETS: &str = "/assets/";

/// What everybody may have: probes, and the page without its data.
pub(super) fn is_for_all(method: &Method, path: &str) -> bool {
    let is_page = path == PAGE || path.starts_with(ASSETS);
    HEALTH.contains(&path) || (is_page && [Method::GET, Method::HEAD].contains(method))
}

/// What those may have who are known by nothing, and come from elsewhere.
pub(super) fn is_for_strangers(method: &Method, path: &str) -> bool {
    let is_open = !path.starts_with(API) || FOR_STRANGERS.contains(&path);
    is_sent(path) || (is_open && [Method::GET, Method::HEAD].contains(method))
}

/// What has a body, and is for strangers all the same. A browser sends such a body for any page, and asks nobody first.
pub(super) fn is_sent(path: &str) -> bool {
    path == CALL || path == EXPLAIN
}

/// What a caller's key opens.
pub(super) fn is_for_callers(path: &str) -> bool {
    path == CALL
}
