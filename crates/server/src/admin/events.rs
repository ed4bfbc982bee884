//! `GET /api/v1/events`: what the dashboard shows, as it changes, by server-sent events.

use super::guard::Visitor;
use super::live::{Live, NotTaken, Stays};
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

/// In rounds, which are seconds.
const TOP_EVERY: u64 = 2;
const ALL_EVERY: u64 = 15;
/// What peers hold: every counter is looked at for it.
const HELD_EVERY: u64 = 10;
const COMMENT_EVERY: u64 = 15;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/events", get(listen))
}

/// An answer that does not end before one of both sides does.
async fn listen(
    State(admin): State<Admin>,
    Extension(visitor): Extension<Visitor>,
    Extension(stays): Extension<Stays>,
) -> Response {
    match admin.live.listen(visitor.generations, &stays) {
        Ok(place) => {
            let mut first = String::new();
            push(&mut first, "version", &about::shown(&admin));
            push(&mut first, "config", &config::shown(&admin));
            push(&mut first, "stats", &stats::body(&admin));
            // All of it: who is told only of a part cannot tell what is not there from what was not said yet.
            push(&mut first, "top", &top::both(&admin));
            if let Some(peers) = peers::shown(&admin, false).await {
                push(&mut first, "peers", &peers);
            }
            let events = place.told(first.into());
            let headers = [
                (header::CONTENT_TYPE, "text/event-stream"),
                (header::CACHE_CONTROL, "no-store"),
                // Proxies that gather an answer before they pass it on are asked not to.
                (header::HeaderName::from_static("x-accel-buffering"), "no"),
            ];
            (headers, Body::new(events)).into_response()
        }
        Err(why) => {
            let detail = match why {
                NotTaken::Full => format!("{} others listen already; close one of them.", Live::MOST),
                NotTaken::Over => {
                    "The service stops, or tells nothing any more; its log may say why.".to_owned()
                }
            };
            let mut response =
                problem(StatusCode::SERVICE_UNAVAILABLE, "Nobody can listen any more", &detail);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
            response
        }
    }
}

/// Tells all who listen, until the pages are closed. Nothing is made while nobody does.
pub(crate) async fn tell(admin: Admin, closed: watch::Receiver<bool>) {
    let live = Arc::clone(&admin.live);
    let told = Arc::new(Mutex::new(Value::Null));
    let make = |round: u64| {
        let (admin, told) = (admin.clone(), Arc::clone(&told));
        async move { (made(&admin, &told, round).await, admin.access.generations()) }
    };
    live.run(make, closed).await;
}

/// All that is told in one round.
async fn made(admin: &Admin, told: &Mutex<Value>, round: u64) -> Bytes {
    let mut text = String::new();
    push(&mut text, "stats", &stats::body(admin));
    if let Some(peers) = peers::shown(admin, round.is_multiple_of(HELD_EVERY)).await {
        push(&mut text, "peers", &peers);
    }
    if round.is_multiple_of(TOP_EVERY) {
        push(&mut text, "top", &top::both(admin));
    }
    let config = config::shown(admin);
    let before = std::mem::replace(&mut *told.lock().unwrap_or_else(PoisonError::into_inner), config.clone());
    // Whoever reads slowly misses rounds, and hears of it all the same.
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

/// JSON has no line break outside of its texts, and none within that is not escaped: it is one line.
fn push(text: &mut String, event: &str, body: &Value) {
    let _ = write!(text, "event: {event}\ndata: {body}\n\n"); // A string takes all that is written.
}
