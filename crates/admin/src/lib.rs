//! The admin port: health, the JSON form of the rate limit service, the operator API (rules, keys, decisions,
//! simulation, events) and the dashboard. Terms: `docs/GLOSSARY.md`.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

mod about;
mod audit;
mod blocks;
mod bodies;
mod bounds;
mod config;
mod dashboard;
mod decisions;
mod descriptor;
mod etag;
mod events;
mod explain;
mod guard;
mod json;
mod keys;
mod limit;
mod limits;
mod live;
mod log;
mod object;
mod openapi;
mod page_query;
mod peers;
mod query;
mod reload;
mod reply;
mod rlconfig;
mod rules;
mod simulate;
mod stats;
#[cfg(test)]
mod tests;
mod time;
mod top;
mod unique_names;
mod value_count;
mod whole;

pub use about::About;
pub use bounds::Bounds;
pub use events::publish as publish_events;
pub use guard::{Guard, Reach, guarded};
#[cfg(any(test, fuzzing, feature = "testing"))]
pub use json::request as request_of_json;
pub use live::{Live, Stays};
pub use stats::{Gauge, Room};

use audit::AuditSubject;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use guard::Caller;
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::health::{Component, Health};
use hivemind_engine::mesh::RunningMesh;
use hivemind_engine::storage::Storage;
use hivemind_envoy::rls::{CallError, RateLimitService};
use hivemind_gateway::Gateway;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::logging::RunningLog;
use hivemind_telemetry::trace::DecisionSpan;
use hivemind_tls::access::{Access, AccessGrant};
pub use reload::{ReloadRequest, Reloads};
use std::sync::Arc;
use std::time::Duration;

/// Prefix of all API paths.
const API: &str = "/api/v1/";

/// Maximum length of a reason in a header.
const LONGEST_REASON: usize = 300;

/// Time limit to receive and answer a request.
const LONGEST: Duration = Duration::from_secs(30);
/// Time limit for a remote store.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Admin {
    pub service: RateLimitService,
    pub health: Arc<Health>,
    pub reloads: Reloads,
    /// None if limits are not shared by a mesh.
    pub mesh: Option<Arc<RunningMesh>>,
    pub log: Arc<RunningLog>,
    /// None without a gateway.
    pub gateway: Option<Arc<Gateway>>,
    pub about: Arc<About>,
    pub storage: Arc<Storage>,
    pub access: Access,
    pub room: Arc<Room>,
    pub live: Arc<Live>,
    pub bounds: Arc<Bounds>,
}

/// All routes of the admin port.
pub fn router(admin: Admin) -> Router {
    let pages = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/healthcheck", get(healthcheck))
        .route("/json", any(json))
        .route("/rlconfig", get(rlconfig))
        .route("/api/v1/reload", post(reload))
        .route("/api/v1/peers", get(peers::list))
        .route("/api/v1/peers/{name}/forget", post(peers::forget))
        .route("/api/v1/top", get(top))
        .route("/api/v1/log", get(log).put(change_log))
        .merge(about::routes())
        .merge(config::routes())
        .merge(explain::routes())
        .merge(limits::routes())
        .merge(openapi::routes())
        .merge(rules::routes())
        .merge(keys::routes())
        .merge(blocks::routes())
        .merge(dashboard::routes())
        .merge(stats::routes())
        .merge(events::routes())
        .merge(decisions::routes())
        .merge(simulate::routes())
        .route_layer(from_fn(query::known))
        .layer(from_fn_with_state(admin.clone(), bodies::gathered));
    surrounded(pages, LONGEST).with_state(admin)
}

/// Wraps routes with a time limit, problem responses, the audit log and entity tags.
fn surrounded<S: Clone + Send + Sync + 'static>(pages: Router<S>, longest: Duration) -> Router<S> {
    pages
        .layer(from_fn_with_state(longest, reply::in_time))
        .layer(from_fn(reply::in_words))
        .layer(from_fn(audit::audit))
        .layer(from_fn(etag::tagged))
}

async fn readyz(
    State(admin): State<Admin>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let health = &admin.health;
    let code = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if !wants_json(&uri, &headers) {
        return (code, health_text(health, &caller)).into_response();
    }
    let mut body = serde_json::json!({"status": health.word()});
    if let (true, Some(members)) = (caller.sees_clients, body.as_object_mut()) {
        members.insert("components".to_owned(), Component::shown(&health.components()));
    }
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string() + "\n").into_response()
}

/// `?verbose` is for probes and people, the `Accept` header for programs.
fn wants_json(uri: &Uri, headers: &HeaderMap) -> bool {
    let is_verbose = |query: &str| query.split('&').any(|part| part.split('=').next() == Some("verbose"));
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    uri.query().is_some_and(is_verbose) || accepted.is_some_and(|types| types.contains("application/json"))
}

/// The details of all components for visitors who may read `/api/v1/config`, and one word for others.
fn health_text(health: &Health, caller: &Caller) -> String {
    if caller.sees_clients { health.details() } else { format!("{}\n", health.word()) }
}

/// The reference's health check: 200 and `OK`, or 500.
async fn healthcheck(State(admin): State<Admin>, Extension(caller): Extension<Caller>) -> Response {
    if admin.health.is_ready() {
        return (StatusCode::OK, "OK").into_response();
    }
    (StatusCode::INTERNAL_SERVER_ERROR, health_text(&admin.health, &caller)).into_response()
}

/// The JSON form of a call, as in the reference: 200, 429, or 400 for anything that cannot be decided.
async fn json(
    State(admin): State<Admin>,
    Extension(caller): Extension<Caller>,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut span = admin.service.sample(&headers, Frontend::Json);
    let grant = caller.grant.as_deref();
    let response = respond(answer_json(&admin.service, grant, &body, span.as_mut()).await);
    if let Some(span) = &mut span {
        span.set_method(&method);
        span.record_http_status(response.status());
    }
    response
}

/// Why a JSON request was not decided.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    #[error(transparent)]
    Call(#[from] CallError),
    /// The request is not valid, or the response cannot be encoded.
    #[error("{0}")]
    Json(String),
}

fn respond(answered: Result<(bool, String), NoAnswer>) -> Response {
    match answered {
        Ok((over, text)) => {
            let code = if over { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
            (code, [(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(NoAnswer::Call(error @ CallError::DomainNotAllowed)) => {
            (StatusCode::FORBIDDEN, format!("{error}\n")).into_response()
        }
        Err(why) => bad_request(&why.to_string()),
    }
}

/// Returns whether the request is over its limit, and the response body.
pub async fn answer_json(
    service: &RateLimitService,
    grant: Option<&AccessGrant>,
    body: &[u8],
    span: Option<&mut DecisionSpan>,
) -> Result<(bool, String), NoAnswer> {
    let mut answer = Vec::new();
    let deadline = SystemClock.now().saturating_add(ANSWERED_WITHIN);
    let request = json::request(body).map_err(NoAnswer::Json)?;
    service.should_rate_limit(&request, (grant, Frontend::Json), Some(deadline), span, &mut answer).await?;
    json::response(&answer).map_err(NoAnswer::Json)
}

/// The exact body of the reference; the reason is in a header.
fn bad_request(reason: &str) -> Response {
    let mut response = (StatusCode::BAD_REQUEST, "Bad Request\n").into_response();
    // The reason may quote the request, at any length.
    let shown = reason.chars().take(LONGEST_REASON).map(|c| if c.is_control() { ' ' } else { c });
    if let Ok(reason) = HeaderValue::from_bytes(shown.collect::<String>().as_bytes()) {
        response.headers_mut().insert("x-error", reason);
    }
    response
}

async fn reload(State(admin): State<Admin>) -> Response {
    reload::answer(admin.reloads.all().await)
}

/// The keys with the most refusals, or the highest spending.
async fn top(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    top::answer(&admin, query.as_deref())
}

/// The log levels, and which decisions are logged.
async fn log(State(admin): State<Admin>) -> Response {
    log::shown(&admin.log)
}

async fn change_log(
    State(admin): State<Admin>,
    Extension(audited): Extension<AuditSubject>,
    body: Bytes,
) -> Result<Response, Response> {
    let change = log::asked(&body)?;
    audited.set_change(&change.to_string());
    admin.log.change(change);
    Ok(log::shown(&admin.log))
}

async fn rlconfig(State(admin): State<Admin>, Extension(caller): Extension<Caller>) -> String {
    let visibility = admin.visibility_for(&caller);
    admin.service.0.with_rules(|rules| rlconfig::dump(rules, visibility))
}
