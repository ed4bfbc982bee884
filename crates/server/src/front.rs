//! What clients speak to.

pub(crate) mod grpc;
pub(crate) mod rls;
#[cfg_attr(not(test), expect(dead_code, reason = "the gateway calls it, once it is there"))]
pub(crate) mod websocket;
