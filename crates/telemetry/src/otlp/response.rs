//! Responses of a receiver: whether it accepted a message, and whether a retry is useful.

use super::sender::SendError;
use bytes::{Buf, Bytes};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message;
use std::time::Duration;
use tonic::{Code, Status};

/// Longest response that is read; a response is a number and a sentence.
const LARGEST: usize = 64 << 10;
/// Longest text of a receiver in the log.
const LONGEST_WORDS: usize = 200;
/// Prefix of a gRPC message: compression flag and length.
pub(super) const PREFIX: usize = 5;

/// What a receiver rejected of an accepted message, with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PartialSuccess {
    pub(super) count: i64,
    pub(super) words: String,
}

/// The result of a gRPC call.
pub(super) async fn of_grpc(response: Response<Incoming>) -> Result<Option<PartialSuccess>, SendError> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(by_status(head.status, &head.headers));
    }
    let body = Limited::new(body, LARGEST).collect().await.map_err(|error| broken(&*error))?;
    // A response without a message has its status in the headers.
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

/// The result of a POST.
pub(super) async fn of_http(response: Response<Incoming>) -> Result<Option<PartialSuccess>, SendError> {
    let (head, body) = response.into_parts();
    // The body is always read to its end, so that the connection can be reused.
    let body = Limited::new(body, LARGEST).collect().await;
    if !head.status.is_success() {
        return Err(by_status(head.status, &head.headers));
    }
    Ok(partial_success(&body.map_err(|error| broken(&*error))?.to_bytes()))
}

fn broken(error: &(dyn std::error::Error + Send + Sync)) -> SendError {
    SendError { cause: format!("its answer broke off: {error}"), is_retryable: true, retry_after: None }
}

/// The response of either signal; its first field contains the rejections.
fn partial_success(message: &Bytes) -> Option<PartialSuccess> {
    let partial = ExportMetricsServiceResponse::decode(message.clone()).ok()?.partial_success?;
    let count = partial.rejected_data_points;
    (count > 0).then(|| PartialSuccess { count, words: words(&partial.error_message) })
}

/// Status codes that OTLP declares as retryable.
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

/// Text of a receiver for the log: truncated and escaped.
fn words(text: &str) -> String {
    text.chars().take(LONGEST_WORDS).flat_map(char::escape_debug).collect()
}
