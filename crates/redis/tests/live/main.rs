//! The store on real servers: each test starts its own, and ends it by its id.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test's helpers fail by panicking, and say how long it took to recover"
)]

mod changes;
mod cluster;
mod conformance;
mod failure;
mod login;
mod sentinel;
mod server;
mod sharing;
mod stores;
