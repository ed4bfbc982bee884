//! Requests in a short form: `a=1 b=2 | c=3` are two descriptors, the first with two entries.

use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::proto::envoy::service::ratelimit::v3::RateLimitRequest;

/// The descriptors of a request.
fn descriptors(text: &str) -> Vec<RateLimitDescriptor> {
    let entry = |entry: &str| {
        let (key, value) = entry.split_once('=').expect("key=value");
        Entry { key: key.to_owned(), value: value.to_owned() }
    };
    let descriptor = |text: &str| RateLimitDescriptor {
        entries: text.split_whitespace().map(entry).collect(),
        ..RateLimitDescriptor::default()
    };
    text.split('|').map(descriptor).collect()
}

/// A request of one hit.
pub fn request(domain: &str, text: &str) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors: descriptors(text), hits_addend: 0 }
}

/// The same request as a peek.
pub fn peek(domain: &str, text: &str) -> RateLimitRequest {
    let mut request = request(domain, text);
    for descriptor in &mut request.descriptors {
        descriptor.hits_addend = Some(0);
    }
    request
}
