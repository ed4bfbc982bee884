//! Access lists for requests without authentication.

use crate::API;
use axum::http::Method;

/// Probes.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/healthcheck"];
/// A decision request, as in the rate limit service.
const CALL: &str = "/json";
/// The parts of the API that anonymous callers may read on an open port: none reveals clients or file names.
/// Everything else is denied.
const FOR_STRANGERS: [&str; 7] = [
    "/api/v1/limits",
    "/api/v1/log",
    "/api/v1/openapi.json",
    "/api/v1/peers",
    "/api/v1/rules",
    "/api/v1/stats",
    "/api/v1/version",
];
/// Sent with a body like a write; it reveals no more than the rules.
const EXPLAIN: &str = "/api/v1/explain";
/// The dashboard, which contains no data.
const PAGE: &str = "/";
const ASSETS: &str = "/assets/";

/// Public paths: probes, and the dashboard without its data.
pub(super) fn is_for_all(method: &Method, path: &str) -> bool {
    let is_page = path == PAGE || path.starts_with(ASSETS);
    HEALTH.contains(&path) || (is_page && [Method::GET, Method::HEAD].contains(method))
}

/// Paths for anonymous callers from other machines.
pub(super) fn is_for_strangers(method: &Method, path: &str) -> bool {
    let is_open = !path.starts_with(API) || FOR_STRANGERS.contains(&path);
    is_sent(path) || (is_open && [Method::GET, Method::HEAD].contains(method))
}

/// Requests with a body that anonymous callers may send. Browsers send such a body for any page, without a preflight
/// request.
pub(super) fn is_sent(path: &str) -> bool {
    path == CALL || path == EXPLAIN
}

/// Paths for a caller's key.
pub(super) fn is_for_callers(path: &str) -> bool {
    path == CALL
}
