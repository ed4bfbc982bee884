//! One line in the log for each write: who, what and what became of it. Neither values of entries nor secrets are in it.

use super::API;
use super::guard::Visitor;
use crate::harmless::harmless;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

/// These are sent like writes because they have a body, and change nothing.
const READ_LIKE: [&str; 3] = ["/api/v1/keys/lookup", "/api/v1/explain", "/api/v1/simulate"];
/// As much of a path as a line has.
const LONGEST_PATH: usize = 200;

pub(super) async fn audited(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_read = [Method::GET, Method::HEAD].contains(request.method()) || READ_LIKE.contains(&path);
    if is_read || !path.starts_with(API) {
        return next.run(request).await;
    }
    let who = request.extensions().get::<Visitor>().map(|visitor| visitor.who.to_string());
    let mut line = Line {
        who: who.unwrap_or_default(),
        method: harmless(request.method().as_str(), 16),
        path: harmless(path, LONGEST_PATH),
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
    status: Option<StatusCode>,
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self { who, method, path, status } = self;
        match status {
            // A method that there is none of is no write.
            Some(StatusCode::METHOD_NOT_ALLOWED) => {}
            Some(status) => {
                let status = status.as_u16();
                tracing::info!(target: "hivemind::audit", who, method, path, status, "a write by the admin API");
            }
            None => {
                tracing::info!(
                    target: "hivemind::audit",
                    who,
                    method,
                    path,
                    "a write by the admin API whose caller went before it was answered"
                );
            }
        }
    }
}
