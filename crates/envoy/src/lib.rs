//! Envoy's rate limit service: the gRPC transport and the codec of its messages. Terms: `docs/GLOSSARY.md`.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

pub mod grpc;
pub mod proto;
pub mod rls;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod testing;
