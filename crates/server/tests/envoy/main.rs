//! Hivemind behind a real Envoy, in front of a real upstream, driven over HTTP.
//!
//! Each test starts all three on ports and sockets of its own and stops them at its end, so none depends
//! on another. Limits are a year long: no test ever meets the edge of a window. The timeout of Envoy's
//! calls is generous and a failed call refuses the request, so that neither a slow machine nor a broken
//! service can look like a passed limit; `load` alone keeps Envoy's own 20 ms.

#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails and tells")]

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
