//! Nodes that share their limits as a mesh: real processes on loopback, on ports that the kernel chooses.
//! Every test waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod certs;
mod demo;
mod description;
mod gateway;
mod gone;
mod keys;
mod rolling;
mod sharing;
mod start;
mod told;
