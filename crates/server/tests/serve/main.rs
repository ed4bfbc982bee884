//! `hivemind serve`: the real binary over real sockets. Every test starts its own service on ports that the
//! kernel chooses, so that tests are independent, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod admin;
mod bad_requests;
mod check;
mod decisions;
mod events;
mod explain;
mod gateway_reload;
mod health;
mod hits_addend;
mod hostile_bodies;
mod isolation;
mod keys;
mod limits;
mod metrics;
mod modes;
mod on_refusal;
mod quotas;
mod reload;
mod reload_under_load;
mod request_limits;
mod response_fields;
mod rule_matching;
mod shutdown;
mod simulate;
mod sockets;
mod startup;
mod wildcards;
