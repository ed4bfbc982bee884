//! Long lines in Markdown: over 120 characters a change is unreadable in a diff.

use super::Findings;
use crate::lines::has_extension;
use crate::tree::{File, Tree};

const LONGEST: usize = 120;

pub(super) fn check(tree: &Tree, findings: &mut Findings) -> anyhow::Result<()> {
    check_files(&tree.files(|path| has_extension(path, "md"))?, findings);
    Ok(())
}

fn check_files(files: &[File], findings: &mut Findings) {
    for file in files {
        for number in long_lines(&file.text) {
            findings.add("markdown lines over 120", format!("{}:{number}", file.path));
        }
    }
}

fn long_lines(text: &str) -> impl Iterator<Item = usize> {
    (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > LONGEST).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_counts_with_its_place() {
        let file = File { path: "docs/a.md".to_owned(), text: format!("short\n{}\n", "e".repeat(121)) };
        let mut findings = Findings::default();
        check_files(&[file], &mut findings);
        assert_eq!(findings.places("markdown lines over 120"), ["docs/a.md:2"]);
    }

    #[test]
    fn characters_are_counted_not_bytes() {
        let text = format!("{}\n{}\nshort\n", "é".repeat(120), "e".repeat(121));
        assert_eq!(long_lines(&text).collect::<Vec<_>>(), [2]);
    }
}
