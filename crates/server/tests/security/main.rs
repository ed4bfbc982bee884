//! TLS, API keys and tokens: the real binary, tested with openssl, curl and gRPC over real sockets. Every test
//! starts its own service and CAs, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod admin;
mod keys;
mod listeners;
mod ports;
mod rotation;
mod secrets;

/// The rules of the services in this binary.
const RULES: &str =
    "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 1000000}}\n";
