use super::surrounded;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use std::future::pending;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower_service::Service;

/// Where a log is written to.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// Seen failing on: a time-out around all of this: 408 without a word, and a line that says that the caller went.
#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_a_problem_like_any_other_and_its_line_says_what_was_answered() {
    let written = Written::default();
    let log = written.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let pages = Router::new().route("/api/v1/reload", post(async || pending::<Response>().await));
    let mut pages = surrounded(pages, Duration::from_secs(30)).with_state::<()>(());
    let request = Request::builder().method("POST").uri("/api/v1/reload").body(Body::empty()).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(31), Service::<Request>::call(&mut pages, request));
    let answer = asked.await.expect("it has an end").unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json");
    let body = to_bytes(answer.into_body(), 10_000).await.unwrap();
    assert!(String::from_utf8_lossy(&body).contains("may be done all the same"), "{body:?}");
    let lines = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("status=408") && !lines.contains("went before"), "{lines}");
}
