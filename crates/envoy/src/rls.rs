//! Envoy's rate limit service without its transport: request bytes in, response bytes out. The messages are decoded
//! and encoded by hand, because this runs on every request of our users; see docs/decisions/009.

mod field_reader;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use request::DecodedRequest;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub(crate) use response::write;

use hivemind_core::store::Store;
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_engine::service::{DecisionRequest, DecisionResponse, Service};
use hivemind_engine::storage::SharedStore;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::trace::DecisionSpan;
use hivemind_tls::access::AccessGrant;
use http::HeaderMap;
use request::{Descriptors, MAX_DESCRIPTORS};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why a call was not decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("the message is not a RateLimitRequest")]
    Malformed,
    #[error("this API key is not for this domain")]
    DomainNotAllowed,
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    #[error("no rate limit configuration loaded")]
    NoRules,
    #[error("a request may have at most {MAX_DESCRIPTORS} descriptors; this one has {count}")]
    TooManyDescriptors { count: usize },
    #[error(
        "descriptor {index} has a limit with the unknown unit {unit}; use SECOND 1, MINUTE 2, HOUR 3, DAY 4, MONTH 5, YEAR 6"
    )]
    UnknownUnit { index: usize, unit: i32 },
}

/// The service with its message codec.
pub struct RateLimitService<R = SharedStore>(pub Arc<Service<R>>);

impl<R> Clone for RateLimitService<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Store> RateLimitService<R> {
    /// Appends the response to a message, and counts it. Returns `None` if the decision would have to wait: then
    /// nothing was appended or counted, and [`should_rate_limit`](Self::should_rate_limit) must be awaited. `grant` is
    /// the permission of the caller's key, if keys are required.
    pub fn try_should_rate_limit(
        &self,
        message: &[u8],
        grant: Option<&AccessGrant>,
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), CallError>> {
        self.try_by(&SystemClock, message, grant, span, out)
    }

    /// The same with a clock as an argument.
    #[inline]
    pub(crate) fn try_by(
        &self,
        clock: &impl Clock,
        message: &[u8],
        grant: Option<&AccessGrant>,
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), CallError>> {
        let started = clock.now();
        let result = self.try_decide(message, grant, (clock, started), span, out).transpose()?;
        self.record_result(started, &result);
        Some(result)
    }

    fn try_decide(
        &self,
        message: &[u8],
        grant: Option<&AccessGrant>,
        (clock, now): (&impl Clock, Timestamp),
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Result<Option<()>, CallError> {
        let request = self.decode(message, grant)?;
        let descriptors = self.descriptors(&request)?;
        let metadata = || request.metadata();
        let frontend = Frontend::Grpc;
        let decision_request = DecisionRequest {
            domain: request.domain,
            descriptors: &descriptors,
            metadata: &metadata,
            now,
            frontend,
        };
        Ok(self.0.decide_at_once(&decision_request, span, |answer| write_response(answer, (clock, now), out)))
    }

    /// Appends the response to a message, however long the decision takes, and counts it.
    pub async fn should_rate_limit(
        &self,
        message: &[u8],
        (grant, frontend): (Option<&AccessGrant>, Frontend),
        deadline: Option<Timestamp>,
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let started = SystemClock.now();
        let result = match self.decode(message, grant) {
            Ok(request) => self.decide(&request, (started, deadline, frontend), span, out).await,
            Err(error) => Err(error),
        };
        self.record_result(started, &result);
        result
    }

    async fn decide(
        &self,
        request: &DecodedRequest<'_>,
        (now, deadline, frontend): (Timestamp, Option<Timestamp>, Frontend),
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let descriptors = self.descriptors(request)?;
        let metadata = || request.metadata();
        let decision_request = DecisionRequest {
            domain: request.domain,
            descriptors: &descriptors,
            metadata: &metadata,
            now,
            frontend,
        };
        self.0
            .decide(&decision_request, deadline, span, |answer| {
                write_response(answer, (&SystemClock, now), out);
            })
            .await;
        Ok(())
    }

    /// Starts the trace of a request, if it is sampled.
    #[inline]
    pub fn sample(&self, headers: &HeaderMap, frontend: Frontend) -> Option<DecisionSpan> {
        self.0.tracer().and_then(|tracer| tracer.start_span(headers, frontend))
    }

    /// Decodes a request, and checks that the caller may use its domain.
    fn decode<'a>(
        &self,
        message: &'a [u8],
        grant: Option<&AccessGrant>,
    ) -> Result<DecodedRequest<'a>, CallError> {
        let request = DecodedRequest::decode(message).map_err(|_| CallError::Malformed)?;
        if grant.is_some_and(|grant| !grant.admits(request.domain)) {
            self.0.stats().access.denied.fetch_add(1, Ordering::Relaxed);
            return Err(CallError::DomainNotAllowed);
        }
        Ok(request)
    }

    /// The descriptors, if rules are loaded.
    fn descriptors<'a>(&self, request: &'a DecodedRequest<'_>) -> Result<Descriptors<'a>, CallError> {
        let descriptors = request.descriptors()?;
        if self.0.has_rules() { Ok(descriptors) } else { Err(CallError::NoRules) }
    }

    /// Counts an error; decided calls are counted when their response is written.
    fn record_result(&self, started: Timestamp, result: &Result<(), CallError>) {
        if result.is_err() {
            self.record_error(SystemClock.now().since(started));
        }
    }

    /// Counts a call that ended without a decision after this time.
    pub(crate) fn record_error(&self, took: Duration) {
        let stats = self.0.stats();
        stats.service_errors.fetch_add(1, Ordering::Relaxed);
        if self.0.counts() {
            stats.series.errors.observe(took);
        }
    }
}

/// Appends a response, and records how long the call took.
fn write_response(
    answer: &DecisionResponse<'_>,
    (clock, started): (&impl Clock, Timestamp),
    out: &mut Vec<u8>,
) {
    response::write(answer, out);
    if let Some(timings) = answer.timings() {
        timings.observe(clock.now().since(started));
    }
}
