//! Fleets of real nodes that share limits with no store: real processes, real certificates, real
//! networks that are cut, lose and delay. Every test waits for events, or for a window's edge,
//! under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and one that measures says what it measured"
)]

// The Envoy of tests/envoy, and the little HTTP that it is asked with.

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
mod moment;
mod network;
mod node;
mod owners;
mod pods;
mod rules;
mod small_limits;
mod strangers;
mod tally;
