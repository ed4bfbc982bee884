//! Authorization of the admin port.
//!
//! Probes may always read health. If a token or keys are set, everything else needs the token or an operator's key,
//! and `/json` needs a caller's key. If none is set, the port is open to this machine and to clients with a
//! certificate; others may call and read what is on a list, and change nothing. A browser on this machine that acts
//! for another site's page has no such access, even after DNS rebinding; such a page may not even call.

mod caller;
mod host;
mod lists;
mod refusal;

pub(super) use caller::Caller;

use super::audit::{AuditCaller, RefusedWrites, is_write};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use caller::CallerIdentity;
use hivemind_engine::service::Service;
use hivemind_tls::access::{Access, KEY_HEADER};
use hivemind_tls::connections::ConnectionPermit;
use host::{asked_host, is_of_another_page, is_own_name};
use lists::is_for_all;
use refusal::AccessRefusal;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The clients that can reach a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any client that can reach this machine.
    Network,
    /// Any process on this machine, in plaintext: a browser may come with any name that resolves here.
    Loopback,
    /// Processes on this machine over TLS, whose certificate has no other name; or any client with a certificate of
    /// ours.
    Private,
    /// Processes that may open the socket.
    Socket,
}

/// The guard of one listener.
#[derive(Clone)]
pub struct Guard {
    pub access: Access,
    pub reach: Reach,
    pub service: Arc<Service>,
    pub refused: Arc<RefusedWrites>,
}

/// Guards all routes of a listener.
pub fn guarded(pages: Router, guard: Guard) -> Router {
    pages.layer(from_fn_with_state(guard, admit)).layer(from_fn(kept_here))
}

/// Forbids other sites to use responses as scripts or images.
async fn kept_here(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("same-origin"));
    response
}

async fn admit(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let caller = guard.caller(&request);
    let access_stats = &guard.service.stats().access;
    let is_authenticated = matches!(caller.who, CallerIdentity::Token | CallerIdentity::Key(_));
    let judged = caller.judge(request.method(), request.uri().path());
    if let Err(refusal) = guard.is_asked_for_by_name(&request).and(judged) {
        let counter = match refusal {
            AccessRefusal::Unknown => &access_stats.unauthenticated,
            _ => &access_stats.denied,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let (status, why, _) = refusal.response_parts();
        guard.refused.log(&request, (&caller.who.to_string(), is_authenticated), status, why);
        return refusal.answer();
    }
    // The connection keeps its place, and its client may use the reserve.
    let permit = request.extensions().get::<Weak<ConnectionPermit>>().and_then(Weak::upgrade);
    if let (true, Some(permit)) = (is_authenticated, permit) {
        permit.record_authenticated();
    }
    if is_write(request.method(), request.uri().path()) {
        request.extensions_mut().insert(AuditCaller(caller.who.to_string()));
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

impl Guard {
    /// Whether the request's host name is this port's own. A name resolves to whatever its owner wants: a page loaded
    /// from it can be rebound to this port, and is then same-origin for the browser.
    fn is_meant(&self, request: &Request) -> bool {
        let is_open = self.reach == Reach::Loopback && !self.access.is_asked_for();
        // Browsers always send a host.
        !is_open || asked_host(request).is_none_or(is_own_name)
    }

    /// The same for all but public paths.
    fn is_asked_for_by_name(&self, request: &Request) -> Result<(), AccessRefusal> {
        let is_let_in = is_for_all(request.method(), request.uri().path()) || self.is_meant(request);
        if is_let_in { Ok(()) } else { Err(AccessRefusal::NotOurName) }
    }

    fn caller(&self, request: &Request) -> Caller {
        // Read before anything is compared: if the keys change meanwhile, these are the older generations.
        let generations = self.access.generations();
        let headers = request.headers();
        let key = headers.get(KEY_HEADER).map(HeaderValue::as_bytes);
        let keys = self.access.keys.as_ref().map(|keys| keys.active());
        let grant = keys.and_then(|keys| keys.grant(key?));
        let has_token = bearer(headers).is_some_and(|token| self.access.is_token(token));
        let has_key = grant.as_ref().is_some_and(|grant| grant.is_admin);
        let is_open = !self.access.is_asked_for();
        let is_operator = has_token || has_key || is_open;
        let who = match &grant {
            _ if has_token => CallerIdentity::Token,
            Some(grant) => CallerIdentity::Key(Arc::clone(grant)),
            None => CallerIdentity::Listener(self.reach),
        };
        // A page cannot send a token or key that it does not know, so an authenticated request may come from any
        // site.
        let is_another_page = is_open && is_of_another_page(request);
        let is_private = self.reach != Reach::Network && !is_another_page;
        // Health may be requested under any name, and is then only one word.
        let sees_clients = is_operator && (is_private || !is_open) && self.is_meant(request);
        Caller {
            is_operator,
            // A token gives access to every domain.
            grant: grant.filter(|_| !has_token),
            who,
            sees_clients,
            is_another_page,
            generations,
        }
    }
}

/// The token of `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii())
}
