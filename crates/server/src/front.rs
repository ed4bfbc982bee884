//! What clients speak to.

pub(crate) mod grpc;
pub(crate) mod rls;
