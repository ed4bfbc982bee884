//! What is counted of those who were not let in, and of the files that say who is.

use super::exposition::head;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted of those who were not let in.
#[derive(Debug, Default)]
pub(crate) struct AccessFigures {
    /// Calls and requests with no key, a wrong one or a wrong token.
    pub(crate) unauthenticated: AtomicU64,
    /// Those with a key that does not open what was asked for.
    pub(crate) denied: AtomicU64,
    /// Files of keys and tokens that are not in force as they are.
    pub(crate) file_errors: AtomicU64,
}

impl AccessFigures {
    pub(super) fn write(&self, page: &mut String) -> fmt::Result {
        let name = "hivemind_access_refused";
        head(page, name, "counter", "Calls and requests that were not let in.")?;
        for (reason, count) in
            [("unauthenticated", &self.unauthenticated), ("permission_denied", &self.denied)]
        {
            writeln!(page, "{name}{{reason=\"{reason}\"}} {}", count.load(Ordering::Relaxed))?;
        }
        let name = "hivemind_access_file_errors";
        head(page, name, "gauge", "Files of API keys and tokens that cannot be used as they are now.")?;
        writeln!(page, "{name} {}", self.file_errors.load(Ordering::Relaxed))
    }
}
