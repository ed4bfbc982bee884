//! Parts of a call without I/O, and a whole one: each takes the same path every time, because its time is fixed.

use crate::proto::envoy::extensions::common::ratelimit::v3::{
    RateLimitDescriptor, rate_limit_descriptor::Entry as ProtoEntry,
};
use crate::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::rls::{self, DecodedRequest, RateLimitService};
use hivemind_core::{Entry, Limit, ManualClock, Timestamp};
use hivemind_engine::service::{Code, CurrentLimit, DecisionResponse, Status};
use hivemind_engine::testing::default_service;
use prost::Message;
use std::time::Duration;

/// The bytes of a request.
#[must_use]
pub fn encode_request(domain: &str, descriptors: &[&[Entry<'_>]]) -> Vec<u8> {
    let entry = |(key, value): &Entry<'_>| ProtoEntry { key: (*key).into(), value: (*value).into() };
    let descriptor = |entries: &&[Entry<'_>]| RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    };
    let descriptors = descriptors.iter().map(descriptor).collect();
    RateLimitRequest { domain: domain.into(), descriptors, hits_addend: 0 }.encode_to_vec()
}

/// Decodes a request into the types of the engine, and returns the number of its descriptors.
#[must_use]
pub fn decode_request(message: &[u8]) -> usize {
    let Ok(request) = DecodedRequest::decode(message) else { panic!("not a request") };
    let Ok(descriptors) = request.descriptors() else { panic!("an invalid request") };
    descriptors.len()
}

/// A function that appends a response with one status.
pub fn response_writer(limit: Limit, is_over: bool) -> impl Fn(&mut Vec<u8>) {
    let status = Status {
        code: if is_over { Code::OverLimit } else { Code::Ok },
        limit: Some(CurrentLimit { limit, all: &[], name: "" }),
        remaining: if is_over { 0 } else { limit.requests() - 1 },
        reset_after: Some(Duration::from_secs(3_600)),
        grant: None,
    };
    let response = DecisionResponse::of_status(status);
    move |out| rls::write(&response, out)
}

/// A rate limit service with the default options and telemetry, which counts in memory at a fixed time.
pub struct FixedTimeService {
    service: RateLimitService,
    clock: ManualClock,
}

impl FixedTimeService {
    #[must_use]
    pub fn new(rules: &str, now: Timestamp) -> Self {
        Self { service: RateLimitService(default_service(rules)), clock: ManualClock::at(now) }
    }

    /// Appends the response to a request, as a connection does it.
    pub fn call(&self, message: &[u8], out: &mut Vec<u8>) {
        let result = self.service.try_by(&self.clock, message, None, None, out);
        assert_eq!(result, Some(Ok(())), "the memory store decides at once");
    }
}
