//! Exported metrics: the real binary, an OTLP receiver that decodes with OpenTelemetry's own types, a real
//! Prometheus and its promtool. Every test starts and stops what it needs.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod exports;
mod labels;
mod prometheus;
mod receiver;
mod receiver_failures;
mod series;
mod top;

/// The rules of most services in this binary.
const RULES: &str = "
domain: shop
descriptors:
- {key: hot, rate_limit: {unit: day, requests_per_unit: 1000000}}
- {key: ten, rate_limit: {unit: hour, requests_per_unit: 10}}
- key: tenant
  value: big
  descriptors:
  - {key: path, rate_limit: {unit: minute, requests_per_unit: 3}}
- key: tenant
  descriptors:
  - {key: path, rate_limit: {unit: minute, requests_per_unit: 3}}
";
