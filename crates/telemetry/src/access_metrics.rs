//! What is counted of those who were not let in, and of the files that say who is.

use super::family::Family;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted of those who were not let in.
#[derive(Debug, Default)]
pub struct AccessMetrics {
    /// Calls and requests with no key, a wrong one or a wrong token.
    pub unauthenticated: AtomicU64,
    /// Those with a key that does not open what was asked for.
    pub denied: AtomicU64,
    /// Files of keys and tokens that are not in force as they are.
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
