//! Envoy's rate limit service without its transport: the bytes of a request in, the
//! bytes of an answer out. The messages are read and written here by hand, because
//! this is what every request of somebody else pays for; see docs/decisions/009.

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
use hivemind_telemetry::trace::{Check, Door};
use hivemind_tls::access::Grant;
use http::HeaderMap;
use request::{Descriptors, MOST_DESCRIPTORS, Request};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the message is no RateLimitRequest")]
    Malformed,
    #[error("this API key is not for this domain")]
    NotItsDomain,
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    #[error("no rate limit configuration loaded")]
    NoRules,
    #[error("a request has at most {MOST_DESCRIPTORS} descriptors; this one has {count}")]
    TooManyDescriptors { count: usize },
    #[error(
        "descriptor {index} brings a limit with unit {unit}; known are SECOND 1, MINUTE 2, HOUR 3, DAY 4, MONTH 5, YEAR 6"
    )]
    UnknownUnit { index: usize, unit: i32 },
}

/// The service behind its messages.
pub(crate) struct RateLimitService<R = SharedStore>(pub(crate) Arc<Service<R>>);

impl<R> Clone for RateLimitService<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: Store> RateLimitService<R> {
    /// Appends the answer to a message, and counts it. `None` where the decision would have
    /// to wait: nothing was appended or counted then, and [`answer`](Self::answer) has to be awaited.
    /// `grant` is what the caller's key opens, where keys are asked for.
    pub(crate) fn answer_at_once(
        &self,
        message: &[u8],
        grant: Option<&Grant>,
        check: Option<&mut Check>,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), CallError>> {
        let from = SystemClock.now();
        let answered = self.decide_at_once(message, grant, from, check, out).transpose()?;
        self.count(from, &answered);
        Some(answered)
    }

    fn decide_at_once(
        &self,
        message: &[u8],
        grant: Option<&Grant>,
        now: Timestamp,
        check: Option<&mut Check>,
        out: &mut Vec<u8>,
    ) -> Result<Option<()>, CallError> {
        let request = self.read(message, grant)?;
        let descriptors = self.descriptors(&request)?;
        let told = || request.told();
        let door = Door::Grpc;
        let asked = Asked { domain: request.domain, descriptors: &descriptors, told: &told, now, door };
        Ok(self.0.decide_at_once(&asked, check, |answer| tell(answer, now, out)))
    }

    /// Appends the answer to a message, however long its decision takes, and counts it.
    pub(crate) async fn answer(
        &self,
        message: &[u8],
        (grant, door): (Option<&Grant>, Door),
        deadline: Option<Timestamp>,
        check: Option<&mut Check>,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let from = SystemClock.now();
        let answered = match self.read(message, grant) {
            Ok(request) => self.decide(&request, (from, deadline, door), check, out).await,
            Err(error) => Err(error),
        };
        self.count(from, &answered);
        answered
    }

    async fn decide(
        &self,
        request: &Request<'_>,
        (now, deadline, door): (Timestamp, Option<Timestamp>, Door),
        check: Option<&mut Check>,
        out: &mut Vec<u8>,
    ) -> Result<(), CallError> {
        let descriptors = self.descriptors(request)?;
        let told = || request.told();
        let asked = Asked { domain: request.domain, descriptors: &descriptors, told: &told, now, door };
        self.0.decide(&asked, deadline, check, |answer| tell(answer, now, out)).await;
        Ok(())
    }

    /// Follows the check of a request with these headers, where it is to be followed.
    #[inline]
    pub(crate) fn follow(&self, headers: &HeaderMap, door: Door) -> Option<Check> {
        self.0.tracer().and_then(|tracer| tracer.check(headers, door))
    }

    /// A request, if whoever sends it may.
    fn read<'a>(&self, message: &'a [u8], grant: Option<&Grant>) -> Result<Request<'a>, CallError> {
        let request = Request::read(message).map_err(|_| CallError::Malformed)?;
        if grant.is_some_and(|grant| !grant.admits(request.domain)) {
            self.0.stats().access.denied.fetch_add(1, Ordering::Relaxed);
            return Err(CallError::NotItsDomain);
        }
        Ok(request)
    }

    /// What is asked, unless there is nothing to decide it by.
    fn descriptors<'a>(&self, request: &'a Request<'_>) -> Result<Descriptors<'a>, CallError> {
        let descriptors = request.descriptors()?;
        if self.0.has_rules() { Ok(descriptors) } else { Err(CallError::NoRules) }
    }

    /// What has an answer is counted while it is told.
    fn count(&self, from: Timestamp, answered: &Result<(), CallError>) {
        if answered.is_err() {
            self.has_failed(SystemClock.now().since(from));
        }
    }

    /// A call has ended without a decision, after as long as that.
    pub(crate) fn has_failed(&self, took: Duration) {
        let stats = self.0.stats();
        stats.service_errors.fetch_add(1, Ordering::Relaxed);
        if self.0.counts() {
            stats.series.errors.observe(took);
        }
    }
}

/// Appends an answer, and counts how long all of it took.
fn tell(answer: &Answer<'_>, from: Timestamp, out: &mut Vec<u8>) {
    response::write(answer, out);
    if let Some(timings) = answer.timings() {
        timings.observe(SystemClock.now().since(from));
    }
}
