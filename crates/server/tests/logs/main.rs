//! Logs, health, and the files shipped for Prometheus, Grafana and collectors. The real binary over real
//! sockets; every test starts its own service and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod clock;
mod decisions;
mod deploy;
mod format;
mod health;
mod levels;
mod reloads;
mod secrets;

use serde_json::Value;

const RULES: &str = "
domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 2, name: two}}
- {key: many, rate_limit: {unit: day, requests_per_unit: 1000000}}
- {key: outer, descriptors: [ {key: path, rate_limit: {unit: hour, requests_per_unit: 9}} ]}
";

/// The JSON of a log line.
fn line(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn json(text: &str) -> Value {
    line(text)
}
