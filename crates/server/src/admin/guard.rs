//! Who may ask the admin port for what. Probes may always ask for health. Where a token or keys are set, all else
//! needs the token or an operator's key, and `/json` the key of a caller. Where none is, the port is open to those on this
//! machine and to those with a certificate; others may look and ask, and change nothing.

use super::reply::problem;
use crate::access::{Access, Grant, KEY_HEADER};
use crate::service::Service;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a probe asks for.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/healthcheck"];
/// A call for a decision, as the rate limit service has it.
const CALL: &str = "/json";
/// What tells who somebody's clients are.
const OF_CLIENTS: [&str; 3] = ["/api/v1/top", "/api/v1/events", "/api/v1/decisions"];

/// One listener's.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) access: Access,
    /// Whether whoever reaches this listener is of this house: on loopback, on a Unix socket, by a certificate.
    pub(crate) is_private: bool,
    pub(crate) service: Arc<Service>,
}

/// Who asks, as far as it matters to a page.
#[derive(Clone)]
pub(super) struct Visitor {
    /// Whether everything may be told.
    pub(super) is_operator: bool,
    /// What the key opens that came with it.
    pub(super) grant: Option<Arc<Grant>>,
}

/// Asks everybody who comes to these pages.
pub(crate) fn guarded(pages: Router, guard: Guard) -> Router {
    pages.layer(from_fn_with_state(guard, admit))
}

async fn admit(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let visitor = guard.visitor(request.headers());
    let figures = &guard.service.stats().access;
    let is_private = guard.is_private && !is_of_another_page(&request);
    if let Err(refusal) = guard.judge(&visitor, is_private, request.method(), request.uri().path()) {
        let counter = match refusal {
            Refusal::Unknown => &figures.unauthenticated,
            Refusal::NotAllowed | Refusal::Outside => &figures.denied,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        return refusal.answer();
    }
    request.extensions_mut().insert(visitor);
    next.run(request).await
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    Unknown,
    NotAllowed,
    Outside,
}

impl Guard {
    fn visitor(&self, headers: &HeaderMap) -> Visitor {
        let key = headers.get(KEY_HEADER).map(HeaderValue::as_bytes);
        let keys = self.access.keys.as_ref().map(|keys| keys.in_force());
        let grant = keys.and_then(|keys| keys.grant(key?));
        let has_token = bearer(headers).is_some_and(|token| self.access.is_token(token));
        let has_key = grant.as_ref().is_some_and(|grant| grant.is_admin);
        let is_operator = has_token || has_key || !self.access.is_asked_for();
        // A token opens every domain.
        Visitor { is_operator, grant: grant.filter(|_| !has_token) }
    }

    fn judge(&self, visitor: &Visitor, is_private: bool, method: &Method, path: &str) -> Result<(), Refusal> {
        if HEALTH.contains(&path) {
            return Ok(());
        }
        // Who somebody's clients are is for operators, like what changes something.
        let is_guarded = ![Method::GET, Method::HEAD].contains(method) || OF_CLIENTS.contains(&path);
        match (visitor.is_operator, &visitor.grant) {
            (true, _) if is_guarded && path != CALL && !self.access.is_asked_for() && !is_private => {
                Err(Refusal::Outside)
            }
            (true, _) => Ok(()),
            (false, Some(_)) if path == CALL => Ok(()),
            (false, Some(_)) => Err(Refusal::NotAllowed),
            (false, None) => Err(Refusal::Unknown),
        }
    }
}

/// Whether a page of another site asks, by the browser of somebody of this house.
fn is_of_another_page(request: &Request) -> bool {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return false };
    let own = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    let own = own.or_else(|| request.uri().authority().map(|authority| authority.as_str().as_bytes()));
    let host =
        [&b"http://"[..], b"https://"].iter().find_map(|scheme| origin.as_bytes().strip_prefix(*scheme));
    host.is_none() || host != own
}

/// The token of `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

impl Refusal {
    fn answer(self) -> Response {
        let (status, title, detail) = match self {
            Self::Unknown => (
                StatusCode::UNAUTHORIZED,
                "Nobody knows who asks",
                "Send the admin token as `Authorization: Bearer TOKEN`, or an API key as `x-api-key`.",
            ),
            Self::NotAllowed => (
                StatusCode::FORBIDDEN,
                "Not with this key",
                "This API key is for calls; send the admin token, or a key with `@admin`.",
            ),
            Self::Outside => (
                StatusCode::FORBIDDEN,
                "Not from outside",
                "Where no token is set, changes are taken on loopback alone; set `security.admin.token_file`.",
            ),
        };
        let mut response = problem(status, title, detail);
        if self == Self::Unknown {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
