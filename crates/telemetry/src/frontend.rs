//! Frontends: the entry points that a decision can come through.

/// The entry point of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frontend {
    /// Rate limit service over gRPC.
    Grpc,
    /// `/json` of the admin port.
    Json,
    Gateway,
}
