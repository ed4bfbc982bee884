//! Envoy's rate limit service without its transport: request bytes in, response bytes out. The messages are decoded
//! and encoded by hand, because this runs on every request of our users; see docs/decisions/009.

mod field;
mod request;
mod response;
#[cfg(test)]
mod tests;

#[cfg(any(test, fuzzing))]
pub(crate) use request::Request as ReadRequest;

use crate::service::{Answer, Asked, Service};
use crate::storage::SharedStore;
use hivemind_core::store::Store;
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::trace::DecisionSpan;
use hivemind_tls::access::Grant;
use http::HeaderMap;
use request::{Descriptors, MOST_DESCRIPTORS, Request};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why a call was not decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the message is not a RateLimitRequest")]
    Malformed,
    #[error("this API key is not for this domain")]
    NotItsDomain,
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    #[error("no rate limit configuration loaded")]
    NoRules,
    #[error("a request may have at most {MOST_DESCRIPTORS} descriptors; this one has {count}")]
    TooManyDescriptors { count: usize },
    #[error(
        "descriptor {index} has a limit with the unknown unit {unit}; use SECOND 1, MINUTE 2, HOUR 3, DAY 4, MONTH 5, YEAR 6"
    )]
    UnknownUnit { index: usize, unit: i32 },
}

/// The service with its message codec.
pub(crate) struct RateLimitService<R = SharedStore>(pub(crate) Arc<Service<R>>);

impl<R> Clone for RateLimitService<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Store> RateLimitService<R> {
    /// Appends the response to a message, and counts it. Returns `None` if the decision would have to wait: then
    /// nothing was appended or counted, and [`answer`](Self::answer) must be awaited. `grant` is the permission of
    /// the caller's key, if keys are required.
    pub(crate) fn answer_at_once(
        &self,
        message: &[u8],
        grant: Option<&Grant>,
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), CallError>> {
        let from = SystemClock.now();
        let answered = self.decide_at_once(message, grant, from, span, out).transpose()?;
        self.count(from, &answered);
        Some(answered)
    }

    fn decide_at_once(
        &self,
        message: &[u8],
        grant: Option<&Grant>,
        now: Timestamp,
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Result<Option<()>, CallError> {
        let request = self.read(message, grant)?;
        let descriptors = self.descriptors(&request)?;
        let metadata = || request.metadata();
        let frontend = Frontend::Grpc;
        let asked =
            Asked { domain: request.domain, descriptors: &descriptors, metadata: &metadata, now, frontend };
        Ok(self.0.decide_at_once(&asked, span, |answer| tell(answer, now, out)))
    }

    /// Appends the response to a message, however long the decision takes, and counts it.
    pub(crate) async fn answer(
        &self,
        message: &[u8],
        (grant, frontend): (Option<&Grant>, Frontend),
        deadline: Option<Timestamp>,
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let from = SystemClock.now();
        let answered = match self.read(message, grant) {
            Ok(request) => self.decide(&request, (from, deadline, frontend), span, out).await,
            Err(error) => Err(error),
        };
        self.count(from, &answered);
        answered
    }

    async fn decide(
        &self,
        request: &Request<'_>,
        (now, deadline, frontend): (Timestamp, Option<Timestamp>, Frontend),
        span: Option<&mut DecisionSpan>,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let descriptors = self.descriptors(request)?;
        let metadata = || request.metadata();
        let asked =
            Asked { domain: request.domain, descriptors: &descriptors, metadata: &metadata, now, frontend };
        self.0.decide(&asked, deadline, span, |answer| tell(answer, now, out)).await;
        Ok(())
    }

    /// Starts the trace of a request, if it is sampled.
    #[inline]
    pub(crate) fn follow(&self, headers: &HeaderMap, frontend: Frontend) -> Option<DecisionSpan> {
        self.0.tracer().and_then(|tracer| tracer.start_span(headers, frontend))
    }

    /// Decodes a request, and checks that the caller may use its domain.
    fn read<'a>(&self, message: &'a [u8], grant: Option<&Grant>) -> Result<Request<'a>, CallError> {
        let request = Request::read(message).map_err(|_| CallError::Malformed)?;
        if grant.is_some_and(|grant| !grant.admits(request.domain)) {
            self.0.stats().access.denied.fetch_add(1, Ordering::Relaxed);
            return Err(CallError::NotItsDomain);
        }
        Ok(request)
    }

    /// The descriptors, if rules are loaded.
    fn descriptors<'a>(&self, request: &'a Request<'_>) -> Result<Descriptors<'a>, CallError> {
        let descriptors = request.descriptors()?;
        if self.0.has_rules() { Ok(descriptors) } else { Err(CallError::NoRules) }
    }

    /// Counts an error; decided calls are counted when their response is written.
    fn count(&self, from: Timestamp, answered: &Result<(), CallError>) {
        if answered.is_err() {
            self.has_failed(SystemClock.now().since(from));
        }
    }

    /// Counts a call that ended without a decision after this time.
    pub(crate) fn has_failed(&self, took: Duration) {
        let stats = self.0.stats();
        stats.service_errors.fetch_add(1, Ordering::Relaxed);
        if self.0.counts() {
            stats.series.errors.observe(took);
        }
    }
}

/// Appends a response, and records how long the call took.
fn tell(answer: &Answer<'_>, from: Timestamp, out: &mut Vec<u8>) {
    response::write(answer, out);
    if let Some(timings) = answer.timings() {
        timings.observe(SystemClock.now().since(from));
    }
}
