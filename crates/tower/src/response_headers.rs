//! Rate limit headers of a response: `RateLimit-Policy`, `RateLimit` and the `X-RateLimit-*` family.

use crate::decision::Decision;
use crate::header_format::Headers;
use crate::limit_kind::LimitKind;
use crate::policy::{
    RATELIMIT, RATELIMIT_POLICY, X_DRY_RUN, X_LIMIT, X_REMAINING, X_RESET, number, whole_seconds,
};
use hivemind_core::Timestamp;
use http::{HeaderMap, HeaderValue};

impl Decision {
    /// Writes the decision into the headers of a response.
    pub(crate) fn write_headers(&self, headers: &mut HeaderMap) {
        if !self.has_window() {
            return;
        }
        let format = self.state().headers;
        let (policy, verdict) = (&self.bucket().policy, self.verdict());
        // Growing the map one by one costs more than filling it. Room for one header too many would double the
        // map where axum's `Content-Length` is in it already, which costs more than everything else here.
        headers.reserve(match format.headers {
            Headers::Both => 5,
            Headers::X => 3,
            Headers::Ietf => 2,
            Headers::Off => 0,
        });
        if matches!(format.headers, Headers::Ietf | Headers::Both) {
            headers.insert(RATELIMIT_POLICY, policy.header.clone());
            headers.insert(RATELIMIT, policy.ratelimit(verdict.remaining, verdict.reset_after));
        }
        if matches!(format.headers, Headers::X | Headers::Both) {
            headers.insert(X_LIMIT, policy.limit.clone());
            headers.insert(X_REMAINING, number(verdict.remaining));
            headers.insert(X_RESET, number(self.reset()));
        }
        if self.is_dry_run_refusal() {
            headers.insert(X_DRY_RUN, HeaderValue::from_static("refused"));
        }
    }

    /// The value of `X-RateLimit-Reset`: seconds since the Unix epoch, or from now.
    pub(crate) fn reset(&self) -> u64 {
        let after = self.verdict().reset_after;
        if self.state().headers.reset_is_delta {
            return whole_seconds(after);
        }
        whole_seconds(self.at().saturating_add(after).since(Timestamp::EPOCH))
    }

    /// Whether its limit has a window and a reset. A limit on open connections has neither.
    pub(crate) fn has_window(&self) -> bool {
        self.kind() != LimitKind::WsOpen
    }
}
