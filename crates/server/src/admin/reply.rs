//! What the API answers: JSON, and problem details (RFC 9457) for what cannot be answered.

use super::API;
use super::twice::{as_written, none_twice};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::timeout;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

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
    (status, [(header::CONTENT_TYPE, PROBLEM)], Value::Object(members).to_string() + "\n").into_response()
}

/// What a body says; or what to send instead.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    // A list could be read as one, by the order of what is in it.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(no_question("The body: an object is asked for, as `/api/v1/openapi.json` has it."));
    }
    let read = serde_json::from_slice(body);
    read.and_then(|read| none_twice(body, as_written).map(|()| read)).map_err(|error| {
        // What the parser says may have in it what the body had, at any length.
        let detail: String = error.to_string().chars().take(300).collect();
        no_question(&format!("The body: {detail}."))
    })
}

/// 400, and what to ask instead.
pub(super) fn no_question(detail: &str) -> Response {
    problem(StatusCode::BAD_REQUEST, "Not a question", detail)
}

/// 503, and when to come again.
pub(super) fn not_now(detail: &str) -> Response {
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "Not now", detail);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

/// 413, and how much there may be.
pub(super) fn too_large(detail: &str) -> Response {
    problem(StatusCode::PAYLOAD_TOO_LARGE, "Too large", detail)
}

/// What makes no sense.
pub(super) fn senseless(detail: &str) -> Response {
    problem(StatusCode::UNPROCESSABLE_ENTITY, "That makes no sense", detail)
}

/// Ends what takes longer than this. Within all that tells of an answer, so that it is told like any other.
pub(super) async fn in_time(State(longest): State<Duration>, request: Request, next: Next) -> Response {
    let answered = timeout(longest, next.run(request)).await;
    answered.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response())
}

/// Whatever cannot be answered is a problem with a text, also where no handler saw it. Outside of the API, whoever has said
/// something else has said it.
pub(super) async fn in_words(request: Request, next: Next) -> Response {
    let is_of_api = request.uri().path().starts_with(API);
    let response = next.run(request).await;
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    let is_silent = !response.headers().contains_key(header::CONTENT_TYPE);
    if !(is_of_api || is_silent)
        || !is_error
        || response.headers().get(header::CONTENT_TYPE) == Some(&PROBLEM)
    {
        return response;
    }
    let status = response.status();
    let (title, detail) = match status {
        StatusCode::NOT_FOUND => ("There is nothing here", "See `/api/v1/openapi.json` for what there is."),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("Not by this method", "The header `Allow` has those that there are.")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ("Too large", "Send less at once."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ("Not in this form", "Send JSON, as `application/json`."),
        StatusCode::REQUEST_TIMEOUT => {
            ("Too slow", "It may be done all the same: look before you ask for a change again.")
        }
        _ if status.is_server_error() => ("Something is wrong here", "The log of the service may say what."),
        _ => ("Not a question", "See `/api/v1/openapi.json` for what can be asked."),
    };
    let mut told = problem(status, title, detail);
    if let Some(allow) = response.headers().get(header::ALLOW) {
        told.headers_mut().insert(header::ALLOW, allow.clone());
    }
    told
}
