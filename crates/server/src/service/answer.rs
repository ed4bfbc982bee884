//! The answer to a request, in our own types.

use super::{Asked, HeaderNames};
use crate::ruleset::Extras;
use hivemind_core::{Limit, Timestamp};
use hivemind_telemetry::logging::{LoggedDecision, LoggedStatus};
use hivemind_telemetry::{DomainSeries, Timings};
use serde_json::{Map, Value};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Ok,
    OverLimit,
}

/// The limit that a status tells of.
#[derive(Clone, Debug)]
pub(crate) struct CurrentLimit<'r> {
    pub(crate) limit: Limit,
    /// All limits of its rule, of which `limit` is the tightest now.
    pub(crate) all: &'r [Limit],
    pub(crate) name: &'r str,
}

impl CurrentLimit<'_> {
    /// The tightest limit's requests; where there are several limits, all of them after it, with
    /// their windows in seconds, in the form that Envoy writes them in.
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

/// What a client may spend without asking again.
#[derive(Clone, Debug)]
pub(crate) struct Grant<'r> {
    pub(crate) id: &'r str,
    pub(crate) requests: u32,
    pub(crate) valid_until: Timestamp,
}

/// What became of one descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Status<'r> {
    pub(crate) code: Code,
    pub(crate) limit: Option<CurrentLimit<'r>>,
    pub(crate) remaining: u32,
    pub(crate) reset_after: Option<Duration>,
    pub(crate) grant: Option<Grant<'r>>,
}

impl Status<'_> {
    pub(super) fn without_limit(remaining: u32) -> Self {
        Self { code: Code::Ok, limit: None, remaining, reset_after: None, grant: None }
    }

    /// Whole seconds until the reset, rounded up. A refusal never says 0, which invites to ask again
    /// at once: that of a full bucket too small for the request would.
    pub(crate) fn reset_seconds(&self) -> Option<u64> {
        let least = u64::from(self.code == Code::OverLimit);
        self.reset_after.map(|span| (span.as_secs() + u64::from(span.subsec_nanos() > 0)).max(least))
    }
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Answer<'r> {
    pub(crate) overall: Code,
    pub(crate) statuses: SmallVec<[Status<'r>; 2]>,
    pub(crate) response_headers: Vec<(&'r str, Cow<'r, str>)>,
    pub(crate) request_headers: Vec<(&'r str, &'r str)>,
    pub(crate) raw_body: Option<&'r str>,
    pub(crate) dynamic_metadata: Option<Value>,
    /// Whether an operator has blocked something of it.
    pub(crate) is_blocked: bool,
    /// What the request's time is counted in; none where nobody reads it.
    pub(super) domain: Option<&'r DomainSeries>,
    /// What the rules that let the request pass say of it, merged.
    metadata: Option<Value>,
    /// The status that the three headers tell of.
    tightest: Option<usize>,
    tightest_is_over: bool,
}

impl<'r> Answer<'r> {
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

    /// The answer to so many descriptors where nothing is limited.
    pub(super) fn unlimited(descriptors: usize) -> Self {
        Self { statuses: smallvec![Status::without_limit(0); descriptors], ..Self::new(true) }
    }

    /// What the time is counted in that it took to tell this.
    pub(crate) fn timings(&self) -> Option<&'r Timings> {
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

    /// The least left tells, the first of equals; what refuses the request overrides it, the last one.
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

    /// What Envoy may route by: the request as it was `told`, and what the rules that let it pass say of it.
    pub(super) fn add_dynamic_metadata(&mut self, mut told: Map<String, Value>) {
        if let Some(metadata) = &self.metadata {
            told.insert("metadata".into(), metadata.clone());
        }
        self.dynamic_metadata = Some(Value::Object(told));
    }

    /// The status that speaks for all, and which descriptor it is of: what refuses, else the one with the least left.
    pub(crate) fn tightest(&self) -> Option<(usize, &Status<'r>)> {
        self.tightest.and_then(|index| Some((index, self.statuses.get(index)?)))
    }

    /// As the log of decisions shows it.
    pub(super) fn logged<'a>(&'a self, asked: &Asked<'a>) -> LoggedDecision<'a> {
        let logged = |(at, status): (usize, &'a Status<'r>)| {
            let limit = status.limit.as_ref().map(|current| (current.limit, current.name));
            (at, LoggedStatus { limit, remaining: status.remaining })
        };
        LoggedDecision {
            domain: asked.domain,
            descriptors: asked.descriptors,
            now: asked.now,
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

/// Adds what is new; where both have a value, the first one stays, and maps are merged.
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
