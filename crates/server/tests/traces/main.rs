//! Traces from outside: the real binary, real callers, and a receiver that decodes what arrives by OpenTelemetry's own
//! messages. Every test has a service and a receiver of its own. What is to be sent is sent at the latest when a service
//! ends, so most tests end it and then look.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails and tells"
)]

mod asking;
mod checks;
mod envoy;
mod front;
mod gateway;
mod mesh;
mod outages;
mod receiver;
mod sampling;
mod secrecy;
mod stores;

/// What every service here limits.
const RULES: &str = "
domain: d
descriptors:
- {key: k, rate_limit: {unit: year, requests_per_unit: 1000000}}
- {key: one, rate_limit: {unit: year, requests_per_unit: 1}}
- key: k
  value: pair
  descriptors:
  - {key: l, rate_limit: {unit: year, requests_per_unit: 10}}
";
