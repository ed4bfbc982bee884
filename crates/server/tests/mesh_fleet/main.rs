//! Fleets of real nodes that share limits without a store: real processes, real certificates, and real networks
//! that are cut, lose packets and delay them. Every test waits for events, or for a window's edge, under a
//! deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and one that measures prints its results"
)]

// Envoy and its HTTP client come from the testkit.

mod agreement;
mod authority;
mod callers;
mod clocks;
mod crashes;
mod cuts;
mod delay;
mod edges;
mod envoys;
mod fleet;
mod floods;
mod harness;
mod load;
mod network;
mod node;
mod owners;
mod pods;
mod rules;
mod small_limits;
mod strangers;
mod tally;
mod window_time;
