//! A deadline for every wait.

use std::time::Duration;

/// Longer than any event takes on a slow machine. An event that has not happened by then has failed.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Waits for an event, and fails with its description after the deadline.
pub async fn within<T>(what: &str, event: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(DEADLINE, event).await;
    happened.unwrap_or_else(|_| panic!("waited {DEADLINE:?} for {what}"))
}
