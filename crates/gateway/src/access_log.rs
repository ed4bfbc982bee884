//! Access log: one JSON line per request, written by its own thread. A stalled disk delays no request: lines that do
//! not fit into the queue are dropped, counted and reported. Before each write the path is checked, so that the file
//! can be rotated without a signal.

mod writer;

use crate::settings::LogTarget;
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_tower::{Client, Decision};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{interval, timeout};
use writer::AccessLogWriter;

/// Queue length: one second of a busy thread, in a few megabytes.
const QUEUE: usize = 16_384;
/// Retry interval of a flush while the queue is full.
const TURN: Duration = Duration::from_millis(10);
/// Longer paths are truncated.
const LONGEST_PATH: usize = 2_048;

/// The sending end of the log queue.
#[derive(Clone)]
pub(super) struct AccessLogger {
    queue: SyncSender<AccessLogMessage>,
    lost: Arc<AtomicU64>,
}

/// A message to the writer thread.
enum AccessLogMessage {
    Line(Box<AccessLogEntry>),
    /// Reports when all earlier lines are written.
    Flush(oneshot::Sender<()>),
}

/// The content of a line. If the request could not be parsed, method and path are missing.
pub(super) struct AccessLogEntry {
    at: Timestamp,
    took: Duration,
    client: LoggedClient,
    method: Option<Method>,
    host: Option<HeaderValue>,
    path: Option<Box<str>>,
    status: StatusCode,
    bytes: u64,
    service: Option<Box<str>>,
    upstream: Option<HeaderValue>,
    is_limited: bool,
}

/// The client as far as it is known; never a credential.
enum LoggedClient {
    Client(Box<Client>),
    UpstreamAddress(IpAddr),
}

/// An unfinished line, which is queued on drop.
pub(super) struct AccessLogLine {
    log: AccessLogger,
    entry: Option<Box<AccessLogEntry>>,
}

impl AccessLogger {
    pub(super) fn open(target: &LogTarget) -> io::Result<Self> {
        let (queue, entries) = sync_channel::<AccessLogMessage>(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let writer = AccessLogWriter::open(target, Arc::clone(&lost))?;
        std::thread::Builder::new().name("access-log".into()).spawn(move || writer.run(&entries))?;
        Ok(Self { queue, lost })
    }

    /// Starts the line of a request.
    pub(super) fn begin(&self, parts: &Parts, peer: IpAddr) -> AccessLogLine {
        let path = parts.uri.path();
        let end = (0..=LONGEST_PATH.min(path.len())).rev().find(|end| path.is_char_boundary(*end));
        let mut entry = AccessLogEntry::new(peer, client_disconnected());
        entry.method = Some(parts.method.clone());
        entry.path = Some(path.get(..end.unwrap_or_default()).unwrap_or_default().into());
        AccessLogLine { log: self.clone(), entry: Some(Box::new(entry)) }
    }

    /// Logs a message that was not a valid request.
    pub(super) fn log_unparsed(&self, peer: IpAddr, status: StatusCode) {
        drop(AccessLogLine { log: self.clone(), entry: Some(Box::new(AccessLogEntry::new(peer, status))) });
    }

    /// Waits until all lines so far are written, up to a time limit; returns whether they are.
    pub(super) async fn flush(&self, most: Duration) -> bool {
        let (done, mut written) = oneshot::channel();
        let mut message = AccessLogMessage::Flush(done);
        let flushed = async {
            let mut turns = interval(TURN);
            // The queue may be full, and waiting for room in it could not be cancelled.
            while let Err(TrySendError::Full(full)) = self.queue.try_send(message) {
                message = full;
                turns.tick().await;
            }
            (&mut written).await.is_ok()
        };
        timeout(most, flushed).await.unwrap_or(false)
    }
}

/// Status 499 as in nginx: the client disconnected, or was aborted, before the response.
fn client_disconnected() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::REQUEST_TIMEOUT)
}

impl AccessLogEntry {
    fn new(peer: IpAddr, status: StatusCode) -> Self {
        Self {
            at: SystemClock.now(),
            took: Duration::ZERO,
            client: LoggedClient::UpstreamAddress(peer),
            method: None,
            host: None,
            path: None,
            status,
            bytes: 0,
            service: None,
            upstream: None,
            is_limited: false,
        }
    }
}

impl AccessLogLine {
    fn with(&mut self, change: impl FnOnce(&mut AccessLogEntry)) {
        if let Some(entry) = &mut self.entry {
            change(entry);
        }
    }

    pub(super) fn record_service(&mut self, service: &str, host: Option<&HeaderValue>) {
        self.with(|entry| {
            entry.service = Some(service.into());
            entry.host = host.cloned();
        });
    }

    pub(super) fn record_decision(&mut self, decision: Option<&Decision>) {
        self.with(|entry| {
            if let Some(decision) = decision {
                entry.client = LoggedClient::Client(Box::new(*decision.client()));
                entry.is_limited = !decision.is_allowed();
            }
        });
    }

    pub(super) fn record_upstream(&mut self, upstream: &HeaderValue) {
        self.with(|entry| entry.upstream = Some(upstream.clone()));
    }

    pub(super) fn record_status(&mut self, status: StatusCode) {
        self.with(|entry| entry.status = status);
    }

    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.with(|entry| entry.bytes += bytes as u64);
    }
}

impl Drop for AccessLogLine {
    fn drop(&mut self) {
        if let Some(mut entry) = self.entry.take() {
            entry.took = SystemClock.now().since(entry.at);
            if self.log.queue.try_send(AccessLogMessage::Line(entry)).is_err() {
                self.log.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
