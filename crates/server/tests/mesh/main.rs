//! Nodes that share their limits as a mesh: real processes on loopback, on ports that the kernel chooses.
//! Every test waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

#[expect(dead_code, reason = "nothing here reads descriptions of messages")]
#[path = "../../src/proto.rs"]
mod proto;
#[expect(dead_code, unused_imports, reason = "it is that of tests/serve, which needs more of it")]
#[path = "../serve/support/mod.rs"]
mod support;
#[path = "../tools/mod.rs"]
mod tools;

#[path = "../storage/app.rs"]
mod app;
mod certs;
mod demo;
mod description;
mod gateway;
mod gone;
mod keys;
mod nodes;
mod rolling;
mod sharing;
mod start;
mod told;
#[path = "../api/validator.rs"]
mod validator;
