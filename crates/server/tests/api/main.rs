//! The admin API, the HTTP check and the command line, tested with the real binary over real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod access;
mod answers;
mod audit;
mod completions;
mod ctl;
mod description;
mod http;
mod keys;
mod limits;
mod reference;

/// The rules of most services in this binary.
const RULES: &str = "
domain: shop
descriptors:
- {key: plan, value: gold, descriptors: [ {key: user, rate_limit: {unit: minute, requests_per_unit: 50, name: Generous}} ]}
- {key: user, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: path, value: '/free*', rate_limit: {unlimited: true}}
- {key: bot, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 3}}
- {key: allowed, value: x}
";
