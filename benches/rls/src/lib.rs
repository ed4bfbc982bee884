//! Bounded load client for loopback, and shared code of the two baselines.

pub mod args;
pub mod grpc;
pub mod http1;
pub mod schedule;
pub mod tally;

/// The runtime of a baseline: `ct` is one thread, the reference of all ratios; `mt` has two work-stealing threads.
///
/// # Errors
/// If threads or epoll are unavailable.
pub fn runtime(mode: &str) -> std::io::Result<tokio::runtime::Runtime> {
    match mode {
        "mt" => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        _ => tokio::runtime::Builder::new_current_thread().enable_all().build(),
    }
}
