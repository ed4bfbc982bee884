//! API responses: JSON, and problem details (RFC 9457) for errors.

use super::API;
use super::unique_names::{as_written, reject_duplicate_names};
use super::value_count::few_values;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::timeout;

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A 200 response with a JSON body.
pub(super) fn ok(body: &Value) -> Response {
    (StatusCode::OK, [(header::CONTENT_TYPE, "application/json")], body.to_string() + "\n").into_response()
}

/// A problem response: the cause, and what to do.
pub(super) fn problem(status: StatusCode, title: &str, detail: &str) -> Response {
    problem_with(status, title, detail, Map::new())
}

/// A problem response with additional members.
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

/// Reads a JSON object from a body, or returns the problem.
#[expect(clippy::result_large_err, reason = "it is the answer")]
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    // serde would also read a struct from a list, by position.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(no_question("The body must be a JSON object; see `/api/v1/openapi.json`."));
    }
    few_values(body).map_err(|error| no_question(&format!("Invalid body: {error}.")))?;
    let read = serde_json::from_slice(body);
    read.and_then(|read| reject_duplicate_names(body, as_written).map(|()| read)).map_err(|error| {
        // The parser's text may quote the body, at any length.
        let detail: String = error.to_string().chars().take(300).collect();
        no_question(&format!("Invalid body: {detail}."))
    })
}

/// A 400 response.
pub(super) fn no_question(detail: &str) -> Response {
    problem(StatusCode::BAD_REQUEST, "Invalid request", detail)
}

/// A 503 response with `Retry-After`.
pub(super) fn not_now(detail: &str) -> Response {
    let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "Temporarily unavailable", detail);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

/// A 413 response.
pub(super) fn too_large(detail: &str) -> Response {
    problem(StatusCode::PAYLOAD_TOO_LARGE, "Too large", detail)
}

/// A 422 response.
pub(super) fn senseless(detail: &str) -> Response {
    problem(StatusCode::UNPROCESSABLE_ENTITY, "Unprocessable request", detail)
}

/// Applies the time limit. It runs inside the response layers, so that a timeout response is handled like any other.
pub(super) async fn in_time(State(longest): State<Duration>, request: Request, next: Next) -> Response {
    let answered = timeout(longest, next.run(request)).await;
    answered.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response())
}

/// Turns error responses without a text into problem responses, also where no handler ran. Outside of the API, a
/// response with its own text stays.
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
        StatusCode::NOT_FOUND => ("Not found", "See `/api/v1/openapi.json` for all paths."),
        StatusCode::METHOD_NOT_ALLOWED => {
            ("Method not allowed", "The header `Allow` lists the allowed methods.")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ("Too large", "Send less at once."),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ("Unsupported media type", "Send JSON, as `application/json`."),
        StatusCode::REQUEST_TIMEOUT => {
            ("Request timeout", "The change may still take effect: check before you retry.")
        }
        _ if status.is_server_error() => ("Internal error", "The service log may contain the cause."),
        _ => ("Invalid request", "See `/api/v1/openapi.json` for valid requests."),
    };
    let mut answer = problem(status, title, detail);
    if let Some(allow) = response.headers().get(header::ALLOW) {
        answer.headers_mut().insert(header::ALLOW, allow.clone());
    }
    answer
}
