//! Events and warnings: refusals, capped limits, missing peers.

use crate::support::{Server, api, bucket, builder, clock, limiter};
use axum::extract::ConnectInfo;
use bytes::Bytes;
use hivemind_tower::{Limits, RateLimiter, RefusalLog, ServiceLimits};
use http::{Request, Response};
use http_body_util::Empty;
use std::convert::Infallible;
use std::fmt::{Debug, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{Layer as _, ServiceExt, service_fn};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// Recorded events as lines: the target, then the fields.
#[derive(Clone, Default)]
pub(crate) struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    /// Records the events of this thread until the guard is dropped.
    pub(crate) fn record(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(tracing_subscriber::registry().with(self.clone()))
    }

    pub(crate) fn lines(&self, containing: &str) -> Vec<String> {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(containing)).cloned().collect()
    }
}

impl<S: Subscriber> Layer<S> for EventLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line(event.metadata().target().to_owned());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a `String` cannot fail.
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

#[tokio::test]
async fn refusal_event_names_client_without_credential() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let service = ServiceLimits::new("api").endpoint("POST /login", bucket(1, 1));
    let server = Server::start(&limiter(Limits::new().service(service), &clock())).await;
    for _ in 0..2 {
        server.ask("POST /login", &[("Authorization", "Bearer abc")]).await;
    }
    let events = events_log.lines("RateLimitExceeded");
    assert_eq!(events.len(), 1, "{events:?}");
    let expected = r#"hivemind::security event="RateLimitExceeded" client="bearer:ba7816bf8f01cfea" service="api" endpoint="POST /login" type="http" limit=1 retry_after=1 dry_run=false left_out=0"#;
    assert_eq!(events[0], expected);
}

#[tokio::test]
async fn dry_run_refusals_are_marked_events() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let server = Server::start(&limiter(api(bucket(1, 1).dry_run(true)), &clock())).await;
    server.statuses(2, "/").await;
    let events = events_log.lines("RateLimitExceeded");
    assert!(events.len() == 1 && events[0].ends_with("dry_run=true left_out=0"), "{events:?}");
}

/// Sampling is by address, not by name. Fails with an event for each refusal.
#[tokio::test]
async fn flood_logs_first_events_and_then_their_number() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let clock = clock();
    let server = Server::start(&limiter(api(bucket(1, 1)).without_ip_guard(), &clock)).await;
    for index in 0..100 {
        let key = if index % 2 == 0 { "a" } else { "b" };
        server.ask("GET /", &[("X-API-Key-ID", key)]).await;
    }
    assert_eq!(events_log.lines("RateLimitExceeded").len(), 20, "of 98 refusals");
    clock.advance(Duration::from_secs(60));
    server.statuses(2, "/").await;
    let events = events_log.lines("RateLimitExceeded");
    assert!(events.len() == 21 && events[20].ends_with("left_out=78"), "{events:?}");
}

#[test]
fn capped_limit_is_logged_once() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let limits = |burst| {
        api(bucket(1, burst)).platform(bucket(1, 5)).max_burst(60).service(ServiceLimits::new("quiet"))
    };
    let limiter = RateLimiter::new(limits(100)).unwrap();
    let warnings = || events_log.lines("above the platform's maximum").len();
    assert_eq!(warnings(), 1);
    limiter.reload(&limits(100)).unwrap();
    assert_eq!(warnings(), 1, "the same limit again");
    limiter.reload(&limits(110)).unwrap();
    assert_eq!(warnings(), 2);
    limiter.reload(&limits(60)).unwrap();
    assert_eq!(warnings(), 2);
}

#[tokio::test]
async fn missing_peer_address_is_logged_once() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let limiter = RateLimiter::new(api(bucket(1, 50))).unwrap();
    let server = Server::start(&limiter).await;
    server.statuses(3, "/").await;
    let expected = usize::from(cfg!(not(feature = "axum")));
    assert_eq!(events_log.lines("without its peer's address").len(), expected);
}

/// Fails when the log contains refusals of a dry run.
#[tokio::test]
async fn refusal_is_logged_for_fail2ban_except_in_dry_run() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let service = ServiceLimits::new("api").limit(bucket(1, 1)).endpoint("/dry", bucket(1, 1).dry_run(true));
    let server = Server::start(&limiter(Limits::new().service(service), &clock())).await;
    // More events than a client may have lines; they do not use up its lines.
    server.statuses(30, "/dry").await;
    server.statuses(2, "/login?secret=1").await;
    let lines = events_log.lines("RATE_LIMIT ");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let expected = "RATE_LIMIT client_ip=127.0.0.1 host=example.org path=/login status=429";
    assert!(lines[0].contains(expected), "{lines:?}");
}

/// Calls a service without a server, so that dropping the limiter releases it.
async fn refused(limiter: &RateLimiter, times: usize) {
    let inner = service_fn(|_: Request<Empty<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
    });
    let service = limiter.layer("api").layer(inner);
    for _ in 0..=times {
        let mut request = Request::new(Empty::new());
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 9))));
        service.clone().oneshot(request).await.unwrap();
    }
}

#[tokio::test]
async fn left_out_events_are_reported_at_the_end() {
    let events_log = EventLog::default();
    let _recording = events_log.record();
    let limiter = limiter(api(bucket(1, 1)), &clock());
    refused(&limiter, 30).await;
    assert_eq!(events_log.lines("RateLimitExceeded").len(), 20);
    drop(limiter);
    let left_out = r#"hivemind::security event="RateLimitExceededLeftOut" client="ip:192.0.2.1" left_out=10"#;
    assert_eq!(events_log.lines("RateLimitExceededLeftOut"), [left_out]);
    assert_eq!(events_log.lines("RATE_LIMIT_LEFT_OUT").len(), 1, "the lines are reported too");
}

#[tokio::test]
async fn limiters_share_a_refusal_log_that_can_be_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refusals.log");
    let log = Arc::new(RefusalLog::appending_to(&file).unwrap());
    for _ in 0..2 {
        let limiter = builder(api(bucket(1, 1)), &clock()).refusal_log(Arc::clone(&log));
        refused(&limiter.build().unwrap(), 15).await;
    }
    assert!(log.flush(Duration::from_secs(20)));
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 20, "one client has 20 of 30");
    assert_eq!(log.lost(), 0);
}
