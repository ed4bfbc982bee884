//! Load state of followed files.

use hivemind_core::{Clock, SystemClock, Timestamp};

/// Load state of followed files.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// When they were last activated.
    pub loaded: Option<Timestamp>,
    /// The error of the files on disk, as the command line prints it, and since when.
    pub refused: Option<(String, Timestamp)>,
}

impl Files {
    pub(super) fn loaded(&mut self) {
        *self = Self { loaded: Some(SystemClock.now()), refused: None };
    }

    pub(super) fn refused(&mut self, why: String) {
        self.refused = Some((why, SystemClock.now()));
    }

    pub(super) fn error(&self) -> Option<&String> {
        self.refused.as_ref().map(|(why, _)| why)
    }
}
