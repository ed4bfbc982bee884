//! Fuzz targets of the rate limit service (its codec compared with prost, and whole calls), and what
//! `cargo xtask perf` measures of it.

#![expect(clippy::panic, clippy::missing_panics_doc, reason = "a broken promise must end the run")]

mod perf;

pub use perf::{FixedTimeService, decode_request, encode_request, response_writer};

use crate::proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
};
use crate::rls::{DecodedRequest, RateLimitService};
use hivemind_core::store::OnRefusal;
use hivemind_engine::service::Options;
use hivemind_engine::testing::{EVERY_KEY, options, service};
use prost::Message;

/// Bytes as a message: our codec and prost accept or reject the same bytes, and read the same values. Returns whether
/// they accept.
#[must_use]
pub fn rls_codec(bytes: &[u8]) -> bool {
    let (ours, theirs) = (DecodedRequest::decode(bytes), RateLimitRequest::decode(bytes));
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(_), Err(_)) => return false,
        (ours, theirs) => panic!("ours: {ours:?}, prost: {theirs:?}, of {bytes:02x?}"),
    };
    assert_eq!((ours.domain, ours.hits_addend), (&*theirs.domain, theirs.hits_addend), "{bytes:02x?}");
    assert_eq!(ours.count(), theirs.descriptors.len(), "{bytes:02x?}");
    for ((entries, decoded), descriptor) in ours.raw_descriptors().zip(&theirs.descriptors) {
        let their_entries = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value));
        assert!(entries.iter().copied().eq(their_entries), "{bytes:02x?}");
        let their_limit = descriptor.limit.as_ref().map(|limit| (limit.requests_per_unit, limit.unit));
        assert_eq!(decoded.limit, their_limit, "{bytes:02x?}");
        assert_eq!(decoded.hits_addend, descriptor.hits_addend, "{bytes:02x?}");
        assert_eq!(decoded.is_negative_hits, descriptor.is_negative_hits, "{bytes:02x?}");
    }
    true
}

/// Bytes as a call of the service: a response with a status for each descriptor, encoded as prost encodes it, or an
/// error. Returns whether it was a response.
#[must_use]
pub fn rls_request(bytes: &[u8]) -> bool {
    if !rls_codec(bytes) {
        return false;
    }
    let asked = RateLimitRequest::decode(bytes).map_or(0, |request| request.descriptors.len());
    let watching = Options { shadow_mode: true, on_refusal: OnRefusal::CountAll, ..options() };
    let mut is_answered = true;
    let quotas = Options { quota_mode: true, on_refusal: OnRefusal::CountNone, ..options() };
    for options in [options(), watching, quotas] {
        let never_refuses = options.shadow_mode;
        let service = RateLimitService(service(EVERY_KEY.clone(), options));
        for _ in 0..2 {
            let mut answer = Vec::new();
            match service.try_should_rate_limit(bytes, None, None, &mut answer) {
                Some(Ok(())) => sound(&answer, asked, never_refuses),
                Some(Err(error)) => {
                    assert!(!error.to_string().is_empty());
                    is_answered = false;
                }
                None => panic!("the memory store never waits"),
            }
        }
    }
    is_answered
}

fn sound(bytes: &[u8], asked: usize, never_refuses: bool) {
    let Ok(answer) = RateLimitResponse::decode(bytes) else { panic!("prost cannot read {bytes:02x?}") };
    assert_eq!(answer.encode_to_vec(), bytes, "prost encodes {answer:?} differently");
    assert_eq!(answer.statuses.len(), asked);
    assert_ne!(answer.overall_code(), Code::Unknown);
    assert!(!never_refuses || answer.overall_code() == Code::Ok);
    assert!(answer.statuses.iter().all(|status| status.code() != Code::Unknown));
}
