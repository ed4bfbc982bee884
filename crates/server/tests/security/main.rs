//! TLS, keys and tokens from outside: the real binary, asked by openssl, curl and gRPC over real sockets. Every test
//! starts a service of its own, has its own authorities, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod admin;
mod hosts;
mod keys;
mod ports;
mod rotation;
mod secrets;

/// What every service here limits.
const RULES: &str =
    "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 1000000}}\n";
