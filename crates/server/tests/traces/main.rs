//! Traces: the real binary, real clients, and a receiver that decodes messages with OpenTelemetry's own types.
//! Every test has its own service and receiver. Spans are sent at the latest when a service stops, so most
//! tests stop it and then check.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod check_spans;
mod envoy;
mod gateway;
mod mesh;
mod outages;
mod proxy;
mod receiver;
mod sampling;
mod secrecy;
mod service;
mod stores;

/// The rules of every service in this binary.
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
