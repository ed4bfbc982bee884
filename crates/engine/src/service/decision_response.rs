//! Result of a request: overall code, statuses, headers and metadata.

use super::{DecisionRequest, HeaderNames};
use crate::ruleset::Extras;
use hivemind_core::{Limit, Timestamp};
use hivemind_telemetry::logging::{LoggedDecision, LoggedStatus};
use hivemind_telemetry::{DomainSeries, Timings};
use serde_json::{Map, Value};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Ok,
    OverLimit,
}

/// The limit reported in a status.
#[derive(Clone, Debug)]
pub struct CurrentLimit<'r> {
    pub limit: Limit,
    /// All limits of its rule; `limit` is currently the tightest.
    pub all: &'r [Limit],
    pub name: &'r str,
}

impl CurrentLimit<'_> {
    /// Header value: the requests of the tightest limit, followed, for several limits, by all of them with
    /// their windows in seconds, in the format of Envoy.
    fn header(&self) -> String {
        let tightest = self.limit.requests().to_string();
        let policies = self.all.iter().map(|limit| {
            let (requests, window) = (limit.requests(), limit.period().length());
            format!("{requests};w={}", window.as_secs().max(1))
        });
        if self.all.len() < 2 {
            tightest
        } else {
            std::iter::once(tightest).chain(policies).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Quota that a client may spend without further calls.
#[derive(Clone, Debug)]
pub struct Grant<'r> {
    pub id: &'r str,
    pub requests: u32,
    pub valid_until: Timestamp,
}

/// Result of one descriptor.
#[derive(Clone, Debug)]
pub struct Status<'r> {
    pub code: Code,
    pub limit: Option<CurrentLimit<'r>>,
    pub remaining: u32,
    pub reset_after: Option<Duration>,
    pub grant: Option<Grant<'r>>,
}

impl Status<'_> {
    pub(super) fn without_limit(remaining: u32) -> Self {
        Self { code: Code::Ok, limit: None, remaining, reset_after: None, grant: None }
    }

    /// Whole seconds until the reset, rounded up. At least 1 for a refusal, because 0 would invite an immediate
    /// retry; a full bucket that is too small for the request would return it.
    pub fn reset_seconds(&self) -> Option<u64> {
        let least = u64::from(self.code == Code::OverLimit);
        self.reset_after.map(|span| (span.as_secs() + u64::from(span.subsec_nanos() > 0)).max(least))
    }
}

/// Result of a request.
#[derive(Debug)]
pub struct DecisionResponse<'r> {
    pub overall: Code,
    pub statuses: SmallVec<[Status<'r>; 2]>,
    pub response_headers: Vec<(&'r str, Cow<'r, str>)>,
    pub request_headers: Vec<(&'r str, &'r str)>,
    pub raw_body: Option<&'r str>,
    pub dynamic_metadata: Option<Value>,
    /// Whether one of its keys is blocked.
    pub is_blocked: bool,
    /// The series for the request's duration; none if metrics are off.
    pub(super) domain: Option<&'r DomainSeries>,
    /// Merged metadata of the rules that admit the request.
    metadata: Option<Value>,
    /// Index of the status reported in the limit headers.
    tightest: Option<usize>,
    tightest_is_over: bool,
}

impl<'r> DecisionResponse<'r> {
    pub(super) fn new(committed: bool) -> Self {
        Self {
            overall: if committed { Code::Ok } else { Code::OverLimit },
            statuses: SmallVec::new(),
            response_headers: Vec::new(),
            request_headers: Vec::new(),
            raw_body: None,
            dynamic_metadata: None,
            is_blocked: false,
            domain: None,
            metadata: None,
            tightest: None,
            tightest_is_over: false,
        }
    }

    /// The answer for this number of descriptors while rate limiting is disabled.
    pub(super) fn unlimited(descriptors: usize) -> Self {
        Self { statuses: smallvec![Status::without_limit(0); descriptors], ..Self::new(true) }
    }

    /// A refusal or an admission with one status, to measure the codec.
    #[cfg(any(test, fuzzing, feature = "testing"))]
    pub fn of_status(status: Status<'r>) -> Self {
        let mut response = Self::new(status.code == Code::Ok);
        response.add(status, None, false);
        response
    }

    /// The histogram for the time this answer took.
    pub fn timings(&self) -> Option<&'r Timings> {
        self.domain.map(|domain| match self.overall {
            Code::Ok => &domain.ok,
            Code::OverLimit => &domain.over_limit,
        })
    }

    pub(super) fn add(&mut self, status: Status<'r>, extras: Option<&'r Extras>, is_quota: bool) {
        let over = status.code == Code::OverLimit;
        if let Some(Extras { response, metadata, .. }) = extras {
            let headers = response.headers.iter();
            self.response_headers.extend(headers.map(|(name, value)| (name.as_str(), value.into())));
            if self.overall == Code::Ok {
                let headers = response.request_headers.iter();
                self.request_headers.extend(headers.map(|(name, value)| (name.as_str(), value.as_str())));
            }
            if over && self.raw_body.is_none() {
                self.raw_body = response.raw_body.as_deref();
            }
            if let (false, Some(metadata)) = (over, metadata) {
                merge(self.metadata.get_or_insert_with(|| Value::Object(Map::new())), metadata);
            }
        }
        self.note_if_tightest(&status, over && !is_quota);
        self.statuses.push(status);
    }

    /// Reports the status with the least remaining, the first of equals. A refusal takes precedence, the last one.
    fn note_if_tightest(&mut self, status: &Status<'_>, refuses: bool) {
        if status.limit.is_none() {
            return;
        }
        let least = self.tightest.and_then(|index| self.statuses.get(index)).map(|status| status.remaining);
        if refuses || (!self.tightest_is_over && least.is_none_or(|least| status.remaining < least)) {
            self.tightest = Some(self.statuses.len());
            self.tightest_is_over |= refuses;
        }
    }

    /// Builds Envoy's dynamic metadata from the request's part and the metadata of the rules that admit it.
    pub(super) fn add_dynamic_metadata(&mut self, mut of_request: Map<String, Value>) {
        if let Some(metadata) = &self.metadata {
            of_request.insert("metadata".into(), metadata.clone());
        }
        self.dynamic_metadata = Some(Value::Object(of_request));
    }

    /// The reported status with its descriptor's index: a refusal, otherwise the status with the least remaining.
    pub(crate) fn tightest(&self) -> Option<(usize, &Status<'r>)> {
        self.tightest.and_then(|index| Some((index, self.statuses.get(index)?)))
    }

    /// The answer as an entry of the decision log.
    pub(super) fn logged<'a>(&'a self, request: &DecisionRequest<'a>) -> LoggedDecision<'a> {
        let logged = |(at, status): (usize, &'a Status<'r>)| {
            let limit = status.limit.as_ref().map(|current| (current.limit, current.name));
            (at, LoggedStatus { limit, remaining: status.remaining })
        };
        LoggedDecision {
            domain: request.domain,
            descriptors: request.descriptors,
            now: request.now,
            is_denied: self.overall == Code::OverLimit,
            is_blocked: self.is_blocked,
            tightest: self.tightest().map(logged),
        }
    }

    pub(super) fn add_limit_headers(&mut self, names: &'r HeaderNames) {
        let Some(status) = self.tightest.and_then(|index| self.statuses.get(index)) else { return };
        let Some(current) = &status.limit else { return };
        let headers = [
            (names.limit.as_str(), current.header().into()),
            (names.remaining.as_str(), status.remaining.to_string().into()),
            (names.reset.as_str(), status.reset_seconds().unwrap_or(0).to_string().into()),
        ];
        self.response_headers.extend(headers);
    }
}

/// Merges maps recursively; existing values are kept.
fn merge(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (key, value) in from {
        match into.get_mut(key) {
            Some(known) => merge(known, value),
            None => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}
