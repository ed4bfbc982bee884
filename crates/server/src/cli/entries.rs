//! The entries of a descriptor, as the command line has them.

use anyhow::anyhow;
use hivemind_core::Entry;

/// Each as key=value; the value may contain `=`, and may be empty.
pub(super) fn entries(written: &[String]) -> anyhow::Result<Vec<Entry<'_>>> {
    let no_entry = |entry: &String| anyhow!("`{entry}` is no entry; write key=value");
    written.iter().map(|entry| entry.split_once('=').ok_or_else(|| no_entry(entry))).collect()
}
