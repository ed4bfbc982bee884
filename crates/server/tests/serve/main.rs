//! `hivemind serve` from outside: the real binary, asked over real sockets. Every
//! test starts a service of its own on ports that the kernel chooses, so that none
//! depends on another, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod admin;
mod answers;
mod bad_requests;
mod check;
mod decisions;
mod events;
mod explain;
mod first_load;
mod gateway_reload;
mod health;
mod hits;
mod keys;
mod limits;
mod lookup;
mod metrics;
mod modes;
mod neighbours;
mod on_refusal;
mod overrides;
mod quotas;
mod reload;
mod reload_under_load;
mod shutdown;
mod simulate;
mod sockets;
mod wildcards;
