//! Who may ask the admin port for what. Probes may always ask for health. Where a token or keys are set, all else
//! needs the token or an operator's key, and `/json` the key of a caller. Where none is, the port is open to those on this
//! machine and to those with a certificate; others may call and read what is on a list, and change nothing. The browser of somebody on this
//! machine is no such visitor for the pages of others, also where they have made their name lead here.

use super::API;
use super::audit::RefusedWrites;
use super::reply::problem;
use crate::access::{Access, Grant, KEY_HEADER};
use crate::service::Service;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

/// Who can come to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Whoever can reach this machine.
    Network,
    /// Whoever is on this machine; in plaintext, so that a browser asks for any name that leads here.
    Loopback,
    /// The same behind a certificate, which is of no other name, or anybody with a certificate of ours.
    Private,
    /// Whoever may open the file.
    Socket,
}

/// One listener's.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) access: Access,
    pub(crate) reach: Reach,
    pub(crate) service: Arc<Service>,
    pub(crate) refused: Arc<RefusedWrites>,
}

/// Who asks, as far as it matters to a page.
#[derive(Clone)]
pub(super) struct Visitor {
    /// Whether everything may be told.
    pub(super) is_operator: bool,
    /// What the key opens that came with it.
    pub(super) grant: Option<Arc<Grant>>,
    pub(super) who: Who,
    /// Whether it may be told of clients.
    pub(super) sees_clients: bool,
    /// The keys and tokens that it was known by, as numbers that change with them.
    pub(super) generations: [u64; 2],
}

/// By what somebody is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// One of the operators' tokens.
    Token,
    /// The key of this name.
    Key(Arc<Grant>),
    /// Where it comes from.
    Place(Reach),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token => f.write_str("token"),
            Self::Key(grant) => write!(f, "key {}", grant.name),
            Self::Place(Reach::Network) => f.write_str("network"),
            Self::Place(Reach::Loopback | Reach::Private) => f.write_str("private"),
            Self::Place(Reach::Socket) => f.write_str("socket"),
        }
    }
}

/// Asks everybody who comes to these pages.
pub(crate) fn guarded(pages: Router, guard: Guard) -> Router {
    pages.layer(from_fn_with_state(guard, admit)).layer(from_fn(kept_here))
}

/// Whatever is answered is no script and no picture of another site's page.
async fn kept_here(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("same-origin"));
    response
}

async fn admit(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let is_private = guard.reach != Reach::Network && !is_of_another_page(&request);
    let visitor = guard.visitor(request.headers(), is_private);
    let figures = &guard.service.stats().access;
    let judged = visitor.judge(request.method(), request.uri().path());
    if let Err(refusal) = judged.and_then(|()| guard.is_meant(&request)) {
        let counter = match refusal {
            Refusal::Unknown => &figures.unauthenticated,
            Refusal::NotAllowed | Refusal::Outside | Refusal::NotOurName => &figures.denied,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let (status, why, _) = refusal.told();
        let is_known = matches!(visitor.who, Who::Token | Who::Key(_));
        guard.refused.tell(&request, (&visitor.who.to_string(), is_known), status, why);
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
    NotOurName,
}

/// What everybody may have: probes, and the page without its data.
fn is_for_all(method: &Method, path: &str) -> bool {
    let is_page = path == PAGE || path.starts_with(ASSETS);
    HEALTH.contains(&path) || (is_page && [Method::GET, Method::HEAD].contains(method))
}

/// What those may have who are known by nothing, and come from elsewhere.
fn is_for_strangers(method: &Method, path: &str) -> bool {
    let is_open = !path.starts_with(API) || FOR_STRANGERS.contains(&path);
    path == CALL || path == EXPLAIN || (is_open && [Method::GET, Method::HEAD].contains(method))
}

impl Guard {
    /// Whether whoever asks by no name but an address' means this port. A name leads where its owner says: a page of
    /// theirs may have had it lead here after it was loaded, and is of this very origin to the browser.
    fn is_meant(&self, request: &Request) -> Result<(), Refusal> {
        let is_open = self.reach == Reach::Loopback && !self.access.is_asked_for();
        if !is_open || is_for_all(request.method(), request.uri().path()) {
            return Ok(());
        }
        // No browser leaves it out.
        let Some(host) = asked_host(request) else { return Ok(()) };
        if is_own_name(host) { Ok(()) } else { Err(Refusal::NotOurName) }
    }

    fn visitor(&self, headers: &HeaderMap, is_private: bool) -> Visitor {
        // Before anything is compared with them: if they change meanwhile, this is the number of those before.
        let generations = self.access.generations();
        let key = headers.get(KEY_HEADER).map(HeaderValue::as_bytes);
        let keys = self.access.keys.as_ref().map(|keys| keys.in_force());
        let grant = keys.and_then(|keys| keys.grant(key?));
        let has_token = bearer(headers).is_some_and(|token| self.access.is_token(token));
        let has_key = grant.as_ref().is_some_and(|grant| grant.is_admin);
        let is_operator = has_token || has_key || !self.access.is_asked_for();
        let who = match &grant {
            _ if has_token => Who::Token,
            Some(grant) => Who::Key(Arc::clone(grant)),
            None => Who::Place(self.reach),
        };
        let sees_clients = is_operator && (is_private || self.access.is_asked_for());
        // A token opens every domain.
        Visitor { is_operator, grant: grant.filter(|_| !has_token), who, sees_clients, generations }
    }
}

impl Visitor {
    fn judge(&self, method: &Method, path: &str) -> Result<(), Refusal> {
        if is_for_all(method, path) {
            return Ok(());
        }
        match (self.is_operator, &self.grant) {
            (true, _) if !self.sees_clients && !is_for_strangers(method, path) => Err(Refusal::Outside),
            (true, _) => Ok(()),
            (false, Some(_)) if path == CALL => Ok(()),
            (false, Some(_)) => Err(Refusal::NotAllowed),
            (false, None) => Err(Refusal::Unknown),
        }
    }
}

/// Whether a page of another site asks, by the browser of somebody of this house.
fn is_of_another_page(request: &Request) -> bool {
    // A page that only embeds what is here says no origin; its browser says that it is another's.
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| ![&b"same-origin"[..], b"none"].contains(&site)) {
        return true;
    }
    let Some(origin) = request.headers().get(header::ORIGIN) else { return false };
    let host =
        [&b"http://"[..], b"https://"].iter().find_map(|scheme| origin.as_bytes().strip_prefix(*scheme));
    host.is_none() || host != asked_host(request)
}

/// The name, and the port, that a request was sent to.
fn asked_host(request: &Request) -> Option<&[u8]> {
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    host.or_else(|| request.uri().authority().map(|authority| authority.as_str().as_bytes()))
}

/// Whether nobody else can have this name: an address, or this machine's own name for itself.
fn is_own_name(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        let has_end = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return has_end && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    is_port(port) && (name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok())
}

/// The token of `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}

impl Refusal {
    const fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
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
                "Where no token is set, this is for those on this machine; set `security.admin.token_file`.",
            ),
            Self::NotOurName => (
                StatusCode::MISDIRECTED_REQUEST,
                "Not by this name",
                "Where no token is set, this port is asked for by its address or as `localhost`; for other names, set \
                 `security.admin.token_file`.",
            ),
        }
    }

    fn answer(self) -> Response {
        let (status, title, detail) = self.told();
        let mut response = problem(status, title, detail);
        if self == Self::Unknown {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::is_own_name;

    // Seen failing on: names that begin as `localhost`.
    #[test]
    fn only_addresses_and_localhost_are_names_that_nobody_else_can_have() {
        for own in ["localhost", "LOCALHOST:1", "127.0.0.1", "192.0.2.7:8080", "[::1]", "[2001:db8::1]:80"] {
            assert!(is_own_name(own.as_bytes()), "{own}");
        }
        for others in [
            "",
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[evil]",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "127.0.0.1:x",
            "::1",
            "1",
        ] {
            assert!(!is_own_name(others.as_bytes()), "{others}");
        }
    }
}
