//! `GET /api/v1/events`: live dashboard data by server-sent events.

use super::guard::Caller;
use super::live::{Live, Stays, SubscribeError};
use super::reply::problem;
use super::{Admin, about, config, peers, stats, top};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde_json::Value;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// In rounds of one second.
const TOP_EVERY: u64 = 2;
const ALL_EVERY: u64 = 15;
/// Allowance held by peers: the sum visits every counter.
const HELD_EVERY: u64 = 10;
const COMMENT_EVERY: u64 = 15;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/events", get(listen))
}

/// Opens the event stream, which lasts until the client or the server ends it.
async fn listen(
    State(admin): State<Admin>,
    Extension(caller): Extension<Caller>,
    Extension(stays): Extension<Stays>,
) -> Response {
    match admin.live.listen(caller.generations, &stays) {
        Ok(place) => {
            let mut first = String::new();
            push(&mut first, "version", &about::shown(&admin));
            push(&mut first, "config", &config::shown(&admin));
            push(&mut first, "stats", &stats::body(&admin));
            // A complete snapshot first: with a part of it, the client could not know whether data is missing or
            // still to come.
            push(&mut first, "top", &top::both(&admin));
            if let Some(peers) = peers::shown(&admin, false).await {
                push(&mut first, "peers", &peers);
            }
            let events = place.into_events(first.into());
            let headers = [
                (header::CONTENT_TYPE, "text/event-stream"),
                (header::CACHE_CONTROL, "no-store"),
                // Asks proxies not to buffer the stream.
                (header::HeaderName::from_static("x-accel-buffering"), "no"),
            ];
            (headers, Body::new(events)).into_response()
        }
        Err(why) => {
            let detail = match why {
                SubscribeError::Full => {
                    format!("The maximum of {} event streams is open; close one of them.", Live::MOST)
                }
                SubscribeError::Over => {
                    "The service is stopping, or event streams failed; its log may contain the cause."
                        .to_owned()
                }
            };
            let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "No event stream available", &detail);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            response
        }
    }
}

/// Publishes events to all streams until shutdown. Without streams, nothing is collected.
pub async fn publish(admin: Admin, closed: watch::Receiver<bool>) {
    let live = Arc::clone(&admin.live);
    let previous = Arc::new(Mutex::new(Value::Null));
    let make = |round: u64| {
        let (admin, previous) = (admin.clone(), Arc::clone(&previous));
        async move { (made(&admin, &previous, round).await, admin.access.generations()) }
    };
    live.run(make, closed).await;
}

/// The events of one round.
async fn made(admin: &Admin, previous: &Mutex<Value>, round: u64) -> Bytes {
    let mut text = String::new();
    push(&mut text, "stats", &stats::body(admin));
    if let Some(peers) = peers::shown(admin, round.is_multiple_of(HELD_EVERY)).await {
        push(&mut text, "peers", &peers);
    }
    if round.is_multiple_of(TOP_EVERY) {
        push(&mut text, "top", &top::both(admin));
    }
    let config = config::shown(admin);
    let before =
        std::mem::replace(&mut *previous.lock().unwrap_or_else(PoisonError::into_inner), config.clone());
    // A slow client misses rounds, so the configuration is repeated.
    let is_all = round.is_multiple_of(ALL_EVERY);
    if before != config || is_all {
        push(&mut text, "config", &config);
    }
    if is_all {
        push(&mut text, "version", &about::shown(admin));
    }
    if round % COMMENT_EVERY == COMMENT_EVERY - 1 {
        text.push_str(": still here\n\n");
    }
    text.into()
}

/// JSON without line breaks: one `data` line.
fn push(text: &mut String, event: &str, body: &Value) {
    let _ = write!(text, "event: {event}\ndata: {body}\n\n"); // Writing to a string cannot fail.
}
