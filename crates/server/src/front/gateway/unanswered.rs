//! A request that an upstream gave no answer to: what of it may be sent again, and why it failed.

use super::request_body::RequestBody;
use http::Request;
use hyper::client::conn::TrySendError;
use std::fmt::Write;

/// A request that was not answered.
pub(super) struct Unanswered {
    /// The request, where nothing of it was sent.
    pub(super) unsent: Option<Request<RequestBody>>,
    /// Whether another that does the same may be sent, if doing it twice does no harm.
    pub(super) may_be_repeated: bool,
    /// What is the matter, for whoever reads the log.
    pub(super) why: String,
}

impl Unanswered {
    pub(super) fn new(
        mut error: TrySendError<Request<RequestBody>>,
        may_be_repeated: impl Fn(&hyper::Error) -> bool,
    ) -> Self {
        let unsent = error.take_message();
        let error = error.into_error();
        Self { unsent, may_be_repeated: may_be_repeated(&error), why: told(&error) }
    }
}

/// An error with what caused it.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Into memory, which does not fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// Whether an upstream says, by HTTP/2, that it has not looked at a request. What it resets otherwise it may
/// have found wanting, and would again.
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
