//! Shared support code of the integration tests: processes, clients, certificates and short forms. Terms:
//! `docs/GLOSSARY.md`.
//!
//! Every process gets a folder of its own and ports that the kernel chooses, and is killed when its handle is
//! dropped. Every wait has a deadline; tests never sleep. The crate is a dev-dependency and is not published.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    clippy::new_without_default,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    missing_docs,
    reason = "test support: a failure is a panic"
)]

pub mod app;
pub mod authority;
pub mod browser;
pub mod client;
mod deadline;
pub mod envoy;
pub mod http2;
mod log;
pub mod mesh;
pub mod openapi;
mod page;
mod program;
pub mod proto;
pub mod redis;
mod request;
mod response;
mod server;

pub use deadline::{DEADLINE, within};
pub use log::Log;
pub use page::{Page, exchange, get, post};
pub use program::{binary, may_be_missing, repository};
pub use request::{peek, request};
pub use response::{headers, overall, status_summary, statuses};
pub use server::{Client, Server, Setup, hivemind};
