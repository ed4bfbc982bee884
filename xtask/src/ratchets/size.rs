//! Sizes: production lines of each crate, in steps of 250, and the length of files.

use super::Findings;
use crate::lines::{by_crate, is_production, ninetieth_percentile};
use crate::tree::{File, Tree};

/// Small changes move no count, so that a commit of ten lines edits one file less.
const STEP: usize = 250;

pub(super) fn check(tree: &Tree, findings: &mut Findings) -> anyhow::Result<()> {
    check_files(&tree.files(is_production)?, findings);
    Ok(())
}

fn check_files(files: &[File], findings: &mut Findings) {
    for (name, lines) in by_crate(files) {
        findings.set(
            format!("production lines: {name}"),
            lines.next_multiple_of(STEP),
            format!("crates/{name}: {lines} lines"),
        );
    }
    let length = ninetieth_percentile(files);
    findings.set(
        "file length, 90th percentile",
        length,
        format!("{length} lines; `cargo xtask lines` lists crates"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(lines: &[usize]) -> Findings {
        let file = |(number, lines): (usize, &usize)| File {
            path: format!("crates/a/src/{number}.rs"),
            text: "line\n".repeat(*lines),
        };
        let mut findings = Findings::default();
        check_files(&lines.iter().enumerate().map(file).collect::<Vec<_>>(), &mut findings);
        findings
    }

    #[test]
    fn lines_of_a_crate_are_counted_in_steps() {
        for (lines, count) in [(1, 250), (250, 250), (251, 500)] {
            assert_eq!(sizes(&[lines]).count("production lines: a"), count, "{lines}");
        }
    }

    #[test]
    fn file_length_is_the_ninetieth_percentile() {
        let one_of_eleven_is_long = [10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 400];
        assert_eq!(sizes(&one_of_eleven_is_long).count("file length, 90th percentile"), 10);
        assert_eq!(sizes(&[10, 10, 10, 10, 400, 400]).count("file length, 90th percentile"), 400);
    }
}
