//! Nodes that share limits in Redis: real nodes, a real Redis per test, and its failures. Every test waits for
//! events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod access;
mod cluster;
mod failover;
mod gateway;
mod keys;
mod load;
mod nodes;
mod outages;
mod sharing;
mod start;
