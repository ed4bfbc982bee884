//! What clients speak to.

pub(crate) mod grpc;
pub(crate) mod rls;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the gateway calls it, once it is there"))]
pub(crate) mod websocket;
