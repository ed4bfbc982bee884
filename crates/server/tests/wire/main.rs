//! `hivemind serve` at the level of single HTTP/2 frames: what well-behaved clients may
//! send, what broken and hostile ones do send, and how long any of them is waited for.
//! Every test starts the real binary, and a hostile connection has an honest one beside it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod memory;
mod rules;

mod answers;
mod bodies;
mod bombs;
mod cancels;
mod drain;
mod floods;
mod grpcio;
mod idleness;
mod neighbours;
mod places;
mod requests;
mod tables;
mod timeouts;
mod unfinished;
mod unread;
mod violations;
mod windows;
mod workers;
