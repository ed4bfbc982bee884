//! What an operator is told, from outside: the log, health, and what is shipped for Prometheus and Grafana. The real binary,
//! asked over real sockets; every test starts a service of its own and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod changes;
mod clock;
mod decisions;
mod format;
mod health;
mod levels;
mod secrets;
mod shipped;

use serde_json::Value;

const RULES: &str = "
domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 2, name: two}}
- {key: many, rate_limit: {unit: day, requests_per_unit: 1000000}}
- {key: outer, descriptors: [ {key: path, rate_limit: {unit: hour, requests_per_unit: 9}} ]}
";

/// A line of the log, read.
fn line(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn json(text: &str) -> Value {
    line(text)
}
