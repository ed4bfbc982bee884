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

/// A buffer for log output.
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

// Fails when the time limit is the outermost layer: 408 without a text, and an audit line of a disconnected caller.
#[tokio::test(start_paused = true)]
async fn timeout_returns_a_problem_and_is_audited_with_408() {
    let written = Written::default();
    let log = written.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let pages = Router::new().route("/api/v1/reload", post(async || pending::<Response>().await));
    let mut pages = surrounded(pages, Duration::from_secs(30)).with_state::<()>(());
    let request = Request::builder().method("POST").uri("/api/v1/reload").body(Body::empty()).unwrap();
    let asked = tokio::time::timeout(Duration::from_secs(31), Service::<Request>::call(&mut pages, request));
    let answer = asked.await.expect("it ends").unwrap();
    assert_eq!(answer.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "application/problem+json");
    let body = to_bytes(answer.into_body(), 10_000).await.unwrap();
    assert!(String::from_utf8_lossy(&body).contains("may still take effect"), "{body:?}");
    let lines = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(lines.contains("status=408") && !lines.contains("disconnected before"), "{lines}");
}
