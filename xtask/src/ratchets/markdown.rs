//! Long lines in Markdown: over 120 characters a change is unreadable in a diff.

use super::Findings;
use crate::lines::has_extension;
use crate::tree::Tree;

const LONGEST: usize = 120;

pub(super) fn check(tree: &Tree, findings: &mut Findings) -> anyhow::Result<()> {
    for file in tree.files(|path| has_extension(path, "md"))? {
        for number in long_lines(&file.text) {
            findings.add("markdown lines over 120", format!("{}:{number}", file.path));
        }
    }
    Ok(())
}

fn long_lines(text: &str) -> impl Iterator<Item = usize> {
    (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > LONGEST).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    #[test]
    fn characters_are_counted_not_bytes() {
        let text = format!("{}\n{}\nshort\n", "é".repeat(120), "e".repeat(121));
        assert_eq!(super::long_lines(&text).collect::<Vec<_>>(), [2]);
    }
}
