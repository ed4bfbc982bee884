//! What every test of the service needs.

mod asked;
mod http;
pub(crate) mod log;
mod server;
mod shown;

pub(crate) use asked::{peek, request};
pub(crate) use http::{Page, exchange, get, post};
pub(crate) use log::Log;
pub(crate) use server::{Client, Server, Setup, hivemind};
pub(crate) use shown::{headers, overall, shown, statuses};

use std::time::Duration;

/// However slow the machine is: what has not happened by then will not happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// Waits for something to happen.
pub(crate) async fn within<T>(what: &str, event: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(DEADLINE, event).await;
    happened.unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"))
}
