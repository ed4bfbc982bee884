//! Hivemind behind a real Envoy, in front of a real upstream, driven over HTTP.
//!
//! Each test starts all three on its own ports and sockets and stops them at its end, so tests are independent.
//! Limits are one year long: no test reaches the edge of a window. The timeout of Envoy's calls is generous and a
//! failed call refuses the request, so that a slow machine or a broken service cannot look like a passed limit;
//! `load` alone uses Envoy's default of 20 ms.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod actions;
mod actions_by_address;
mod answers;
mod debits;
mod load;
mod modes;
mod outage;
mod routing;

mod service;
mod stack;
