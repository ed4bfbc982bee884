//! gRPC over HTTP/2, at the price of its transport: a runtime of one thread for each
//! core, connections dealt out to them, and the one call that counts answered in its
//! connection's own task. Everything else (health, reflection, methods that do not
//! exist) goes to tonic's routes on the same connection. See docs/decisions/009.

mod activity;
mod batch;
mod body;
mod call;
mod connection;
mod deadline;
mod gate;
mod message;
#[cfg(test)]
mod tests;
mod waits;
mod workers;

pub(crate) use workers::{Door, Patience, start_workers};
