//! The admin port: health, the service's JSON twin, the rules in force, and loading them anew.

mod guard;
mod json;
mod peers;
mod reload;
mod rlconfig;

pub(crate) use guard::{Guard, guarded};
#[cfg(test)]
pub(crate) use json::request as request_of_json;

use crate::access::Grant;
use crate::front::rls::{CallError, RateLimitService};
use crate::health::Health;
use crate::mesh::RunningMesh;
use crate::reload::Reloads;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use guard::Visitor;
use hivemind_core::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// No request for a decision is longer.
const LARGEST_BODY: usize = 1 << 20;
/// What a store that has to wait is granted.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Admin {
    pub(crate) service: RateLimitService,
    pub(crate) health: Arc<Health>,
    pub(crate) reloads: Reloads,
    /// None: limits are not shared by a mesh.
    pub(crate) mesh: Option<Arc<RunningMesh>>,
}

/// Everything that the admin port serves.
pub(crate) fn router(admin: Admin) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/healthcheck", get(healthcheck))
        .route("/json", any(json))
        .route("/rlconfig", get(rlconfig))
        .route("/api/v1/reload", post(reload))
        .route("/api/v1/peers", get(peers::list))
        .route("/api/v1/peers/{name}/forget", post(peers::forget))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(admin)
}

async fn readyz(State(admin): State<Admin>, Extension(visitor): Extension<Visitor>) -> Response {
    let code = if admin.health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, told(&admin.health, &visitor)).into_response()
}

/// To operators everything, to others one word.
fn told(health: &Health, visitor: &Visitor) -> String {
    if visitor.is_operator { health.details() } else { format!("{}\n", health.word()) }
}

/// The reference's: 200 and `OK`, or 500.
async fn healthcheck(State(admin): State<Admin>, Extension(visitor): Extension<Visitor>) -> Response {
    if admin.health.is_ready() {
        return (StatusCode::OK, "OK").into_response();
    }
    (StatusCode::INTERNAL_SERVER_ERROR, told(&admin.health, &visitor)).into_response()
}

/// The reference's twin of the call: 200, 429, or 400 for whatever cannot be decided.
async fn json(State(admin): State<Admin>, Extension(visitor): Extension<Visitor>, body: Bytes) -> Response {
    match answer_json(&admin.service, visitor.grant.as_deref(), &body).await {
        Ok((over, text)) => {
            let code = if over { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
            (code, [(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        Err(reason) if reason == CallError::NotItsDomain.to_string() => {
            (StatusCode::FORBIDDEN, reason + "\n").into_response()
        }
        Err(reason) => bad_request(&reason),
    }
}

/// Whether the request is over its limit, and the whole answer; or why there is none.
pub(crate) async fn answer_json(
    service: &RateLimitService,
    grant: Option<&Grant>,
    body: &[u8],
) -> Result<(bool, String), String> {
    let mut answer = Vec::new();
    let deadline = SystemClock.now().saturating_add(ANSWERED_WITHIN);
    let answered = service.answer(&json::request(body)?, grant, Some(deadline), &mut answer).await;
    answered.map_err(|error| error.to_string())?;
    json::response(&answer)
}

/// The reference's body, word for word; why is in a header, for people.
fn bad_request(reason: &str) -> Response {
    let mut response = (StatusCode::BAD_REQUEST, "Bad Request\n").into_response();
    if let Ok(reason) = HeaderValue::from_str(reason) {
        response.headers_mut().insert("x-error", reason);
    }
    response
}

async fn reload(State(admin): State<Admin>) -> Response {
    reload::answer(admin.reloads.all().await)
}

async fn rlconfig(State(admin): State<Admin>) -> String {
    admin.service.0.with_rules(rlconfig::dump)
}
