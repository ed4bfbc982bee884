//! Traces from outside: the real binary, real callers, and a receiver that decodes what arrives by OpenTelemetry's own
//! messages. Every test has a service and a receiver of its own. What is to be sent is sent at the latest when a service
//! ends, so most tests end it and then look.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails and tells"
)]

#[expect(dead_code, reason = "nothing here reads descriptions of messages")]
#[path = "../../src/proto.rs"]
mod proto;
#[expect(dead_code, unused_imports, reason = "it is that of tests/serve, which needs more of it")]
#[path = "../serve/support/mod.rs"]
mod support;
#[path = "../tools/mod.rs"]
mod tools;

#[expect(dead_code, reason = "it is that of tests/mesh, which needs more of it")]
#[path = "../mesh/nodes.rs"]
mod nodes;
#[expect(dead_code, reason = "it is that of tests/storage, which needs more of it")]
#[path = "../storage/redis.rs"]
mod redis;

#[path = "../envoy/bootstrap.rs"]
mod bootstrap;
#[path = "../envoy/deadline.rs"]
mod deadline;
#[expect(dead_code, reason = "it is that of tests/envoy, which needs more of it")]
#[path = "../envoy/http.rs"]
mod http;
#[path = "../envoy/process.rs"]
mod process;
#[expect(dead_code, reason = "it is that of tests/envoy, which needs more of it")]
#[path = "../envoy/proxy.rs"]
mod proxy;

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
