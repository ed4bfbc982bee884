//! The messages of Envoy's rate limit service, generated from `proto/`. Calls are read
//! and written without them (`front/rls`), but for the names of units and codes; the
//! tests hold that codec to these.
#![expect(clippy::pedantic, clippy::allow_attributes_without_reason, unreachable_pub, reason = "generated")]

pub(crate) mod envoy {
    pub(crate) mod config {
        pub(crate) mod core {
            pub(crate) mod v3 {
                tonic::include_proto!("envoy.config.core.v3");
            }
        }
    }
    pub(crate) mod extensions {
        pub(crate) mod common {
            pub(crate) mod ratelimit {
                pub(crate) mod v3 {
                    tonic::include_proto!("envoy.extensions.common.ratelimit.v3");
                }
            }
        }
    }
    pub(crate) mod r#type {
        pub(crate) mod v3 {
            tonic::include_proto!("envoy.r#type.v3");
        }
    }
    pub(crate) mod service {
        pub(crate) mod ratelimit {
            pub(crate) mod v3 {
                tonic::include_proto!("envoy.service.ratelimit.v3");
            }
        }
    }
}

/// The descriptors of all these messages, for reflection and for their JSON form.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
