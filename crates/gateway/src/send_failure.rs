//! Requests without a response: whether they may be retried, and why they failed.

use super::request_body::RequestBody;
use http::Request;
use hyper::client::conn::TrySendError;
use std::fmt::Write;

/// A request without a response.
pub(super) struct SendFailure {
    /// The request, if nothing of it was sent.
    pub(super) unsent: Option<Request<RequestBody>>,
    /// Whether an equal request may be sent, if a repetition does no harm.
    pub(super) may_be_repeated: bool,
    /// The cause, for the log.
    pub(super) why: String,
}

impl SendFailure {
    pub(super) fn new(
        mut error: TrySendError<Request<RequestBody>>,
        may_be_repeated: impl Fn(&hyper::Error) -> bool,
    ) -> Self {
        let unsent = error.take_message();
        let error = error.into_error();
        Self { unsent, may_be_repeated: may_be_repeated(&error), why: chain(&error) }
    }
}

/// An error with its chain of causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to memory cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Whether an upstream signals over HTTP/2 that it has not processed a request. After any other reset a retry would
/// probably fail again.
pub(super) fn is_untouched(error: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.reason() == Some(h2::Reason::REFUSED_STREAM) || error.is_go_away() || error.is_io();
        }
        cause = error.source();
    }
    error.is_closed() || error.is_canceled()
}
