//! The entries of a descriptor, as the command line has them.

use hivemind_core::Entry;

/// What stands on the command line and is not understood, where it is no matter of one argument alone.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotUnderstood(pub(super) String);

/// Each as key=value; the value may contain `=`, and may be empty.
pub(super) fn entries(written: &[String]) -> Result<Vec<Entry<'_>>, NotUnderstood> {
    let no_entry = |entry: &String| NotUnderstood(format!("`{entry}` is no entry; write key=value"));
    written.iter().map(|entry| entry.split_once('=').ok_or_else(|| no_entry(entry))).collect()
}
