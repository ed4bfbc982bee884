//! Nodes that share their limits in Redis: real nodes, a real Redis of each test's own, and all
//! that may happen to it. Every test waits for events under a deadline.

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

mod access;
mod app;
mod cluster;
mod failover;
mod gateway;
mod keys;
mod load;
mod nodes;
mod outages;
mod redis;
mod sharing;
mod start;
