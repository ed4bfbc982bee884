//! Who may ask the admin port for what. Probes may always ask for health. Where a token or keys are set, all else
//! needs the token or an operator's key, and `/json` the key of a caller. Where none is, the port is open to those on this
//! machine and to those with a certificate; others may call and read what is on a list, and change nothing. The browser of somebody on this
//! machine is no such visitor for the pages of others, also where they have made their name lead here; for them it may not even call.

mod host;
mod lists;
mod refusal;
mod visitor;

pub(super) use visitor::Visitor;

use super::audit::RefusedWrites;
use crate::service::Service;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use hivemind_tls::access::{Access, KEY_HEADER};
use host::{asked_host, is_of_another_page, is_own_name};
use lists::is_for_all;
use refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use visitor::Who;

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
    let visitor = guard.visitor(&request);
    let figures = &guard.service.stats().access;
    let judged = visitor.judge(request.method(), request.uri().path());
    if let Err(refusal) = guard.is_asked_for_by_name(&request).and(judged) {
        let counter = match refusal {
            Refusal::Unknown => &figures.unauthenticated,
            _ => &figures.denied,
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

impl Guard {
    /// Whether whoever asks by no name but an address' means this port. A name leads where its owner says: a page of
    /// theirs may have had it lead here after it was loaded, and is of this very origin to the browser.
    fn is_meant(&self, request: &Request) -> bool {
        let is_open = self.reach == Reach::Loopback && !self.access.is_asked_for();
        // No browser leaves it out.
        !is_open || asked_host(request).is_none_or(is_own_name)
    }

    /// The same for what is not for all, by whatever name.
    fn is_asked_for_by_name(&self, request: &Request) -> Result<(), Refusal> {
        let is_let_in = is_for_all(request.method(), request.uri().path()) || self.is_meant(request);
        if is_let_in { Ok(()) } else { Err(Refusal::NotOurName) }
    }

    fn visitor(&self, request: &Request) -> Visitor {
        // Before anything is compared with them: if they change meanwhile, this is the number of those before.
        let generations = self.access.generations();
        let headers = request.headers();
        let key = headers.get(KEY_HEADER).map(HeaderValue::as_bytes);
        let keys = self.access.keys.as_ref().map(|keys| keys.in_force());
        let grant = keys.and_then(|keys| keys.grant(key?));
        let has_token = bearer(headers).is_some_and(|token| self.access.is_token(token));
        let has_key = grant.as_ref().is_some_and(|grant| grant.is_admin);
        let is_open = !self.access.is_asked_for();
        let is_operator = has_token || has_key || is_open;
        let who = match &grant {
            _ if has_token => Who::Token,
            Some(grant) => Who::Key(Arc::clone(grant)),
            None => Who::Place(self.reach),
        };
        // A page cannot send what it does not know, so with a token or a key it may be of any site.
        let is_another_page = is_open && is_of_another_page(request);
        let is_private = self.reach != Reach::Network && !is_another_page;
        // Health is asked for by any name, and then is one word.
        let sees_clients = is_operator && (is_private || !is_open) && self.is_meant(request);
        Visitor {
            is_operator,
            // A token opens every domain.
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
