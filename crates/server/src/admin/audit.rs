//! One line in the log for each write: who, what and what became of it; also for those that are refused. Neither values of
//! entries nor secrets are in it. No level of the log silences it: whoever turns the log off is in it.

use super::API;
use super::guard::Visitor;
use crate::blocks::KeyName;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use hivemind_core::{Clock, SystemClock};
use hivemind_telemetry::logging::{AUDIT, PerSecond};
use hivemind_tls::harmless::harmless;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

/// These are sent like writes because they have a body, and change nothing.
const READ_LIKE: [&str; 3] = ["/api/v1/keys/lookup", "/api/v1/explain", "/api/v1/simulate"];
/// As much of a path, or of any other text, as a line has.
const LONGEST: usize = 200;
/// Lines in a second for writes of callers whose key is known, and not for that; and for those of anybody.
const OF_KNOWN: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
const OF_ANYBODY: NonZeroU32 = NonZeroU32::MIN;

/// What a write is about. Whoever does it says so as soon as it is known, so that it is in the line also where nothing comes
/// of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Audited(Arc<Mutex<Subject>>);

#[derive(Clone, Debug, Default)]
struct Subject {
    domain: Option<String>,
    keys: Option<String>,
    key_id: Option<String>,
    rule: Option<u64>,
    change: Option<String>,
}

impl Audited {
    /// The key that is meant, without the values of its entries but with a hash of all of it, and the number of its rule.
    pub(super) fn is_of(&self, name: &KeyName, key_id: String, rule: Option<usize>) {
        let keys: Vec<&str> = name.entries().iter().map(|(key, _)| *key).collect();
        let mut subject = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        subject.domain = Some(harmless(name.domain(), LONGEST));
        subject.keys = Some(harmless(&keys.join(","), LONGEST));
        subject.key_id = Some(key_id);
        subject.rule = rule.map(|number| number as u64);
    }

    /// What is to be other: `extra=5`.
    pub(super) fn changes(&self, change: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).change = Some(harmless(change, LONGEST));
    }
}

/// Whether a request of the API is to change something.
fn is_write(method: &Method, path: &str) -> bool {
    path.starts_with(API) && ![Method::GET, Method::HEAD].contains(method) && !READ_LIKE.contains(&path)
}

pub(super) async fn audited(mut request: Request, next: Next) -> Response {
    let audited = Audited::default();
    // Handlers say what they do whether or not it is a write.
    request.extensions_mut().insert(audited.clone());
    let path = request.uri().path();
    if !is_write(request.method(), path) {
        return next.run(request).await;
    }
    let who = request.extensions().get::<Visitor>().map(|visitor| visitor.who.to_string());
    let mut line = Line {
        who: who.unwrap_or_default(),
        method: harmless(request.method().as_str(), 16),
        path: harmless(path, LONGEST),
        audited,
        status: None,
    };
    let response = next.run(request).await;
    line.status = Some(response.status());
    response
}

/// Written when it is dropped: whoever goes before the answer may have written all the same.
struct Line {
    who: String,
    method: String,
    path: String,
    audited: Audited,
    status: Option<StatusCode>,
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self { who, method, path, audited, status } = self;
        let subject = audited.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Subject { domain, keys, key_id, rule, change } = subject;
        let (domain, keys) = (domain.as_deref(), keys.as_deref());
        let (key_id, change) = (key_id.as_deref(), change.as_deref());
        match status {
            // A method that there is none of is no write.
            Some(StatusCode::METHOD_NOT_ALLOWED) => {}
            Some(status) => {
                let status = status.as_u16();
                tracing::info!(
                    target: AUDIT,
                    who,
                    method,
                    path,
                    domain,
                    keys,
                    key_id,
                    rule,
                    change,
                    status,
                    "a write by the admin API"
                );
            }
            None => {
                tracing::info!(
                    target: AUDIT,
                    who,
                    method,
                    path,
                    domain,
                    keys,
                    key_id,
                    rule,
                    change,
                    "a write by the admin API whose caller went before it was answered"
                );
            }
        }
    }
}

/// Writes that the guard refuses. Strangers must not fill the log: what is left out is counted, and told with the next line.
#[derive(Debug, Default)]
pub(crate) struct RefusedWrites {
    of_known: PerSecond,
    of_anybody: PerSecond,
}

impl RefusedWrites {
    /// `is_known` says whether a key of ours came with it.
    pub(super) fn tell(
        &self,
        request: &Request,
        (who, is_known): (&str, bool),
        status: StatusCode,
        why: &str,
    ) {
        let (method, path) = (request.method(), request.uri().path());
        if !is_write(method, path) {
            return;
        }
        let (room, most) = if is_known { (&self.of_known, OF_KNOWN) } else { (&self.of_anybody, OF_ANYBODY) };
        if !room.take(most, SystemClock.now()) {
            return;
        }
        let (method, path) = (harmless(method.as_str(), 16), harmless(path, LONGEST));
        let (status, left_out) = (status.as_u16(), room.left_out());
        tracing::info!(
            target: AUDIT, who, method, path, status, why, left_out, "a write by the admin API that was refused"
        );
    }
}
