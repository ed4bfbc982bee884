//! What a receiver answers: whether it took a message, and whether it is worth sending again.

use super::sender::SendError;
use bytes::{Buf, Bytes};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use std::time::Duration;
use tonic::{Code, Status};

/// An answer says a number and a sentence; more than this is not read.
const LARGEST: usize = 64 << 10;
/// As much of a receiver's words as goes into the log.
const LONGEST_WORDS: usize = 200;
/// What precedes a message of gRPC: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// What was left out of a message that was taken, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PartialSuccess {
    pub(super) count: i64,
    pub(super) words: String,
}

/// What came of a call of gRPC.
pub(super) async fn of_grpc(response: Response<Incoming>) -> Result<Option<PartialSuccess>, SendError> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(by_status(head.status, &head.headers));
    }
    let body = Limited::new(body, LARGEST).collect().await.map_err(|error| broken(&*error))?;
    // Where there is no message, the status is among the headers.
    let status = body.trailers().and_then(Status::from_header_map);
    let status = status.or_else(|| Status::from_header_map(&head.headers));
    let Some(status) = status else {
        return Err(SendError {
            cause: "it answers without a status".into(),
            is_retryable: true,
            retry_after: None,
        });
    };
    if status.code() == Code::Ok {
        let mut message = body.to_bytes();
        message.advance(PREFIX.min(message.len()));
        return Ok(partial_success(&message));
    }
    let cause = format!("{:?}: {}", status.code(), words(status.message()));
    Err(SendError { cause, is_retryable: is_retryable(status.code()), retry_after: None })
}

/// What came of a POST.
pub(super) async fn of_http(response: Response<Incoming>) -> Result<Option<PartialSuccess>, SendError> {
    let (head, body) = response.into_parts();
    // It is read to its end in either case: only then can the connection be used again.
    let body = Limited::new(body, LARGEST).collect().await;
    if !head.status.is_success() {
        return Err(by_status(head.status, &head.headers));
    }
    Ok(partial_success(&body.map_err(|error| broken(&*error))?.to_bytes()))
}

fn broken(error: &(dyn std::error::Error + Send + Sync)) -> SendError {
    SendError { cause: format!("its answer broke off: {error}"), is_retryable: true, retry_after: None }
}

/// The same message of either signal: what was left out is its first field.
fn partial_success(message: &Bytes) -> Option<PartialSuccess> {
    let partial = ExportMetricsServiceResponse::decode(message.clone()).ok()?.partial_success?;
    let count = partial.rejected_data_points;
    (count > 0).then(|| PartialSuccess { count, words: words(&partial.error_message) })
}

/// Those that OTLP says may pass.
fn is_retryable(code: Code) -> bool {
    use Code::{Aborted, Cancelled, DataLoss, DeadlineExceeded, OutOfRange, ResourceExhausted, Unavailable};
    matches!(
        code,
        Cancelled | DeadlineExceeded | Aborted | OutOfRange | Unavailable | DataLoss | ResourceExhausted
    )
}

fn by_status(status: StatusCode, headers: &HeaderMap) -> SendError {
    let retry_after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    SendError {
        cause: format!("it answers {status}"),
        is_retryable: matches!(status.as_u16(), 429 | 502 | 503 | 504),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

/// What somebody else says, in the log: short, and nothing but text.
fn words(text: &str) -> String {
    text.chars().take(LONGEST_WORDS).flat_map(char::escape_debug).collect()
}
