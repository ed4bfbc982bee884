//! Sender: sends the messages of one signal to one receiver, one after the other.

use super::back_off::BackOff;
use super::connection::{OtlpConnection, OtlpConnector};
use super::export_metrics::SignalMetrics;
use super::response::{self, PREFIX, PartialSuccess};
use crate::log_throttle::LogThrottle;
use crate::settings::otel::{Destination, OtlpProtocol};
use bytes::{BufMut, Bytes, BytesMut};
use hivemind_core::{Clock, MonotonicClock};
use hivemind_tls::TlsError;
use http::{Request, header};
use http_body_util::Full;
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for connection, message and response together: the default of OTLP.
const LONGEST: Duration = Duration::from_secs(10);

/// The signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Metrics,
    Traces,
}

impl Signal {
    const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Traces => "traces",
        }
    }

    const fn method(self) -> &'static str {
        match self {
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Metrics => "/v1/metrics",
            Self::Traces => "/v1/traces",
        }
    }
}

/// Why a receiver did not accept a message.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct SendError {
    pub(super) cause: String,
    /// Whether the same message may be accepted later.
    pub is_retryable: bool,
    pub(super) retry_after: Option<Duration>,
}

/// Sends messages of one signal to one receiver.
pub struct Sender {
    signal: Signal,
    /// The receiver in log lines.
    url: String,
    authority: String,
    path: String,
    protocol: OtlpProtocol,
    connector: OtlpConnector,
    line: Option<OtlpConnection>,
    back_off: BackOff,
    partial_success: LogThrottle,
    metrics: Arc<SignalMetrics>,
}

impl Sender {
    pub fn new(
        signal: Signal,
        destination: &Destination,
        metrics: Arc<SignalMetrics>,
    ) -> Result<Self, TlsError> {
        let endpoint = &destination.endpoint;
        let (base, path) = (&endpoint.path, signal.path());
        let path = match destination.protocol {
            OtlpProtocol::Grpc => signal.method().to_owned(),
            // A complete URL is used unchanged.
            OtlpProtocol::Http if base.ends_with(path) => base.clone(),
            OtlpProtocol::Http => format!("{base}{path}"),
        };
        Ok(Self {
            signal,
            url: endpoint.to_string(),
            authority: endpoint.authority(),
            path,
            protocol: destination.protocol,
            connector: OtlpConnector::new(destination)?,
            line: None,
            back_off: BackOff::default(),
            partial_success: LogThrottle::new(),
            metrics,
        })
    }

    /// Sends a message and waits up to ten seconds for the response. Counts the result, and logs the first failure and the
    /// next success.
    pub async fn send(&mut self, message: &impl Message) -> Result<(), SendError> {
        let body = self.body(message);
        let sent = timeout(LONGEST, self.exchange(body)).await;
        let sent =
            sent.unwrap_or_else(|_| Err(SendError::retryable(format!("no answer within {LONGEST:?}"))));
        let (name, url) = (self.signal.name(), &self.url);
        match &sent {
            Ok(partial_success) => {
                self.metrics.sent.fetch_add(1, Ordering::Relaxed);
                if self.back_off.record_success() {
                    tracing::info!("{name} are sent to {url} again");
                }
                if let Some(PartialSuccess { count, words }) = partial_success
                    && let Some(times) = self.partial_success.record(MonotonicClock.now())
                {
                    tracing::warn!(times, "{url} has left out {count} of the {name}: {words}");
                }
            }
            Err(error) => {
                self.metrics.failed.fetch_add(1, Ordering::Relaxed);
                self.line = None;
                if self.back_off.record_failure(error.retry_after) {
                    tracing::warn!(
                        "{name} cannot be sent to {url}: {error}; it is tried again, and requests are decided all \
                         the same"
                    );
                }
            }
        }
        sent.map(drop)
    }

    /// The wait before the next message; zero after a success.
    pub fn pause(&self) -> Duration {
        self.back_off.pause()
    }

    fn body(&self, message: &impl Message) -> Bytes {
        if self.protocol == OtlpProtocol::Http {
            return message.encode_to_vec().into();
        }
        let length = message.encoded_len();
        let mut framed = BytesMut::with_capacity(PREFIX + length);
        framed.put_u8(0);
        framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        framed.extend_from_slice(&message.encode_to_vec());
        framed.freeze()
    }

    async fn exchange(&mut self, body: Bytes) -> Result<Option<PartialSuccess>, SendError> {
        let kept = self.line.take().filter(OtlpConnection::is_open);
        let was_kept = kept.is_some();
        let mut line = match kept {
            Some(line) => line,
            None => self.connect().await?,
        };
        let mut answered = line.exchange(self.request(body.clone())?).await;
        // The receiver may have closed an idle connection; nothing of the message was sent, so this is not a failure.
        if was_kept && answered.as_ref().is_err_and(hyper::Error::is_canceled) {
            line = self.connect().await?;
            answered = line.exchange(self.request(body)?).await;
        }
        let response = answered.map_err(|error| SendError::retryable(with_causes(&error)))?;
        let taken = match self.protocol {
            OtlpProtocol::Grpc => response::of_grpc(response).await,
            OtlpProtocol::Http => response::of_http(response).await,
        };
        self.line = Some(line);
        taken
    }

    async fn connect(&self) -> Result<OtlpConnection, SendError> {
        self.connector.connect().await.map_err(|error| SendError::retryable(error.to_string()))
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, SendError> {
        let request = Request::post(match self.protocol {
            OtlpProtocol::Grpc => format!("{}://{}{}", self.connector.scheme(), self.authority, self.path),
            OtlpProtocol::Http => self.path.clone(),
        });
        let request = match self.protocol {
            OtlpProtocol::Grpc => {
                request.header(header::CONTENT_TYPE, "application/grpc").header(header::TE, "trailers")
            }
            OtlpProtocol::Http => request
                .header(header::CONTENT_TYPE, "application/x-protobuf")
                .header(header::HOST, &self.authority),
        };
        let agent = concat!("hivemind/", env!("CARGO_PKG_VERSION"));
        let request = request.header(header::USER_AGENT, agent).body(Full::new(body));
        request.map_err(|error| SendError::retryable(error.to_string()))
    }
}

/// An error with its causes: the text of hyper alone is two words.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl SendError {
    fn retryable(cause: String) -> Self {
        Self { cause, is_retryable: true, retry_after: None }
    }
}
