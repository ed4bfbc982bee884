//! gRPC over HTTP/2 at low cost: one single-threaded runtime per core, and `ShouldRateLimit` calls answered within the
//! task of their connection. All other calls (health, reflection, unknown methods) go to tonic's routes on the same
//! connection. See docs/decisions/009.

mod activity;
mod api_key;
mod batch;
mod body;
mod call;
mod connection;
mod connection_schedule;
mod deadline;
mod message;
#[cfg(test)]
mod tests;
mod wait;
mod workers;

pub use workers::{CallerAuth, GrpcConnection, GrpcTimeouts, start_workers};
