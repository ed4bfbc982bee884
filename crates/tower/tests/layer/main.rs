//! The layer in front of real servers, over real sockets, with a manual clock.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test helper may panic")]

mod answers;
mod dry_run;
mod events;
mod guard;
mod hostile;
mod limits;
mod modes;
mod named_endpoints;
mod nginx;
mod paths;
mod readiness;
mod refunds;
mod reload;
mod stores;
mod support;
mod upgrades;
mod websocket;
mod websocket_switches;
