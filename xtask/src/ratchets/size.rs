//! Sizes: production lines of each crate, in steps of 250, and the length of files.

use super::Findings;
use crate::lines::{by_crate, is_production, ninetieth_percentile};
use crate::tree::Tree;

/// Small changes move no count, so that a commit of ten lines edits one file less.
const STEP: usize = 250;

pub(super) fn check(tree: &Tree, findings: &mut Findings) -> anyhow::Result<()> {
    let files = tree.files(is_production)?;
    for (name, lines) in by_crate(&files) {
        findings.set(
            format!("production lines: {name}"),
            lines.next_multiple_of(STEP),
            format!("crates/{name}: {lines} lines"),
        );
    }
    let length = ninetieth_percentile(&files);
    findings.set(
        "file length, 90th percentile",
        length,
        format!("{length} lines; `cargo xtask lines` lists crates"),
    );
    Ok(())
}
