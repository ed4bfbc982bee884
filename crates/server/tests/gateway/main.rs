//! The gateway, tested with the real binary between real clients and real upstreams. Every test starts its own
//! gateway on ports that the kernel chooses, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod harness;

mod browser;
mod certificates;
mod drain;
mod expectations;
mod forwarding;
mod idle;
mod keys;
mod limits;
mod logs;
mod nginx_comparison;
mod protocols;
mod proxying;
mod refused_bodies;
mod reload;
mod resource_limits;
mod retries;
mod routing;
mod sizes;
mod slow_clients;
mod smuggling;
mod smuggling_http2;
mod streaming;
mod streams;
mod tls;
mod upstreams;
mod websocket;
