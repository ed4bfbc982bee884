//! Precomputed response headers of one limit.
//!
//! Everything in a response that does not depend on the decision is built when the limit is, because a
//! refusal must cost no more than a pass.

use crate::limit_kind::{LimitKind, LimitScope};
use hivemind_core::Limit;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;
use std::time::Duration;

pub(crate) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
pub(crate) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(crate) const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
pub(crate) const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
pub(crate) const X_DRY_RUN: HeaderName = HeaderName::from_static("x-ratelimit-dry-run");

/// The parts of a limit's headers that are the same for every decision.
pub(crate) struct Policy {
    pub(crate) name: Box<str>,
    /// `RateLimit-Policy`: `"api";q=100;w=60`
    pub(crate) header: HeaderValue,
    /// The beginning of `RateLimit`: `"api";r=`
    pub(crate) start: Box<str>,
    /// `X-RateLimit-Limit`: `100`
    pub(crate) limit: HeaderValue,
    /// The headers of the default refusal, with [placeholders](Placeholder) for the decision's values.
    pub(crate) refusal: HeaderMap,
}

impl Policy {
    pub(crate) fn new(scope: &LimitScope<'_>, limit: &Limit) -> Self {
        let service = scope.service.unwrap_or("default");
        let name = match (scope.kind, scope.endpoint) {
            (LimitKind::Http, "*") => service.to_owned(),
            (LimitKind::Http, endpoint) => format!("{service} {endpoint}"),
            (LimitKind::IpGuard, _) => "address".to_owned(),
            (kind, _) => format!("{service} {kind}"),
        };
        let (requests, seconds) = (limit.requests(), whole_seconds(limit.period().length()));
        // Names of services and endpoints are validated when they are configured: ASCII, without quotes.
        let header = header_value(format!("\"{name}\";q={requests};w={seconds}").as_bytes());
        let limit = HeaderValue::from(requests);
        Self {
            start: format!("\"{name}\";r=").into(),
            refusal: refusal_template(&header, &limit),
            header,
            limit,
            name: name.into(),
        }
    }

    /// The value of `RateLimit`: `"api";r=99;t=1`
    pub(crate) fn ratelimit(&self, remaining: u64, reset_after: Duration) -> HeaderValue {
        let mut digits = itoa::Buffer::new();
        let mut text = SmallVec::<[u8; 128]>::new();
        text.extend_from_slice(self.start.as_bytes());
        text.extend_from_slice(digits.format(remaining).as_bytes());
        text.extend_from_slice(b";t=");
        text.extend_from_slice(digits.format(whole_seconds(reset_after)).as_bytes());
        header_value(&text)
    }
}

/// A one-letter value in [`Policy::refusal`] that stands for a value of the decision. No other value there
/// has one letter.
pub(crate) struct Placeholder;

impl Placeholder {
    pub(crate) const CONTENT_LENGTH: &[u8] = b"n";
    pub(crate) const RETRY_AFTER: &[u8] = b"w";
    pub(crate) const RATELIMIT: &[u8] = b"l";
    pub(crate) const REMAINING: &[u8] = b"r";
    pub(crate) const RESET: &[u8] = b"t";
}

fn refusal_template(policy: &HeaderValue, limit: &HeaderValue) -> HeaderMap {
    [
        (CONTENT_TYPE, HeaderValue::from_static("application/problem+json")),
        // Set here because axum would add it, and growing the map costs as much as copying it.
        (CONTENT_LENGTH, header_value(Placeholder::CONTENT_LENGTH)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (RETRY_AFTER, header_value(Placeholder::RETRY_AFTER)),
        (RATELIMIT_POLICY, policy.clone()),
        (RATELIMIT, header_value(Placeholder::RATELIMIT)),
        (X_LIMIT, limit.clone()),
        (X_REMAINING, header_value(Placeholder::REMAINING)),
        (X_RESET, header_value(Placeholder::RESET)),
    ]
    .into_iter()
    .collect()
}

/// Rounds up.
pub(crate) fn whole_seconds(span: Duration) -> u64 {
    span.as_secs().saturating_add(u64::from(span.subsec_nanos() > 0))
}

pub(crate) fn number(value: u64) -> HeaderValue {
    header_value(itoa::Buffer::new().format(value).as_bytes())
}

/// Names and numbers are ASCII, so this cannot fail; an empty value would still be correct.
fn header_value(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}
