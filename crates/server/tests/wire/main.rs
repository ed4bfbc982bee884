//! `hivemind serve` at the level of HTTP/2 frames: frames of well-behaved, broken and hostile clients, and
//! timeouts. Every test starts the real binary; a hostile connection has an honest one next to it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod idle_clients;
mod memory;
mod service;

mod bodies;
mod cancels;
mod connection_eviction;
mod connection_limit;
mod drain;
mod floods;
mod grpcio;
mod header_bombs;
mod hpack;
mod idleness;
mod incomplete_messages;
mod requests;
mod responses;
mod services;
mod timeouts;
mod unread_responses;
mod violations;
mod windows;
mod workers;
