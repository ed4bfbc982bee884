//! What the API answers: JSON, and problem details (RFC 9457) for what cannot be answered.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// 200 and this.
pub(super) fn ok(body: &Value) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body.to_string() + "\n").into_response()
}

/// Why there is no answer, and what to do about it.
pub(super) fn problem(status: StatusCode, title: &str, detail: &str) -> Response {
    problem_with(status, title, detail, Map::new())
}

/// The same, with members of its own.
pub(super) fn problem_with(
    status: StatusCode,
    title: &str,
    detail: &str,
    mut members: Map<String, Value>,
) -> Response {
    let known = [("type", json!("about:blank")), ("title", json!(title)), ("status", json!(status.as_u16()))];
    members.extend(known.map(|(name, value)| (name.to_owned(), value)));
    members.insert("detail".to_owned(), json!(detail));
    let kind = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, kind, Value::Object(members).to_string() + "\n").into_response()
}
