//! Metrics of refused access and of the files with keys and tokens.

use super::family::Family;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of refused access.
#[derive(Debug, Default)]
pub struct AccessMetrics {
    /// Calls and requests without a key, or with a wrong key or token.
    pub unauthenticated: AtomicU64,
    /// Calls and requests whose key does not grant access to the domain or the port.
    pub denied: AtomicU64,
    /// Files of keys and tokens that could not be loaded.
    pub file_errors: AtomicU64,
}

impl AccessMetrics {
    pub(super) fn families(&self) -> [Family; 2] {
        let refused =
            Family::counter("hivemind_access_refused_total", "Calls and requests that were not let in.");
        let errors = Family::gauge(
            "hivemind_access_file_errors",
            "Files of API keys and tokens that cannot be used as they are now.",
        );
        [
            refused
                .with([("reason", "unauthenticated")], self.unauthenticated.load(Ordering::Relaxed))
                .with([("reason", "permission_denied")], self.denied.load(Ordering::Relaxed)),
            errors.plain(self.file_errors.load(Ordering::Relaxed)),
        ]
    }
}
