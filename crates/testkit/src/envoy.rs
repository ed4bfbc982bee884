//! A real Envoy of a test's own: its configuration, its process, and a blocking HTTP client and upstream for it.

pub mod bootstrap;
pub mod deadline;
pub mod http;
pub mod process;
pub mod proxy;
pub mod upstream;
