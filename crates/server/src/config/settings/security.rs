//! `security`: secrets, and who may ask.

use super::kind::PATH;
use super::later;
use super::reading::Section;
use std::path::PathBuf;

/// Secrets, and who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Security {
    /// What keys are hashed with; none: another at each start.
    pub(crate) key_seed_file: Option<PathBuf>,
}

pub(super) fn read(mut section: Section<'_, '_>) -> Security {
    later::security(&mut section);
    Security { key_seed_file: section.read("key_seed_file", &PATH) }
}
