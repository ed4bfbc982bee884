//! Nodes that share their limits as a mesh: real processes on loopback, with ports that the kernel chooses.
//! Every test waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod api_schemas;
mod certs;
mod demo;
mod forget;
mod gateway;
mod keys;
mod rolling_restart;
mod sharing;
mod start;
mod status;
