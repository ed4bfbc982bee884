//! A bounded load client for loopback, and what the two floors share.

pub mod args;
pub mod grpc;
pub mod http1;
pub mod schedule;
pub mod tally;

/// The runtime of a floor: `ct` is one thread, the shape that all ratios are told to; `mt` has two that steal work.
///
/// # Errors
/// If the system gives no threads or no epoll.
pub fn runtime(mode: &str) -> std::io::Result<tokio::runtime::Runtime> {
    match mode {
        "mt" => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        _ => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    }
}
