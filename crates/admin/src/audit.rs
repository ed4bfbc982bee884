//! Audit log: one line for each write with caller, subject and result, also for rejected writes. Lines contain
//! neither entry values nor secrets. No log level silences them: even turning the log off is recorded.

use super::API;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::block_list::KeyName;
use hivemind_telemetry::logging::{AUDIT, LineBudget};
use hivemind_tls::escape::escape_line;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

/// Sent with a body like writes, but they change nothing.
const READ_LIKE: [&str; 3] = ["/api/v1/keys/lookup", "/api/v1/explain", "/api/v1/simulate"];
/// Maximum length of a path, or of any other text in a line.
const LONGEST: usize = 200;
/// Lines per second for rejected writes: of callers with a known key, and of all others.
const OF_KNOWN: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
const OF_UNKNOWN: NonZeroU32 = NonZeroU32::MIN;

/// The caller of a write, as the guard of the listener names it.
#[derive(Clone, Debug)]
pub(super) struct AuditCaller(pub(super) String);

/// The subject of a write. Handlers set it as soon as they know it, so that the line contains it even if the write
/// fails.
#[derive(Clone, Debug, Default)]
pub(super) struct AuditSubject(Arc<Mutex<SubjectFields>>);

#[derive(Clone, Debug, Default)]
struct SubjectFields {
    domain: Option<String>,
    keys: Option<String>,
    key_id: Option<String>,
    rule: Option<u64>,
    change: Option<String>,
}

impl AuditSubject {
    /// The key of the write: its entry keys and a hash of the whole key instead of the values, and the number of its
    /// rule.
    pub(super) fn set_key(&self, name: &KeyName, key_id: String, rule: Option<usize>) {
        let keys: Vec<&str> = name.entries().iter().map(|(key, _)| *key).collect();
        let mut subject = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        subject.domain = Some(escape_line(name.domain(), LONGEST));
        subject.keys = Some(escape_line(&keys.join(","), LONGEST));
        subject.key_id = Some(key_id);
        subject.rule = rule.map(|number| number as u64);
    }

    /// The requested change, such as `extra=5`.
    pub(super) fn set_change(&self, change: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).change = Some(escape_line(change, LONGEST));
    }
}

/// Whether a request may change something.
pub(super) fn is_write(method: &Method, path: &str) -> bool {
    path.starts_with(API) && ![Method::GET, Method::HEAD].contains(method) && !READ_LIKE.contains(&path)
}

pub(super) async fn audit(mut request: Request, next: Next) -> Response {
    let audited = AuditSubject::default();
    // Handlers record their subject for reads too.
    request.extensions_mut().insert(audited.clone());
    let path = request.uri().path();
    if !is_write(request.method(), path) {
        return next.run(request).await;
    }
    let who = request.extensions().get::<AuditCaller>().map(|caller| caller.0.clone());
    let mut line = AuditLine {
        who: who.unwrap_or_default(),
        method: escape_line(request.method().as_str(), 16),
        path: escape_line(path, LONGEST),
        audited,
        status: None,
    };
    let response = next.run(request).await;
    line.status = Some(response.status());
    response
}

/// The line of a write, logged on drop: a caller that disconnected may have changed something anyway.
struct AuditLine {
    who: String,
    method: String,
    path: String,
    audited: AuditSubject,
    status: Option<StatusCode>,
}

impl Drop for AuditLine {
    fn drop(&mut self) {
        let Self { who, method, path, audited, status } = self;
        let subject = audited.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let SubjectFields { domain, keys, key_id, rule, change } = subject;
        let (domain, keys) = (domain.as_deref(), keys.as_deref());
        let (key_id, change) = (key_id.as_deref(), change.as_deref());
        match status {
            // An unknown method is not a write.
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
                    "admin API write"
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
                    "admin API write; the caller disconnected before the response"
                );
            }
        }
    }
}

/// Writes that the guard rejected. They must not flood the log: dropped lines are counted, and the next line reports
/// the count.
#[derive(Debug, Default)]
pub struct RefusedWrites {
    of_known: LineBudget,
    of_unknown: LineBudget,
}

impl RefusedWrites {
    /// `is_known` means that the request had a valid key.
    pub(super) fn log(
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
        let (room, most) = if is_known { (&self.of_known, OF_KNOWN) } else { (&self.of_unknown, OF_UNKNOWN) };
        if !room.take(most, SystemClock.now()) {
            return;
        }
        let (method, path) = (escape_line(method.as_str(), 16), escape_line(path, LONGEST));
        let (status, left_out) = (status.as_u16(), room.take_omitted());
        tracing::info!(
            target: AUDIT, who, method, path, status, why, left_out, "admin API write rejected"
        );
    }
}
