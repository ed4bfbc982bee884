//! Descriptor entries on the command line.

use hivemind_core::Entry;

/// A usage error that concerns more than one argument; the exit status is 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotUnderstood(pub(super) String);

/// Parses each as key=value; the value may contain `=`, and may be empty.
pub(super) fn entries(written: &[String]) -> Result<Vec<Entry<'_>>, NotUnderstood> {
    let not_entry = |entry: &String| NotUnderstood(format!("`{entry}` is not an entry; write key=value"));
    written.iter().map(|entry| entry.split_once('=').ok_or_else(|| not_entry(entry))).collect()
}
