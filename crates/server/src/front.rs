//! What clients speak to.

pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod rls;
pub(crate) mod websocket;
